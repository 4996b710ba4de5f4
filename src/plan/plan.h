// plan.h — the memory budget of the whole process, decided once, before the first weight is read.
//
//   arena = budget - resident - kv - compute - overhead - reserve
//
// make_plan() is a pure function of the model (layout), what llama.cpp will allocate (FixedBytes, measured by the
// engine without allocating), what the machine gives (Machine) and what the user asked for (PlanOptions).
//
// The floor is one token's experts: a cache that holds less evicts every expert before its next use, so nothing is ever
// hit. Each size class has at least the slots that one token touches in it. The rest of the arena is shared in
// proportion to the bytes that one token touches in each class, until a class is full.
//
// Units: bytes, and slots where it says so. Threads: any. Errors: Error(budget), whose remedies name the smallest
// budget, arena or share that works, two MiB above what this measurement needs, as the next one may need that much
// more.
#pragma once

#include "layout/layout.h"
#include "machine/machine.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// --- what goes in ---

struct FixedBytes {
    uint64_t resident = 0;  // weights that stay in RAM
    uint64_t kv = 0;        // KV cache and recurrent state
    uint64_t compute = 0;   // compute buffers and outputs
    uint64_t overhead = 0;  // code, vocabulary, allocator slack: what the process holds besides
    uint64_t transient = 0; // short-lived, inside the reserve: what tokenising the longest text takes
};

// What the user asked for.
struct PlanOptions {
    std::optional<uint64_t> budget_bytes;  // --ram; absent: what the machine gives and nobody has claimed
    std::optional<uint64_t> reserve_bytes; // --reserve; absent: default_reserve(). Raised where it must hold more.
    std::optional<uint64_t> arena_bytes;   // --arena: at most this much for experts; absent: all there is
    // --cache: the arena is this share (above 0, up to 1) of all experts and nothing less, whatever arena_bytes says.
    // Without budget_bytes the budget is then the smallest that holds it.
    std::optional<double> cache_share;
    bool overcommit = false; // --overcommit: a budget above what the machine gives is accepted
};

// --- what comes out ---

struct MemoryPlan {
    uint64_t budget_bytes = 0;
    std::string budget_source; // "--ram", "--cache" or what bounds the machine
    FixedBytes fixed;
    uint64_t reserve_bytes = 0;
    uint64_t arena_bytes = 0;    // of the slots below, never more than all experts need
    uint64_t floor_bytes = 0;    // floor_bytes() of the layout
    uint64_t spare_bytes = 0;    // budget that nothing needs
    std::vector<uint64_t> slots; // per size class of the layout
    uint32_t ubatch_tokens = 0;  // that `fixed` is for, where choose_ubatch() made the plan
};

// Throws Error(budget) when the arena would be below the floor or what --cache asks for, or when the budget is above
// what the machine gives and overcommit is off. A dense model has floor 0 and no slots.
MemoryPlan make_plan(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                     const PlanOptions &options);

// The smallest budget in whole MiB that make_plan() accepts, two MiB for the next measurement included.
uint64_t smallest_budget(const ModelLayout &layout, const FixedBytes &fixed, const PlanOptions &options);

// The budget that make_plan() takes, without --cache: --ram, or what the machine gives and nobody has claimed.
uint64_t budget_of(const PlanOptions &options, const Machine &machine);

// min(budget / 16, 1 GiB)
uint64_t default_reserve(uint64_t budget_bytes);

// --- sizes of arenas ---

// The slots of a class that one token touches, and their bytes in all classes: the floor.
uint64_t floor_slots(const SizeClass &size_class);
uint64_t floor_bytes(const ModelLayout &layout);
// Slots for all experts.
uint64_t all_experts_bytes(const ModelLayout &layout);
// The arena of a share (0 to 1) of all experts.
uint64_t cache_bytes(const ModelLayout &layout, double share);
// Whether every slice has a slot. True for a dense model.
bool holds_all_experts(const ModelLayout &layout, const MemoryPlan &plan);
// The share of the experts that the slots hold: of the size class that has the fewest, as an expert is cached only with
// all its slices. 1 for a dense model.
double cached_share(const ModelLayout &layout, const MemoryPlan &plan);

// --- the plan beside what was taken ---

// The parts without reserve and spare: the most that the process should hold, but for transient memory.
uint64_t planned_bytes(const MemoryPlan &plan);
// planned_bytes() and the reserve: what other processes have to leave to this one.
uint64_t claimed_bytes(const MemoryPlan &plan);
// A warning where the process took over 2 % more than planned_bytes() and the transient memory; empty where it did not.
// Resident weights, KV cache, compute buffers and arena are allocations of the planned size, so the rest is overhead.
std::string above_plan(const MemoryPlan &plan, uint64_t peak_rss_bytes);

// --- the ubatch ---

// The ubatches to choose from where the user names none, largest first: 512, 256, 128, 64 and 32 tokens, but none above
// the context, and the context itself if that is less than 512.
std::vector<uint32_t> ubatch_candidates(uint32_t ctx_tokens);

// What will be allocated with ubatches of so many tokens.
using FixedOfUbatch = std::function<FixedBytes(uint32_t ubatch_tokens)>;

// The plan with the largest of `candidates` (largest first, not empty) that leaves the arena at least 7/8 of what the
// smallest leaves it, and all experts in it if that does: larger ubatches read less in prefill, but their compute
// buffers are taken from the arena. Calls `fixed_of`, which takes time, for no more candidates than needed: first the
// largest, alone if all experts fit beside it, then the smallest, then the others downwards. Throws what make_plan()
// throws for the smallest.
MemoryPlan choose_ubatch(const std::vector<uint32_t> &candidates, const FixedOfUbatch &fixed_of,
                         const ModelLayout &layout, const Machine &machine, const PlanOptions &options);

// --- the context ---

// llama.cpp's contexts are multiples of this many tokens.
inline constexpr uint32_t ctx_tokens_step = 256;

// The context that llama.cpp makes of `asked_tokens`: rounded up to that step.
uint32_t rounded_context(uint32_t asked_tokens);
// "-c 64 becomes 256: ..."; empty where it stays what was asked for.
std::string rounded_context_note(uint32_t asked_tokens);

// The budget that a context of so many tokens needs; grows with it.
using NeedOfContext = std::function<uint64_t(uint32_t ctx_tokens)>;

// The largest multiple of ctx_tokens_step below `refused_tokens` that needs no more than `budget_bytes`; none if there
// is none. Calls `need_of`, which takes time, about four times where the need is a straight line.
std::optional<uint32_t> largest_context(uint32_t refused_tokens, uint64_t budget_bytes, const NeedOfContext &need_of);

} // namespace larder
