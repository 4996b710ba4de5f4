// Processors of simulated machines (folders with /proc and /sys), and of this machine.
#include "machine/cpus.h"

#include "support/fake_root.h"

#include <gtest/gtest.h>

#include <sched.h>

namespace larder::test {
namespace {

// Eight processors: four cores with two threads each.
class FakeCpus : public FakeRoot {
  public:
    FakeCpus() {
        write("/sys/devices/system/cpu/online", "0-7\n");
        for (int cpu = 0; cpu < 8; cpu++) {
            write(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu),
                  fmt::format("{},{}\n", cpu % 4, cpu % 4 + 4));
        }
        allow("0-7");
        write("/proc/self/mountinfo", "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                                      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 x rw\n");
        write("/proc/self/cgroup", "4:memory:/elsewhere\n2:cpu,cpuacct:/old/a\n0::/new/a\n");
    }
    void allow(const std::string &list) const { write("/proc/self/status", "Cpus_allowed_list:\t" + list + "\n"); }
    void quota_v1(const std::string &group, int64_t quota_us, int64_t period_us) const {
        write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", fmt::format("{}\n", quota_us));
        write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_period_us", fmt::format("{}\n", period_us));
    }
    void quota_v2(const std::string &group, const std::string &max) const {
        write("/sys/fs/cgroup/unified" + group + "/cpu.max", max + "\n");
    }
    [[nodiscard]] Cpus cpus() const { return usable_cpus(path()); }
};

TEST(Cpus, GiveAThreadToEachCore) {
    const FakeCpus root;
    EXPECT_EQ(root.cpus().cores, 4U);
    EXPECT_EQ(root.cpus().processors, 8U);
    EXPECT_EQ(root.cpus().default_threads(), 4U);
    EXPECT_EQ(root.cpus().bound_by(), "");
}

TEST(Cpus, AreThoseOfTheAffinityMask) {
    const FakeCpus root;
    root.allow("1,2,5");
    EXPECT_EQ(root.cpus().cores, 4U);
    EXPECT_EQ(root.cpus().processors, 3U);
    EXPECT_EQ(root.cpus().default_threads(), 2U) << "1 and 5 are one core";
    EXPECT_EQ(root.cpus().bound_by(), "CPU affinity");
    root.allow("4-7"); // one thread of each core
    EXPECT_EQ(root.cpus().default_threads(), 4U);
    EXPECT_EQ(root.cpus().bound_by(), "");
    root.allow("0-15"); // includes processors that are offline
    EXPECT_EQ(root.cpus().processors, 8U);
}

TEST(Cpus, AreBoundByTheSmallestQuotaOfAllGroupsAbove) {
    const FakeCpus root;
    root.quota_v1("", -1, 100'000);
    root.quota_v1("/old", 300'000, 100'000);
    root.quota_v1("/old/a", -1, 100'000);
    EXPECT_EQ(root.cpus().default_threads(), 3U);
    EXPECT_EQ(root.cpus().bound_by(), "CPU quota of cgroup /old");
    root.quota_v2("/new", "max 100000");
    root.quota_v2("/new/a", "50000 25000");
    EXPECT_EQ(root.cpus().default_threads(), 2U);
    EXPECT_EQ(root.cpus().processors, 2U);
    EXPECT_EQ(root.cpus().bound_by(), "CPU quota of cgroup /new/a");
    root.quota_v2("/new", "100000 100000");
    EXPECT_EQ(root.cpus().default_threads(), 1U);
    EXPECT_EQ(root.cpus().bound_by(), "CPU quota of cgroup /new");
}

TEST(Cpus, LeaveAPartOfAProcessorUnusedButStartOneThread) {
    const FakeCpus root;
    root.quota_v2("/new/a", "290000 100000");
    EXPECT_EQ(root.cpus().default_threads(), 2U);
    root.quota_v2("/new/a", "10000 100000");
    EXPECT_EQ(root.cpus().default_threads(), 1U);
}

TEST(Cpus, SayWhichOfMaskAndQuotaBindsThem) {
    const FakeCpus root;
    root.allow("0");
    root.quota_v2("/new/a", "300000 100000");
    EXPECT_EQ(root.cpus().default_threads(), 1U);
    EXPECT_EQ(root.cpus().bound_by(), "CPU affinity");
    root.allow("0-7");
    root.quota_v2("/new/a", "9000000 100000");
    EXPECT_EQ(root.cpus().bound_by(), "") << "a quota above the cores";
}

TEST(Cpus, AreThePerformanceCoresWhereThereAreTwoKinds) {
    const FakeCpus root;
    root.write("/sys/devices/cpu_core/cpus", "0,1,4,5\n");
    EXPECT_EQ(root.cpus().default_threads(), 2U);
    EXPECT_EQ(root.cpus().bound_by(), "");
    root.allow("2-3,6-7"); // only efficiency cores are allowed, so they are used
    EXPECT_EQ(root.cpus().default_threads(), 2U);
}

TEST(Cpus, SurviveFilesThatMakeNoSense) {
    const FakeRoot empty;
    EXPECT_EQ(usable_cpus(empty.path()).default_threads(), 1U);
    const FakeCpus root;
    root.allow("none");
    root.quota_v1("/old/a", 100'000, 0);
    root.quota_v2("/new/a", "many");
    EXPECT_EQ(root.cpus().default_threads(), 4U);
    root.quota_v2("/new/a", "1 2 3");
    EXPECT_EQ(root.cpus().default_threads(), 4U);
}

// Sets the affinity of the main thread while it exists.
class Affinity {
  public:
    explicit Affinity(size_t cpu) {
        CPU_ZERO(&before_);
        EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    }
    ~Affinity() { ::sched_setaffinity(0, sizeof before_, &before_); }
    Affinity(const Affinity &) = delete;
    Affinity &operator=(const Affinity &) = delete;

  private:
    cpu_set_t before_{};
};

TEST(Cpus, OfThisProcessFollowItsAffinity) {
    cpu_set_t all;
    CPU_ZERO(&all);
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    const Cpus before = usable_cpus();
    EXPECT_LE(before.processors, static_cast<uint32_t>(CPU_COUNT(&all)));
    EXPECT_GE(before.default_threads(), 1U);
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    const Affinity affinity(first);
    const Cpus one = usable_cpus();
    EXPECT_EQ(one.processors, 1U);
    EXPECT_EQ(one.default_threads(), 1U);
    EXPECT_EQ(one.cores, before.cores);
}

} // namespace
} // namespace larder::test
