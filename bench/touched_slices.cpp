// touched_slices: the slices of a model that the prompt of a recorded trace needs, each counted once.
//
//   touched_slices MODEL TRACE
//
// Prints the number of tokens in the prompt, the number of distinct slices that their routes use, the bytes of these
// slices, and the bytes of their windows, which is the size of the reads.
#include "base/error.h"
#include "lab/trace/trace.h"
#include "layout/layout.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <string>

namespace {

using namespace larder;

// The experts of a routed layer that the tokens of the prompt use. Tokens that were not evaluated in this layer have
// none.
std::set<uint32_t> experts_of(const RoutingTrace &trace, size_t layer) {
    std::set<uint32_t> experts;
    for (const TraceToken &token : trace.tokens) {
        for (size_t k = 0; token.phase == TracePhase::prefill && k < trace.top_k; k++) {
            const int32_t expert = token.experts[layer * trace.top_k + k];
            if (expert >= 0) {
                experts.insert(static_cast<uint32_t>(expert));
            }
        }
    }
    return experts;
}

void print_touched(const ModelLayout &layout, const RoutingTrace &trace) {
    uint64_t n_slice = 0;
    uint64_t slice_bytes = 0;
    uint64_t window_bytes = 0;
    for (size_t i = 0; i < trace.layers.size(); i++) {
        const std::set<uint32_t> experts = experts_of(trace, i);
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            if (tensor.layer != trace.layers[i]) {
                continue;
            }
            for (const uint32_t expert : experts) {
                if (expert >= tensor.n_expert) {
                    throw Error(ErrorKind::model, fmt::format("the trace names expert {} of layer {}", expert, i),
                                "give the trace that was recorded of this model");
                }
                n_slice++;
                slice_bytes += tensor.slice_bytes;
                window_bytes += window_of(layout.slice_extent(tensor, expert)).bytes;
            }
        }
    }
    size_t n_token = 0;
    for (const TraceToken &token : trace.tokens) {
        n_token += token.phase == TracePhase::prefill ? 1 : 0;
    }
    fmt::print("tokens {}\nslices {}\nslice_bytes {}\nwindow_bytes {}\n", n_token, n_slice, slice_bytes, window_bytes);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        fmt::print(stderr, "usage: touched_slices MODEL TRACE\n");
        return exit_code(ErrorKind::usage);
    }
    try {
        print_touched(open_layout(argv[1]), read_trace(argv[2]));
        return 0;
    } catch (const Error &error) {
        fmt::print(stderr, "touched_slices: {}\n", error.what());
        return exit_code(error.kind());
    }
}
