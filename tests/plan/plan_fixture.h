// plan_fixture.h — layouts, options and checks for the tests of the plan.
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace larder::test {

inline const Machine big_machine = {1024 * GiB, "MemAvailable"};

inline SizeClass size_class(uint64_t slot_bytes, uint64_t n_slices, uint64_t n_slices_per_token) {
    return {slot_bytes - 100, slot_bytes, n_slices, n_slices_per_token};
}

// The shape of the 35B model: 40 layers of 256 experts, 8 used; small gate and up, large down in half of the layers.
inline ModelLayout two_classes() {
    ModelLayout layout;
    layout.size_classes = {size_class(589824 + 4096, 100 * 256, 100 * 8), size_class(860160 + 4096, 20 * 256, 20 * 8)};
    return layout;
}

inline FixedBytes some_fixed() { return {1577 * MiB + 12345, 80 * MiB, 300 * MiB + 7, 120 * MiB, 0}; }

inline PlanOptions ram(uint64_t budget) {
    PlanOptions options;
    options.budget_bytes = budget;
    return options;
}

inline PlanOptions ram_anyway(uint64_t budget) {
    PlanOptions options = ram(budget);
    options.overcommit = true;
    return options;
}

inline PlanOptions ram_and_reserve(uint64_t budget, uint64_t reserve) {
    PlanOptions options = ram(budget);
    options.reserve_bytes = reserve;
    return options;
}

inline uint64_t total_of(const FixedBytes &fixed) { return fixed.resident + fixed.kv + fixed.compute + fixed.overhead; }

inline uint64_t all_experts_of(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &each : layout.size_classes) {
        bytes += each.n_slices * each.slot_bytes;
    }
    return bytes;
}

inline MemoryPlan plan_with(const ModelLayout &layout, const FixedBytes &fixed, uint64_t budget) {
    return make_plan(layout, fixed, big_machine, ram(budget));
}

// The error of a refused plan.
inline Error refusal_of(const ModelLayout &layout, const FixedBytes &fixed, const Machine &machine,
                        const PlanOptions &options) {
    try {
        make_plan(layout, fixed, machine, options);
    } catch (const Error &error) {
        return error;
    }
    ADD_FAILURE() << "not refused";
    return {ErrorKind::engine, "not refused"};
}

inline bool works(const ModelLayout &layout, const FixedBytes &fixed, PlanOptions options, uint64_t budget) {
    options.budget_bytes = budget;
    try {
        make_plan(layout, fixed, big_machine, options);
        return true;
    } catch (const Error &) {
        return false;
    }
}

// A slightly larger measurement. The budget named by the refusal must suffice for it too.
inline FixedBytes a_little_more(FixedBytes fixed) {
    fixed.overhead += 2 * MiB;
    return fixed;
}

// The sufficient budget that a refusal names.
inline uint64_t named_budget(const Error &error) {
    const Remedy *const larger = error.find_remedy(RemedyKind::larger_budget);
    return larger == nullptr ? 0 : larger->amount;
}

// Properties of every plan.
inline void expect_sound(const ModelLayout &layout, const MemoryPlan &plan) {
    ASSERT_EQ(plan.slots.size(), layout.size_classes.size());
    uint64_t arena = 0;
    for (size_t i = 0; i < plan.slots.size(); i++) {
        EXPECT_GE(plan.slots[i], layout.size_classes[i].n_slices_per_token);
        EXPECT_LE(plan.slots[i], layout.size_classes[i].n_slices);
        arena += plan.slots[i] * layout.size_classes[i].slot_bytes;
    }
    EXPECT_EQ(plan.arena_bytes, arena);
    EXPECT_GE(plan.arena_bytes, plan.floor_bytes);
    EXPECT_EQ(total_of(plan.fixed) + plan.reserve_bytes + plan.arena_bytes + plan.spare_bytes, plan.budget_bytes);
}

} // namespace larder::test
