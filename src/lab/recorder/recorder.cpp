#include "lab/recorder/recorder.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace larder {

namespace {

// The layer numbers of the MoE layers that route among all of the model's experts.
std::vector<uint32_t> traced_layers(const ModelLayout &layout) {
    std::vector<uint32_t> layers;
    int64_t moe_layer_last = -1;
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        if (tensor.n_expert == layout.n_expert && tensor.moe_layer > moe_layer_last) {
            layers.push_back(tensor.layer);
            moe_layer_last = tensor.moe_layer;
        }
    }
    return layers;
}

} // namespace

RouteRecorder::RouteRecorder(std::string path) : path_(std::move(path)) {}
RouteRecorder::~RouteRecorder() = default;

void RouteRecorder::model_opens(const ModelLayout &layout) {
    if (layout.expert_tensors.empty()) {
        throw Error(ErrorKind::usage, fmt::format("{} is a dense model: it has no routes", layout.files.front()),
                    "leave out --trace");
    }
    top_k_ = layout.n_expert_used;
    writer_ = std::make_unique<TraceWriter>(path_, layout.architecture, layout.n_expert, layout.n_expert_used,
                                            traced_layers(layout));
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        traced_layer_of_.resize(std::max<size_t>(traced_layer_of_.size(), tensor.moe_layer + 1), not_traced);
        if (tensor.n_expert == layout.n_expert && traced_layer_of_[tensor.moe_layer] == not_traced) {
            traced_layer_of_[tensor.moe_layer] = n_layer_++;
        }
    }
}

void RouteRecorder::routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept {
    const uint32_t layer = traced_layer_of_[moe_layer];
    if (layer == not_traced || top_k != top_k_) {
        return;
    }
    try {
        if (ubatches_.empty() || layer <= layer_last_) {
            ubatches_.push_back({std::vector<Layer>(n_layer_)});
        }
        ubatches_.back().layers[layer].experts.assign(experts.begin(), experts.end());
        layer_last_ = layer;
    } catch (const std::bad_alloc &) {
        out_of_memory_ = true;
    }
}

void RouteRecorder::step_done(bool decode) {
    const std::vector<Ubatch> ubatches = std::exchange(ubatches_, {}); // emptied even if writing fails
    if (std::exchange(out_of_memory_, false)) {
        throw Error(ErrorKind::io, "out of memory while recording the routes", "lower -b, or leave out --trace");
    }
    for (const Ubatch &ubatch : ubatches) {
        write(ubatch, decode ? TracePhase::decode : TracePhase::prefill);
    }
}

void RouteRecorder::write(const Ubatch &ubatch, TracePhase phase) {
    size_t choices = 0; // of the layer that has all tokens
    for (const Layer &layer : ubatch.layers) {
        choices = std::max(choices, layer.experts.size());
    }
    for (size_t first = 0; first < choices; first += top_k_) {
        TraceToken token{phase, std::vector<int32_t>(size_t{n_layer_} * top_k_, -1)};
        for (size_t l = 0; l < ubatch.layers.size(); l++) {
            const std::vector<int32_t> &experts = ubatch.layers[l].experts;
            const size_t absent = choices - experts.size(); // choices missing for the first tokens
            if (first >= absent) {
                std::copy_n(experts.begin() + static_cast<std::ptrdiff_t>(first - absent), top_k_,
                            token.experts.begin() + static_cast<std::ptrdiff_t>(l * top_k_));
            }
        }
        writer_->write(token);
    }
}

void RouteRecorder::step_failed() noexcept {
    ubatches_.clear();
    out_of_memory_ = false;
}

void RouteRecorder::close() {
    if (writer_ != nullptr) {
        writer_->close();
    }
}

} // namespace larder
