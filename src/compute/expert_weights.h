// expert_weights.h — what hangs on the `extra` of an expert tensor: whose it is, and scratch for the op.
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

struct BadId { // that names no expert
    const ExpertTensor *tensor = nullptr;
    int32_t id = 0;
};

// Shared by the ops of one binding. Only one op runs at a time, so one of it is enough.
struct OpScratch {
    std::vector<SliceIndex> demanded;
    std::vector<SliceIndex> following;
    std::vector<uint32_t> demanded_expert;     // the expert of demanded[i]
    std::vector<uint32_t> demanded_rows;       // how many tokens go through it
    std::vector<std::atomic<bool>> multiplied; // by place in `demanded`
    std::atomic<uint32_t> next_chunk{0};
    std::atomic<int> threads_left{0};               // that are still in the op; the last one ends the batch
    std::vector<std::atomic<uint32_t>> chunks_left; // by position in the ready order
    std::atomic<bool> abort_requested{false};
    std::optional<BadId> bad_id; // the first one. Written by the op's first thread
    // Which expert tensors of the MoE layer have run since it began: the first one to run announces the slices of the
    // others. A layer begins when the number changes or a tensor comes up again.
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
    const RepackedKernel *kernel = nullptr; // null: the weights stay as they are in the file
    void *repack_traits = nullptr;
    bool gemm = false;                          // where there is a kernel: gemm for groups of four rows
    uint32_t bit = 0;                           // of `seen`
    std::vector<const ExpertTensor *> siblings; // the other expert tensors of the same MoE layer
};

} // namespace larder
