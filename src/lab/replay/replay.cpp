#include "lab/replay/replay.h"

#include "base/error.h"
#include "lab/replay/demand.h"
#include "store/eviction.h"
#include "store/slot_table.h"

#include <fmt/format.h>

#include <array>

namespace larder {
namespace {

SlotTable make_table(const RoutingTrace &trace, uint32_t slots, std::string_view policy) {
    std::vector<RoutedExpert> expert_of;
    for (uint32_t layer = 0; layer < trace.n_layer; ++layer) {
        for (uint32_t expert = 0; expert < trace.n_expert; ++expert) {
            expert_of.push_back({layer, layer * trace.n_expert + expert});
        }
    }
    const EvictionShape shape = {.slots = slots,
                                 .size_classes = 1,
                                 .experts_of_moe_layer = std::vector<uint32_t>(trace.n_layer, trace.n_expert)};
    return {std::move(expert_of), std::array<uint64_t, 1>{slots}, make_eviction_order(policy, shape)};
}

// One layer's step, in the order in which the store acquires and releases slots. Returns the number of hits.
uint64_t run_step(SlotTable &table, const LayerDemand &demand, uint32_t tokens) {
    table.begin_step(demand.experts, demand.rows, tokens);
    std::vector<SlotIndex> in_use;
    std::vector<uint32_t> absent;
    for (const uint32_t expert : demand.experts) {
        const SlotIndex slot = table.find(expert);
        if (slot == no_slot) {
            absent.push_back(expert);
            continue;
        }
        table.pin(slot);
        in_use.push_back(slot);
    }
    size_t released = 0;
    for (const uint32_t expert : absent) {
        SlotTable::Acquired acquired = table.acquire(0, expert);
        if (acquired.slot == no_slot) { // all slots are in use: the first slot that is released is used next
            table.unpin(in_use[released++]);
            acquired = table.acquire(0, expert);
        }
        table.publish(acquired.slot);
        table.pin(acquired.slot);
        in_use.push_back(acquired.slot);
    }
    for (; released < in_use.size(); ++released) {
        table.unpin(in_use[released]);
    }
    return demand.experts.size() - absent.size();
}

} // namespace

ReplayCount replay(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots,
                   std::string_view policy) {
    if (slots == 0) {
        throw Error(ErrorKind::usage, "a cache without a slot holds nothing", "give at least one");
    }
    SlotTable table = make_table(trace, slots, policy);
    ReplayCount count;
    for (const Ubatch &ubatch : ubatches) {
        HitCount &phase = ubatch.tokens.front().phase == TracePhase::prefill ? count.prefill : count.decode;
        for (uint32_t layer = 0; layer < trace.n_layer; ++layer) {
            const LayerDemand demand = demand_of(trace, ubatch.tokens, layer);
            const uint64_t hits = run_step(table, demand, static_cast<uint32_t>(ubatch.tokens.size()));
            count.reads += demand.experts.size() - hits;
            if (ubatch.counted) {
                phase.accesses += demand.experts.size();
                phase.hits += hits;
            }
        }
    }
    return count;
}

} // namespace larder
