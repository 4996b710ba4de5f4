// The decisions of the policy on given readings, without clock or files.
#include "pressure/pressure.h"

#include "base/bytes.h"

#include <gmock/gmock.h>

#include <random>

namespace larder {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t fixed = 400 * MiB;
constexpr uint64_t reserve = 64 * MiB;
constexpr uint64_t budget = 1024 * MiB;

// 560 MiB of slots in two classes, of which one token needs 48 MiB. Step down 32 MiB, step up 16 MiB, margin 16 MiB.
PressureBounds bounds_for_tests() { return {budget, fixed, reserve, 0, {{1 * MiB, 32, 240}, {2 * MiB, 8, 160}}}; }

Readings calm_readings(uint64_t arena_bytes = 560 * MiB) {
    Readings readings;
    readings.machine = {budget, "cgroup memory.max of /box"};
    readings.own_bytes = fixed + arena_bytes;
    readings.rss_bytes = readings.own_bytes + 8 * MiB;
    readings.arena_bytes = arena_bytes;
    return readings;
}

// The policy with its state. Takes one reading after the other.
class Policy {
  public:
    explicit Policy(PressureBounds with = bounds_for_tests()) : bounds(std::move(with)) {}
    std::optional<ArenaResize> operator()(const Readings &readings) { return decide(bounds, readings, state_); }
    // How often this reading must repeat until the policy resizes; 0 if it does not within a minute.
    int readings_until_resize(const Readings &readings) {
        for (int i = 1; i <= 240; ++i) {
            if ((*this)(readings)) {
                return i;
            }
        }
        return 0;
    }
    const PressureBounds bounds;

