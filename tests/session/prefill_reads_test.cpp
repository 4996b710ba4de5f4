// The bytes that a prefill reads, against its recorded routing: no slice is read twice, whatever the size of the arena.
#include "support/model_fixture.h"

#include "lab/recorder/recorder.h"
#include "lab/trace/trace.h"
#include "layout/layout.h"

#include <set>
#include <utility>

namespace larder::test {
namespace {

struct Touched {
    uint64_t n_slice = 0;
    uint64_t window_bytes = 0; // whole disk blocks
};

// The distinct slices that a routing trace needs.
Touched touched_by(const RoutingTrace &trace, const ModelLayout &layout) {
    std::set<std::pair<uint32_t, uint32_t>> experts; // layer and expert
    for (const TraceToken &token : trace.tokens) {
        for (size_t i = 0; i < token.experts.size(); i++) {
            if (token.experts[i] >= 0) {
                experts.emplace(trace.layers[i / trace.top_k], static_cast<uint32_t>(token.experts[i]));
            }
        }
    }
    Touched touched;
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        for (const auto &[layer, expert] : experts) {
            if (layer == tensor.layer) {
                touched.n_slice++;
                touched.window_bytes += window_of(layout.slice_extent(tensor, expert)).bytes;
            }
        }
    }
    return touched;
}

class PrefillReads : public testing::TestWithParam<int> {};

TEST_P(PrefillReads, EachDistinctSliceOnceInAnArenaOfThisPercentOfALayersExperts) {
    static const SmallModel model(
        "--arch qwen3moe --quant q4_k_m --layers 3 --experts 128 --top-k 4 --embd 256 --ff 256");
    const ModelLayout layout = open_layout(model.path());
    TestOptions options = model.options();
    options.model.context.batch_tokens = 64;
    options.model.context.ubatch_tokens = 64;
    const std::string trace = model.path() + ".trace";
    RouteRecorder recorder(trace);
    options.model.observer = &recorder;
    options.runtime.plan.arena_bytes = layout.routed_bytes / layout.n_layer * static_cast<uint64_t>(GetParam()) / 100;
    const std::unique_ptr<OpenModel> engine = open_as(options);
    Session session(*engine, greedy());
    session.prefill(some_tokens(64, engine->n_vocab()));
    recorder.close();

    const Touched touched = touched_by(read_trace(trace), layout);
    const StoreStats stats = engine->figures().store;
    EXPECT_GT(touched.n_slice, layout.n_slice / 2) << "the prompt needs most experts of a layer";
    EXPECT_GT(stats.evictions, 0U);
    EXPECT_EQ(stats.slice_reads, touched.n_slice);
    EXPECT_EQ(stats.bytes_read, touched.window_bytes);
}

INSTANTIATE_TEST_SUITE_P(Arenas, PrefillReads, testing::Values(30, 50, 80, 90, 100, 130, 190));

} // namespace
} // namespace larder::test
