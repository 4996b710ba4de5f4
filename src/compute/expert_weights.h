// expert_weights.h — the data that `extra` of an expert tensor points to, and scratch memory for the operation (private
// to compute).
#pragma once

#include "compute/compute.h"
#include "compute/interleaved.h"
#include "layout/layout.h"
#include "store/store.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace larder {

struct BadId { // an id without an expert
    const ExpertTensor *tensor = nullptr;
    int32_t id = 0;
};

// Shared by the operations of one binding, which run one at a time.
struct OpScratch {
    std::vector<SliceIndex> demanded;
    std::vector<SliceIndex> following;
    std::vector<uint32_t> demanded_expert;     // the expert of demanded[i]
    std::vector<uint32_t> demanded_rows;       // number of tokens that use it
    std::vector<std::atomic<bool>> multiplied; // by index in `demanded`
    std::atomic<uint32_t> next_chunk{0};
    std::atomic<int> threads_left{0}; // threads still in the operation; the last one ends the batch
    std::atomic<bool> abort_requested{false};
    std::optional<BadId> bad_id; // the first one. Written by the operation's first thread
    // The expert tensors of the MoE layer whose operation has run since the layer began, as bits. The first one also
    // announces the slices of the others. A layer begins when the number changes or a tensor occurs again.
    int64_t moe_layer = -1;
    uint32_t seen = 0;
    OnRoute on_route;
    OnUnread on_unread;
    std::vector<int32_t> route; // of one MoE layer, for on_route
};

struct ExpertWeights {
    ExpertStore *store = nullptr;
    OpScratch *scratch = nullptr;
    const ExpertTensor *tensor = nullptr;
    const RepackedKernel *kernel = nullptr; // null: the weights stay as in the file
    void *repack_traits = nullptr;
    bool gemm = false;                          // only with a kernel: gemm for groups of four rows
    uint32_t bit = 0;                           // bit in OpScratch::seen
    std::vector<const ExpertTensor *> siblings; // the other expert tensors of the MoE layer
};

} // namespace larder
