// The warning if more memory was taken than planned.
#include "base/bytes.h"
#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::test {
namespace {

using testing::HasSubstr;

TEST(Truth, OfMoreThanTwoPercentAboveThePlanIsTold) {
    MemoryPlan plan;
    plan.fixed = {.resident = 20 * MiB, .kv = 10 * MiB, .compute = 10 * MiB, .overhead = 10 * MiB};
    plan.arena_bytes = 150 * MiB;
    plan.reserve_bytes = 12 * MiB;
    plan.spare_bytes = 40 * MiB;
    EXPECT_EQ(planned_bytes(plan), 200 * MiB);
    EXPECT_EQ(above_plan(plan, 100 * MiB), "");
    EXPECT_EQ(above_plan(plan, 204 * MiB), "");
    EXPECT_THAT(above_plan(plan, 205 * MiB),
                HasSubstr("took 205 MiB, 5 MiB more than planned: the overhead was 15 MiB instead of 10 MiB"));
    plan.fixed.transient = 10 * MiB;
    EXPECT_EQ(planned_bytes(plan), 200 * MiB);
    EXPECT_EQ(above_plan(plan, 214 * MiB), "") << "a long text was tokenised";
    EXPECT_NE(above_plan(plan, 215 * MiB), "");
}

} // namespace
} // namespace larder::test
