// plan.h — the memory budget of the whole process, determined once, before the first weight is read.
//
//   arena = budget - resident - kv - compute - overhead - reserve
//
// make_plan() is a pure function of the model (layout), of llama.cpp's allocations (FixedBytes, which the runtime
// measures without allocating), of the available memory (Machine) and of the plan options (PlanOptions).
//
// The floor is the size of one token's experts: a smaller cache evicts every expert before its next use and never has a
// hit. Each size class gets at least as many slots as one token uses in it. The rest of the arena is divided in
// proportion to the bytes that one token uses in each class, until a class is full.
//
// Units: bytes, and slots where stated. Threads: any. Errors: Error(budget), whose remedies name the smallest budget,
// arena or share that works. The budget is two MiB above the measured need, because the next measurement may be that
// much higher.
#pragma once

#include "layout/layout.h"
#include "machine/machine.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// --- input ---

struct FixedBytes {
    uint64_t resident = 0;  // resident weights
    uint64_t kv = 0;        // KV cache and recurrent state
    uint64_t compute = 0;   // compute buffers and outputs
    uint64_t overhead = 0;  // code, vocabulary, allocator slack: all other memory that the process holds
    uint64_t transient = 0; // transient memory, inside the reserve: the need of tokenising the longest text
};

// The plan options: settings of the user.
struct PlanOptions {
    std::optional<uint64_t> budget_bytes;  // --ram; absent: the available memory that no other process has claimed
    std::optional<uint64_t> reserve_bytes; // --reserve; absent: default_reserve(). Raised if it must hold more.
    std::optional<uint64_t> arena_bytes;   // --arena: maximum for experts; absent: no maximum
    // --cache: the arena is exactly this share (above 0, up to 1) of all experts; arena_bytes is ignored. Without
    // budget_bytes, the budget is the smallest that holds this arena.
    std::optional<double> cache_share;
    bool overcommit = false; // --overcommit: accept a budget above the available memory
};

// --- result ---

struct MemoryPlan {
    uint64_t budget_bytes = 0;
    std::string budget_source; // "--ram", "--cache", or the limit that bounds the machine
    FixedBytes fixed;
    uint64_t reserve_bytes = 0;
    uint64_t arena_bytes = 0;    // of the slots below; at most the size of all experts
    uint64_t floor_bytes = 0;    // floor_bytes() of the layout
    uint64_t spare_bytes = 0;    // budget that is not needed
    std::vector<uint64_t> slots; // by size class of the layout
    uint32_t ubatch_tokens = 0;  // the ubatch that `fixed` was measured with, if choose_ubatch() made the plan
};

// Throws Error(budget) if the arena would be smaller than the floor or than --cache requires, or if the budget is above
// the available memory and overcommit is off. A dense model has a floor of 0 and no slots.
MemoryPlan make_plan(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                     const PlanOptions &options);

// The smallest budget in whole MiB that make_plan() accepts, including two MiB for the next measurement.
uint64_t smallest_budget(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options);

// The budget that make_plan() uses without --cache: --ram, or the available memory that no other process has claimed.
uint64_t budget_of(const PlanOptions &options, const Machine &machine);

// min(budget / 16, 1 GiB)
uint64_t default_reserve(uint64_t budget_bytes);

// --- sizes of arenas ---

// The slots of a class that one token uses, and the bytes of these slots in all classes: the floor.
uint64_t floor_slots(const SizeClass &size_class);
uint64_t floor_bytes(const ModelLayout &layout);
// The bytes of slots for all experts.
uint64_t all_experts_bytes(const ModelLayout &layout);
// The arena bytes for a share (0 to 1) of all experts.
uint64_t cache_bytes(const ModelLayout &layout, double share);
// Whether every slice has a slot. True for a dense model.
bool holds_all_experts(const ModelLayout &layout, const MemoryPlan &plan);
// The share of the experts that fit into the slots: the minimum over the size classes, because an expert is cached only
// if all its slices are. 1 for a dense model.
double cached_share(const ModelLayout &layout, const MemoryPlan &plan);

// --- comparison with the memory in use ---

// The plan without reserve and spare: the maximum that the process should hold, except for transient memory.
uint64_t planned_bytes(const MemoryPlan &plan);
// planned_bytes() plus the reserve: the memory that other processes must leave to this one.
uint64_t claimed_bytes(const MemoryPlan &plan);
// A warning if the process used over 2 % more than planned_bytes() plus the transient memory; empty otherwise. Resident
// weights, KV cache, compute buffers and arena are allocations of the planned size, so the difference is overhead.
std::string above_plan(const MemoryPlan &plan, uint64_t peak_rss_bytes);

// --- the ubatch ---

// The ubatches to choose from if the user specifies none, largest first: 512, 256, 128, 64 and 32 tokens, but none
// above the context, and the context itself if it is less than 512.
std::vector<uint32_t> ubatch_candidates(uint32_t ctx_tokens);

// The allocations with ubatches of `ubatch_tokens` tokens.
using FixedOfUbatch = std::function<FixedBytes(uint32_t ubatch_tokens)>;

// The plan with the largest of `candidates` (largest first, not empty) whose arena is at least 7/8 of the arena with
// the smallest candidate; if all experts fit with the smallest, they must fit with the chosen one too. Larger ubatches
// read less in prefill, but their compute buffers reduce the arena. `fixed_of` is slow and called for no more
// candidates than needed: for the largest (the only one if all experts fit), then for the smallest, then for the others
// in descending order. Throws the errors of make_plan() for the smallest.
MemoryPlan choose_ubatch(const std::vector<uint32_t> &candidates, const FixedOfUbatch &fixed_of,
                         const ModelLayout &layout, const Machine &machine, const PlanOptions &options);

// --- the context ---

// llama.cpp's contexts are multiples of this number of tokens.
inline constexpr uint32_t ctx_tokens_step = 256;

// The context that llama.cpp makes for `asked_tokens`: rounded up to a multiple of ctx_tokens_step.
uint32_t rounded_context(uint32_t asked_tokens);
// "-c 64 becomes 256: ..."; empty if no rounding is necessary.
std::string rounded_context_note(uint32_t asked_tokens);

// The budget that a context of `ctx_tokens` needs. It must grow with `ctx_tokens`.
using NeedOfContext = std::function<uint64_t(uint32_t ctx_tokens)>;

// The largest multiple of ctx_tokens_step below `refused_tokens` that needs at most `budget_bytes`; none if there is
// none. `need_of` is slow and called about four times if the need is linear.
std::optional<uint32_t> largest_context(uint32_t refused_tokens, uint64_t budget_bytes, const NeedOfContext &need_of);

} // namespace larder
