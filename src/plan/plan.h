// plan.h — the memory budget of the whole process, decided once, before the first weight is read.
//
//   arena = budget - resident - kv - compute - overhead - reserve
//
// make_plan() is a pure function of what the model is (layout), what llama.cpp will allocate (FixedBytes, measured by
// the engine without allocating), what the machine can give (Machine) and what the user wishes. It throws Error(budget)
// with the smallest budget that works when the arena would be below the floor.
//
// The floor is one token's experts: a cache that holds less evicts every expert before its next use, so that nothing is
// ever hit. Each size class has at least the slots one token touches in it, and of the rest of the arena a share in
// proportion to the bytes one token touches in it, until it is full.
//
// Units: bytes, and slots where it says so.
#pragma once

#include "layout/layout.h"
#include "machine/machine.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace larder {

struct FixedBytes {
    uint64_t resident = 0; // weights that stay in RAM
    uint64_t kv = 0;       // KV cache and recurrent state
    uint64_t compute = 0;  // compute buffers and outputs
    uint64_t overhead = 0; // code, vocabulary, allocator slack: what the process holds besides
    uint64_t passing = 0;  // taken between tokens and given back: tokenising the longest text. The reserve holds it.
};

struct PlanWishes {
    std::optional<uint64_t> budget_bytes;  // --ram; absent: what the machine can give
    std::optional<uint64_t> reserve_bytes; // --reserve; absent: default_reserve(). More where it has to hold more.
    std::optional<uint64_t> arena_bytes;   // --arena: at most this much of it for experts; absent: all there is
    // --cache: the arena is this share (above 0, up to 1) of all experts and nothing less, whatever arena_bytes says.
    // Without budget_bytes the budget is then the smallest that holds it.
    std::optional<double> cache_share;
    bool overcommit = false; // --overcommit: a budget above what the machine can give is accepted
};

struct MemoryPlan {
    uint64_t budget_bytes = 0;
    std::string budget_source; // "--ram", "--cache" or Machine::source
    FixedBytes fixed;
    uint64_t reserve_bytes = 0;
    uint64_t arena_bytes = 0;    // of the slots below, never more than all experts need
    uint64_t floor_bytes = 0;    // arena of one token's experts
    uint64_t spare_bytes = 0;    // budget that nothing needs
    std::vector<uint64_t> slots; // per size class of the layout
    uint32_t ubatch_tokens = 0;  // that `fixed` is for, where choose_ubatch() made the plan
};

// What the plan holds without reserve and spare: the most that the process should ever take, but for what passes.
uint64_t planned_bytes(const MemoryPlan &plan);
// What to tell where the process took over 2 % more than that and what passes; empty where it did not. Resident
// weights, KV cache, compute buffers and arena are allocations of the planned size, so what is more is overhead.
std::string above_plan(const MemoryPlan &plan, uint64_t peak_rss_bytes);

// min(budget / 16, 1 GiB)
uint64_t default_reserve(uint64_t budget_bytes);

// Throws Error(budget) when the arena would be below the floor or what --cache asks for (naming the smallest budget in
// MiB, or --arena, or --cache, that works, two MiB above what this measurement needs, as the next one may be a little
// more), or when the budget is above what the machine can give and overcommit is off. A dense model has floor 0 and no
// slots.
MemoryPlan make_plan(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                     const PlanWishes &wishes);

// The smallest budget in whole MiB that make_plan() accepts, that MiB included.
uint64_t smallest_budget(const ModelLayout &layout, const FixedBytes &fixed, const PlanWishes &wishes);

// Slots for one token's experts: the floor.
uint64_t floor_bytes(const ModelLayout &layout);
// Slots for all experts.
uint64_t all_experts_bytes(const ModelLayout &layout);
// The share of the experts that the slots hold: of the size class that has the fewest, as an expert is there only with
// all its slices. 1 for a dense model.
double cached_share(const ModelLayout &layout, const MemoryPlan &plan);

// The ubatches to choose from where the user names none, largest first: 512, 256, 128, 64 and 32 tokens, but none above
// the context, and the context itself if that is less than 512.
std::vector<uint32_t> ubatch_candidates(uint32_t ctx_tokens);

// What will be allocated with ubatches of so many tokens.
using FixedOfUbatch = std::function<FixedBytes(uint32_t ubatch_tokens)>;

// The plan with the largest of `candidates` (largest first, not empty) that leaves the arena at least 7/8 of what the
// smallest leaves it, and all experts in it if that does: larger ubatches read less in prefill, but their compute
// buffers are taken from the arena. Asks `fixed_of`, which takes time, for no more candidates than it needs: first the
// largest, alone if all experts fit beside it, then the smallest, then the others downwards. Throws what make_plan()
// throws for the smallest.
MemoryPlan choose_ubatch(const std::vector<uint32_t> &candidates, const FixedOfUbatch &fixed_of,
                         const ModelLayout &layout, const Machine &machine, const PlanWishes &wishes);

// llama.cpp's contexts are multiples of this many tokens.
inline constexpr uint32_t ctx_tokens_step = 256;

// The budget that a context of so many tokens needs; grows with it.
using NeedOfContext = std::function<uint64_t(uint32_t ctx_tokens)>;

// The largest multiple of ctx_tokens_step below `refused_tokens` that needs no more than `budget_bytes`; none if there
// is none.
// Asks `need_of`, which takes time, about four times where the need is a straight line.
std::optional<uint32_t> largest_context(uint32_t refused_tokens, uint64_t budget_bytes, const NeedOfContext &need_of);

} // namespace larder
