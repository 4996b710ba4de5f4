// The best division of the arena between size classes: replays slices through one slot table. The plan follows these
// results.
#include "lab/replay/demand.h"
#include "lab/trace/trace.h"
#include "store/eviction.h"
#include "store/slot_table.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace larder {
namespace {

constexpr uint32_t layers = 24;
constexpr uint32_t experts = 64;
constexpr uint32_t projections = 3;
constexpr std::array<uint64_t, 2> slot_bytes = {4, 6};

using ClassOf = std::function<uint32_t(uint32_t layer, uint32_t projection)>;

SliceIndex slice_of(uint32_t projection, uint32_t expert) { return projection * layers * experts + expert; }

SlotTable make_table(const std::array<uint64_t, 2> &slots) {
    std::vector<RoutedExpert> expert_of;
    for (uint32_t slice = 0; slice < projections * layers * experts; ++slice) {
        const uint32_t expert = slice % (layers * experts);
        expert_of.push_back({expert / experts, expert});
    }
    return {expert_of, slots,
            make_eviction_order(product_policy, {static_cast<uint32_t>(slots[0] + slots[1]), 2,
                                                 std::vector<uint32_t>(layers, experts)})};
}

// Bytes of the slices that had to be read. Absent experts (-1) are not demanded.
uint64_t bytes_read(const RoutingTrace &trace, const ClassOf &class_of, const std::array<uint64_t, 2> &slots) {
    SlotTable table = make_table(slots);
    uint64_t bytes = 0;
    for (const TraceToken &token : trace.tokens) {
        for (uint32_t layer = 0; layer < layers; ++layer) {
            const LayerDemand demand = demand_of(trace, {token}, layer);
            table.begin_step(demand.experts, demand.rows, 1);
            std::vector<SliceIndex> slices;
            for (uint32_t projection = 0; projection < projections; ++projection) {
                for (const uint32_t expert : demand.experts) {
                    slices.push_back(slice_of(projection, expert));
                }
            }
            for (const SliceIndex slice : slices) {
                if (table.ready(slice)) {
                    table.pin(table.find(slice));
                }
            }
            for (const SliceIndex slice : slices) {
                if (!table.ready(slice)) {
                    const uint32_t size_class = class_of(layer, slice / (layers * experts));
                    const SlotIndex slot = table.acquire(size_class, slice).slot;
                    table.publish(slot);
                    table.pin(slot);
                    bytes += slot_bytes[size_class];
                }
            }
            for (const SliceIndex slice : slices) {
                table.unpin(table.find(slice));
            }
        }
    }
    return bytes;
}

// Slots for a fifth of all bytes. The share of cached slices in the second class is `factor` times that of the first.
std::array<uint64_t, 2> slots_with(const ClassOf &class_of, double factor) {
    std::array<double, 2> slices = {0, 0};
    for (uint32_t layer = 0; layer < layers; ++layer) {
        for (uint32_t projection = 0; projection < projections; ++projection) {
            slices[class_of(layer, projection)] += experts;
        }
    }
    const double first = slices[0] * static_cast<double>(slot_bytes[0]);
    const double second = slices[1] * static_cast<double>(slot_bytes[1]);
    const double share = 0.2 * (first + second) / (first + factor * second);
    return {static_cast<uint64_t>(share * slices[0]), static_cast<uint64_t>(factor * share * slices[1])};
}

RoutingTrace made_trace() {
    return synthesise_trace(
        {.n_layer = layers, .n_expert = experts, .top_k = 4, .n_token = 160, .skew = 1.0, .reuse = 0.3, .seed = 3});
}

// As in models whose down tensors have a larger type in half of the layers.
TEST(ClassShares, ClassesThatAreUsedAlikeReadLeastWithEqualShares) {
    const RoutingTrace trace = made_trace();
    const ClassOf class_of = [](uint32_t layer, uint32_t projection) {
        return layer % 2 == 0 && projection == 2 ? 1U : 0U;
    };
    const uint64_t equal = bytes_read(trace, class_of, slots_with(class_of, 1));
    for (const double factor : {0.5, 0.7, 1.4, 2.0}) {
        EXPECT_LT(equal, bytes_read(trace, class_of, slots_with(class_of, factor))) << factor;
    }
}

TEST(ClassShares, LayersThatUseAQuarterOfTheExpertsReadLeastWithLessThanTheirShareOfBytes) {
    RoutingTrace trace = made_trace();
    for (TraceToken &token : trace.tokens) {
        for (uint32_t layer = 0; layer < layers; layer += 2) {
            for (uint32_t k = 1; k < trace.top_k; ++k) {
                token.experts[layer * trace.top_k + k] = -1;
            }
        }
    }
    const ClassOf class_of = [](uint32_t layer, uint32_t /*projection*/) { return layer % 2 == 0 ? 1U : 0U; };
    const uint64_t by_demand = bytes_read(trace, class_of, slots_with(class_of, 0.25));
    EXPECT_LT(by_demand, bytes_read(trace, class_of, slots_with(class_of, 1)));
    EXPECT_LT(by_demand, bytes_read(trace, class_of, slots_with(class_of, 0.1)));
}

} // namespace
} // namespace larder
