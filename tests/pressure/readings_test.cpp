// Readings from simulated machines.
#include "pressure/pressure.h"

#include "support/fake_root.h"

#include <gmock/gmock.h>

namespace larder::test {
namespace {

TEST(Readings, SayWhatTheMachineGivesAndTheProcessHolds) {
    const FakeRoot root;
    const Readings readings = read_pressure(root.path());
    EXPECT_EQ(readings.machine.usable_bytes, 64 * GiB + 500 * MiB);
    EXPECT_EQ(readings.machine.source, "MemAvailable");
    EXPECT_EQ(readings.own_bytes, 500 * MiB);
    EXPECT_EQ(readings.rss_bytes, 512 * MiB);
    EXPECT_EQ(readings.stalled, 0);
    EXPECT_EQ(readings.limit_hits, 0U);
}

TEST(Readings, FollowALimitOfAGrandparentInBothVersions) {
    const FakeRoot root;
    root.join_v1("/a/b/c");
    root.limit_v1("/a", 4 * GiB, 500 * MiB);
    EXPECT_EQ(read_pressure(root.path()).machine.usable_bytes, 4 * GiB);
    root.limit_v1("/a", 2 * GiB, 1524 * MiB); // lowered limit; other processes have taken a GiB
    EXPECT_EQ(read_pressure(root.path()).machine.usable_bytes, 1 * GiB);
    EXPECT_EQ(read_pressure(root.path()).machine.source, "cgroup memory.limit_in_bytes of /a");
    root.join_v2("/x/y/z");
    root.limit_v2("/x", 3 * GiB, 1524 * MiB);
    EXPECT_EQ(read_pressure(root.path()).machine.usable_bytes, 2 * GiB);
}

TEST(Readings, CountHowOftenAnyGroupAboveRanIntoItsLimit) {
    const FakeRoot root;
    root.join_v1("/a/b");
    root.limit_v1("/a", 4 * GiB, 500 * MiB, 7);
    root.limit_v1("/a/b", 4 * GiB, 500 * MiB, 5);
    EXPECT_EQ(read_pressure(root.path()).limit_hits, 12U);
    root.join_v2("/x/y");
    root.limit_v2("/x", 4 * GiB, 500 * MiB, 100);
    EXPECT_EQ(read_pressure(root.path()).limit_hits, 121U) << "high, max and oom";
}

TEST(Readings, TakeStallsOfTheOwnGroupBeforeThoseOfTheMachine) {
    const FakeRoot root;
    root.stalls("/proc/pressure/memory", 12.5);
    EXPECT_DOUBLE_EQ(read_pressure(root.path()).stalled, 0.125);
    root.join_v2("/x/y");
    root.stalls("/sys/fs/cgroup/x/memory.pressure", 50);
    EXPECT_DOUBLE_EQ(read_pressure(root.path()).stalled, 0.125) << "its own group has no such file";
    root.stalls("/sys/fs/cgroup/x/y/memory.pressure", 3);
    EXPECT_DOUBLE_EQ(read_pressure(root.path()).stalled, 0.03);
}

TEST(Readings, SurviveFilesThatMakeNoSense) {
    const FakeRoot root;
    root.join_v2("/x");
    root.write("/proc/pressure/memory", "some\nsome avg10=\nsome avg10=many\nfull avg10=3\n");
    root.write("/sys/fs/cgroup/x/memory.pressure", "");
    root.write("/sys/fs/cgroup/x/memory.events", "max\nhigh -1\noom lots\n");
    root.write("/proc/self/status", "");
    const Readings readings = read_pressure(root.path());
    EXPECT_EQ(readings.stalled, 0);
    EXPECT_EQ(readings.limit_hits, 0U);
    EXPECT_EQ(readings.rss_bytes, 0U);
}

TEST(Readings, OfTheRealMachineAreThere) {
    const Readings readings = read_pressure();
    EXPECT_GT(readings.machine.usable_bytes, 0U);
    EXPECT_GT(readings.rss_bytes, readings.own_bytes);
    EXPECT_GT(readings.own_bytes, 0U);
}

} // namespace
} // namespace larder::test
