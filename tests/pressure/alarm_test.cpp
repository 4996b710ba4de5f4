// Alarms on simulated machines, where no kernel watches a threshold.
#include "pressure/alarm.h"

#include "support/fake_root.h"

#include <gtest/gtest.h>

#include <thread>

namespace larder::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds for_ever{3'600'000};

class Alarm : public testing::Test {
  protected:
    // Expects that wait() ends before its time-out while `change` happens.
    template <typename Change> static void expect_alarm(PressureAlarm &alarm, Change change) {
        const Clock::time_point begin = Clock::now();
        std::jthread changing([&] {
            std::this_thread::sleep_for(milliseconds(30));
            change();
        });
        alarm.wait(for_ever);
        EXPECT_LT(Clock::now() - begin, for_ever);
    }
    FakeRoot root;
};

TEST_F(Alarm, RingsWhenItIsTold) {
    PressureAlarm alarm(root.path());
    expect_alarm(alarm, [&] { alarm.ring(); });
    alarm.wait(milliseconds(1)); // the alarm was already consumed: this call ends by its time-out
}

TEST_F(Alarm, WatchesNothingWithoutALimit) {
    root.join_v1("/a");
    PressureAlarm alarm(root.path());
    alarm.follow();
    EXPECT_EQ(alarm.watched() + alarm.read(), 0U);
    alarm.wait(milliseconds(1));
}

TEST_F(Alarm, ReadsTheUsageOfEveryLimitingGroupWhereTheKernelRefusesToWatch) {
    root.join_v1("/a/b");
    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    root.limit_v1("/a/b", uint64_t{1} << 62, 40 * MiB);
    PressureAlarm alarm(root.path());
    alarm.follow();
    EXPECT_EQ(alarm.read(), 1U);
    EXPECT_EQ(alarm.watched(), 0U);
    expect_alarm(alarm, [&] { root.limit_v1("/a", 64 * MiB, 42 * MiB); });
    alarm.follow();
    expect_alarm(alarm, [&] { root.limit_v1("/a", 64 * MiB, 63 * MiB); });
}

TEST_F(Alarm, ReadsTheUsageInVersion2) {
    root.join_v2("/x/y");
    root.limit_v2("/x", 64 * MiB, 40 * MiB);
    PressureAlarm alarm(root.path());
    alarm.follow();
    EXPECT_EQ(alarm.read(), 1U);
    expect_alarm(alarm, [&] { root.limit_v2("/x", 64 * MiB, 42 * MiB); });
}

TEST_F(Alarm, IsNotGivenForUsageThatFallsOrIsFarFromTheLimit) {
    root.join_v1("/a");
    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    PressureAlarm alarm(root.path());
    alarm.follow();
    root.limit_v1("/a", 64 * MiB, 20 * MiB);
    const Clock::time_point begin = Clock::now();
    alarm.wait(milliseconds(60));
    EXPECT_GE(Clock::now() - begin, milliseconds(60));
    expect_alarm(alarm, [&] { root.limit_v1("/a", 64 * MiB, 30 * MiB); });
}

TEST_F(Alarm, FollowsALimitThatIsSetLater) {
    root.join_v1("/a");
    root.limit_v1("/a", uint64_t{1} << 62, 40 * MiB);
    PressureAlarm alarm(root.path());
    alarm.follow();
    EXPECT_EQ(alarm.read(), 0U);
    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    alarm.follow();
    EXPECT_EQ(alarm.read(), 1U);
}

TEST_F(Alarm, DoesWithoutAnyFile) {
    std::filesystem::remove_all(root.path() + "/proc");
    PressureAlarm alarm(root.path());
    alarm.follow();
    alarm.wait(milliseconds(1));
}

TEST(AlarmOfTheKernel, CanBeWaitedForOnThisMachine) {
    PressureAlarm alarm("");
    alarm.follow();
    alarm.follow();
    alarm.wait(milliseconds(1));
}

} // namespace
} // namespace larder::test