  private:
    PressureState state_;
};

TEST(PressureBounds, AreThePlansFiguresAndOneTokensSlots) {
    const std::vector<SizeClass> size_classes = {{1000, 4096, 100, 8}, {2000, 8192, 50, 80}, {3000, 8192, 0, 0}};
    MemoryPlan plan;
    plan.budget_bytes = 7000;
    plan.fixed = {100, 20, 3, 4000};
    plan.reserve_bytes = 9;
    plan.slots = {60, 50, 0};
    const PressureBounds bounds = pressure_bounds(size_classes, plan, 11);
    EXPECT_EQ(bounds.fixed_bytes, 4123U);
    EXPECT_EQ(bounds.overcommitted_bytes, 11U);
    EXPECT_EQ(bounds.floor_bytes(), 8 * 4096U + 50 * 8192U);
    EXPECT_EQ(bounds.full_bytes(), 60 * 4096U + 50 * 8192U);
    EXPECT_THAT(slots_within(bounds, 0), ElementsAre(8, 50, 0));
    EXPECT_THAT(slots_within(bounds, UINT64_MAX), ElementsAre(60, 50, 0));
}

TEST(PressureBounds, SharesAnArenaSoThatItFitsAndClassesKeepTheirShares) {
    const PressureBounds bounds = bounds_for_tests();
    EXPECT_THAT(slots_within(bounds, 560 * MiB), ElementsAre(240, 160));
    EXPECT_THAT(slots_within(bounds, 304 * MiB), ElementsAre(136, 84)) << "half of what is above the floor";
    EXPECT_THAT(slots_within(bounds, 1 * MiB), ElementsAre(32, 8)) << "never below it";
    uint64_t before = 0;
    for (uint64_t arena = 48 * MiB; arena <= 560 * MiB; arena += 300 * KiB) {
        const std::vector<uint64_t> slots = slots_within(bounds, arena);
        const uint64_t bytes = slots[0] * MiB + slots[1] * 2 * MiB;
        EXPECT_LE(bytes, arena);
        EXPECT_GT(bytes + 3 * MiB, arena);
        EXPECT_GE(bytes, before);
        before = bytes;
    }
}

TEST(Pressure, NothingHappensWhereThePlanIsKept) {
    Policy decide;
    EXPECT_EQ(decide.readings_until_resize(calm_readings()), 0);
    Readings filling = calm_readings(); // the slots are still empty
    filling.own_bytes = fixed;
    filling.rss_bytes = fixed;
    filling.empty_bytes = filling.arena_bytes;
    EXPECT_EQ(decide.readings_until_resize(filling), 0);
}

TEST(Pressure, ALimitEqualToTheBudgetIsEnoughForThePlan) {
    Policy decide;
    Readings readings = calm_readings();
    readings.machine.usable_bytes = budget - reserve / 4; // the part that the plan allows for the kernel's own memory
    readings.stalled = 1;
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
}

TEST(Pressure, WhatIsMissingAndASixteenthMoreGoesAtOnce) {
    Policy decide;
    Readings readings = calm_readings();
    readings.machine.usable_bytes = 900 * MiB; // of 960 MiB, with a margin of 16
    const auto resize = decide(readings);
    ASSERT_TRUE(resize);
    EXPECT_EQ(resize->from_bytes, 560 * MiB);
    EXPECT_EQ(resize->to_bytes, 560 * MiB - 76 * MiB - 32 * MiB);
    EXPECT_EQ(resize->reason, "cgroup memory.max of /box leaves 900 MiB, 76 MiB less than wanted");
    EXPECT_EQ(to_string(*resize), "arena 560 MiB -> 452 MiB: " + resize->reason);
}

TEST(Pressure, SlotsThatWillBeFilledCountBeforeTheyAre) {
    Policy decide;
    Readings readings = calm_readings();
    readings.own_bytes = fixed;
    readings.rss_bytes = fixed;
    readings.empty_bytes = readings.arena_bytes;
    readings.machine.usable_bytes = 800 * MiB;
    EXPECT_TRUE(decide(readings));
}

TEST(Pressure, HugePagesOnTheirWayIntoEmptySlotsAreNobodyElses) {
    Policy decide;
    Readings readings = calm_readings();
    readings.own_bytes = fixed + 100 * MiB;
    readings.empty_bytes = 460 * MiB;
    readings.machine.usable_bytes = fixed + 560 * MiB + 12 * MiB; // 4 MiB less than needed
    EXPECT_FALSE(decide(readings));
    readings.machine.usable_bytes -= 1;
    const auto resize = decide(readings);
    ASSERT_TRUE(resize) << "more than may be on its way";
    EXPECT_EQ(resize->to_bytes, 560 * MiB - 4 * MiB - 1 - 32 * MiB) << "all that is missing";
    readings.machine.usable_bytes += 1;
    readings.empty_bytes = 4 * MiB - 1;
    EXPECT_TRUE(decide(readings)) << "no more than what is empty";
}

TEST(Pressure, StopsAtTheFloor) {
    Policy decide;
    Readings readings = calm_readings();
    readings.machine.usable_bytes = 10 * MiB;
    const auto resize = decide(readings);
    ASSERT_TRUE(resize);
    EXPECT_EQ(resize->to_bytes, 48 * MiB);
    EXPECT_THAT(resize->reason, HasSubstr("this is the floor"));
    readings = calm_readings(48 * MiB);
    readings.machine.usable_bytes = 10 * MiB;
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
}

TEST(Pressure, RssAboveTheBudgetGivesSlotsBackWhateverTheMachineHas) {
    Policy decide;
    Readings readings = calm_readings();
    readings.machine.usable_bytes = 64 * GiB;
    readings.rss_bytes = budget;
    EXPECT_FALSE(decide(readings));
    readings.rss_bytes = budget + 20 * MiB;
    const auto resize = decide(readings);
    ASSERT_TRUE(resize);
    EXPECT_EQ(resize->to_bytes, 560 * MiB - 20 * MiB - 32 * MiB);
    EXPECT_THAT(resize->reason, HasSubstr("above the budget of 1 GiB"));
}

TEST(Pressure, WhatTheProcessHoldsBesideThePlanCountsToo) {
    Policy decide;
    Readings readings = calm_readings();
    readings.own_bytes += 40 * MiB;
    readings.machine.usable_bytes = 1000 * MiB;
    EXPECT_TRUE(decide(readings));
}

TEST(Pressure, AChangeUnderWayIsWaitedFor) {
    Policy decide;
    Readings readings = calm_readings();
    readings.rss_bytes = budget + 100 * MiB;
    readings.pending = true;
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
    readings.pending = false;
    EXPECT_TRUE(decide(readings));
}

TEST(Pressure, StallsAndLimitsRunIntoAskForTwiceTheMargin) {
    Readings readings = calm_readings();
    readings.machine.usable_bytes = fixed + 560 * MiB + 20 * MiB;
    {
        Policy decide;
        readings.stalled = 0.09;
        EXPECT_FALSE(decide(readings));
        readings.stalled = 0.1;
        const auto resize = decide(readings);
        ASSERT_TRUE(resize);
        EXPECT_EQ(resize->to_bytes, 560 * MiB - 12 * MiB - 32 * MiB);
        EXPECT_THAT(resize->reason, HasSubstr("under memory pressure"));
    }
    readings.stalled = 0;
    Policy decide;
    readings.limit_hits = 1000; // from before the start
    EXPECT_FALSE(decide(readings));
    EXPECT_FALSE(decide(readings));
    readings.limit_hits = 1001;
    EXPECT_TRUE(decide(readings));
    EXPECT_FALSE(decide(readings)) << "no more since";
}

TEST(Pressure, StallsAloneTakeNothing) {
    Policy decide;
    Readings readings = calm_readings();
    readings.machine.usable_bytes = 64 * GiB;
    for (int i = 0; i < 240; ++i) {
        readings.stalled = 1;
        readings.limit_hits += 100;
        EXPECT_FALSE(decide(readings));
    }
}

TEST(Pressure, RegrowsInSmallStepsAfterFiveCalmSeconds) {
    Policy decide;
    Readings readings = calm_readings(300 * MiB);
    EXPECT_EQ(decide.readings_until_resize(readings), 20);
    EXPECT_EQ(decide.readings_until_resize(readings), 4);
    readings = calm_readings(300 * MiB);
    for (int steps = 1; steps <= 40; ++steps) {
        for (int i = 0; i < 3; ++i) {
            EXPECT_FALSE(decide(readings));
        }
        const auto resize = decide(readings);
        ASSERT_TRUE(resize);
        EXPECT_EQ(resize->to_bytes, std::min(560 * MiB, resize->from_bytes + 16 * MiB));
        EXPECT_EQ(resize->reason, "cgroup memory.max of /box leaves 1 GiB again");
        readings = calm_readings(resize->to_bytes);
        if (resize->to_bytes == 560 * MiB) {
            EXPECT_EQ(steps, 17);
            EXPECT_EQ(decide.readings_until_resize(readings), 0) << "no more than the plan has";
            return;
        }
    }
    FAIL() << "never whole again";
}

TEST(Pressure, WhatIsGoingFastGoesWithWhatIsMissing) {
    Readings readings = calm_readings();
    readings.machine.usable_bytes = fixed + 560 * MiB + 20 * MiB; // 4 MiB more than needed
    Policy decide;
    EXPECT_FALSE(decide(readings));
    readings.falling_bytes = 14 * MiB; // within one interval
    const auto resize = decide(readings);
    ASSERT_TRUE(resize);
    EXPECT_EQ(resize->to_bytes, 560 * MiB - 10 * MiB - 32 * MiB);
    EXPECT_THAT(resize->reason, HasSubstr("10 MiB less than wanted and falls"));
    readings.falling_bytes = 100 * GiB; // as after a limit was lowered at once
    const auto most = decide(readings);
    ASSERT_TRUE(most);
    EXPECT_EQ(most->to_bytes, 560 * MiB - (128 - 4) * MiB - 32 * MiB) << "a quarter of the range at most";
}

TEST(Pressure, WhatIsOnlyExpectedTakesNothingFromSlotsThatAreStillFilled) {
    Readings readings = calm_readings();
    readings.machine.usable_bytes = fixed + 560 * MiB + 20 * MiB;
    readings.own_bytes = fixed + 500 * MiB;
    readings.falling_bytes = 14 * MiB;
    Policy decide;
    EXPECT_FALSE(decide(readings));
    readings.falling_bytes = 70 * MiB;
    EXPECT_TRUE(decide(readings)) << "but for what is there";
}

TEST(Pressure, ReadingsBetweenShrinkButAreNoTimeOfCalm) {
    Policy decide;
    Readings readings = calm_readings(300 * MiB);
    readings.between = true;
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
    readings.between = false;
    EXPECT_EQ(decide.readings_until_resize(readings), 20);
    readings.between = true;
    readings.machine.usable_bytes = 500 * MiB;
    EXPECT_TRUE(decide(readings));
    readings = calm_readings(300 * MiB);
    EXPECT_EQ(decide.readings_until_resize(readings), 20) << "the shortage ended the calm";
}

TEST(Decline, IsWhatWentInProportionToTheTime) {
    using std::chrono::milliseconds;
    Decline decline;
    const Decline::Clock::time_point begin;
    const milliseconds ahead(50);
    EXPECT_EQ(decline.expect(1000 * MiB, begin, ahead), 0U);
    EXPECT_EQ(decline.expect(900 * MiB, begin + milliseconds(1), ahead), 0U) << "too soon to tell";
    EXPECT_EQ(decline.expect(990 * MiB, begin + milliseconds(10), ahead), 0U) << "once is no decline";
    EXPECT_EQ(decline.expect(970 * MiB, begin + milliseconds(20), ahead), 50 * MiB) << "the slower of two";
    EXPECT_EQ(decline.expect(900 * MiB, begin + milliseconds(22), ahead), 50 * MiB) << "until there is a newer one";
    EXPECT_EQ(decline.expect(950 * MiB, begin + milliseconds(30), ahead), 100 * MiB);
    EXPECT_EQ(decline.expect(949 * MiB + 1, begin + milliseconds(40), ahead), 0U) << "less than a MiB is noise";
    EXPECT_EQ(decline.expect(2000 * MiB, begin + milliseconds(50), ahead), 0U);
    EXPECT_EQ(decline.expect(1950 * MiB, begin + milliseconds(300), ahead), 0U);
    EXPECT_EQ(decline.expect(1900 * MiB, begin + milliseconds(550), ahead), 10 * MiB);
}

TEST(Pressure, AShortageEndsTheCalm) {
    Policy decide;
    Readings calm = calm_readings(300 * MiB);
    Readings shortage = calm;
    shortage.machine.usable_bytes = 500 * MiB;
    for (int i = 0; i < 19; ++i) {
        EXPECT_FALSE(decide(calm));
    }
    EXPECT_TRUE(decide(shortage));
    EXPECT_EQ(decide.readings_until_resize(calm), 20);
}

TEST(Pressure, LeavesAGapBetweenWhereItRegrowsAndWhereItShrinks) {
    for (uint64_t usable = 700 * MiB; usable < 1100 * MiB; usable += 1 * MiB) {
        Policy decide;
        Readings readings = calm_readings(300 * MiB);
        readings.machine.usable_bytes = usable;
        bool resized = false;
        for (int i = 0; i < 1000; ++i) {
            const auto resize = decide(readings);
            resized = resized || resize;
            if (resize && i > 0) {
                ASSERT_GT(resize->to_bytes, resize->from_bytes) << "it grew too far, " << format_bytes(usable);
            }
            if (resize) {
                const uint64_t arena = resize->to_bytes;
                readings = calm_readings(arena);
                readings.machine.usable_bytes = usable;
            }
        }
        readings.machine.usable_bytes = usable - 4 * MiB; // a neighbour whose usage oscillates
        EXPECT_TRUE(!resized || !decide(readings)) << format_bytes(usable);
    }
}

TEST(Pressure, DoesNotRegrowWhatNobodyFills) {
    Policy decide;
    Readings readings = calm_readings(300 * MiB);
    readings.empty_bytes = 16 * MiB;
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
    readings.empty_bytes = 8 * MiB;
    EXPECT_EQ(decide.readings_until_resize(readings), 1) << "it was calm all the time";
}

TEST(Pressure, DoesNotRegrowIntoTheBudget) {
    Policy decide;
    Readings readings = calm_readings(300 * MiB);
    readings.machine.usable_bytes = 64 * GiB;
    readings.rss_bytes = budget - 20 * MiB; // unplanned memory holds it
    EXPECT_EQ(decide.readings_until_resize(readings), 0);
}

TEST(Pressure, AnAcceptedOvercommitIsNoShortage) {
    PressureBounds bounds = bounds_for_tests();
    bounds.overcommitted_bytes = 300 * MiB; // the machine has 724 MiB
    Policy decide(bounds);
    Readings readings = calm_readings();
    readings.machine.usable_bytes = 724 * MiB;
    EXPECT_FALSE(decide(readings));
    readings.machine.usable_bytes = 600 * MiB;
    EXPECT_TRUE(decide(readings)) << "but less than that is";
}

// For any readings, the result stays within the bounds, and each change is a whole number of slots.
TEST(Pressure, StaysWithinItsBoundsWhateverIsRead) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const auto draw = [&](uint64_t low, uint64_t high) { return low + random() % (high - low + 1); };
        PressureBounds bounds{draw(1, 2000) * MiB, draw(0, 500) * MiB, draw(0, 100) * MiB, draw(0, 1) * MiB, {}};
        for (uint64_t i = draw(1, 4); i > 0; --i) {
            const uint64_t floor = draw(1, 30);
            bounds.classes.push_back({draw(1, 800) * 4096, floor, floor + draw(0, 500)});
        }
        Policy decide(bounds);
        Readings readings;
        std::vector<uint64_t> slots = slots_within(bounds, UINT64_MAX);
        for (int step = 0; step < 400; ++step) {
            readings.arena_bytes = 0;
            for (size_t i = 0; i < slots.size(); ++i) {
                readings.arena_bytes += slots[i] * bounds.classes[i].slot_bytes;
            }
            if (draw(0, 30) == 0) {
                readings.machine.usable_bytes = draw(0, 3000) * MiB;
            }
            readings.own_bytes = readings.arena_bytes + draw(0, 600) * MiB;
            readings.rss_bytes = readings.own_bytes;
            readings.stalled = draw(0, 1) == 0 ? 0 : 0.5;
            readings.limit_hits += draw(0, 1);
            const auto resize = decide(readings);
            if (!resize) {
                continue;
            }
            EXPECT_EQ(resize->from_bytes, readings.arena_bytes);
            EXPECT_GE(resize->to_bytes, bounds.floor_bytes());
            EXPECT_LE(resize->to_bytes, bounds.full_bytes());
            const std::vector<uint64_t> next = slots_within(bounds, resize->to_bytes);
            EXPECT_NE(next, slots) << "a change changes something";
            for (size_t i = 0; i < slots.size(); ++i) {
                EXPECT_EQ(next[i] < slots[i], resize->to_bytes < resize->from_bytes && next[i] != slots[i]);
            }
            slots = next;
        }
    }
}

} // namespace
} // namespace larder
