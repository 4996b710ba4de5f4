// The memory probe on simulated machines, whose /proc and /sys are files of the test.
#include "base/bytes.h"
#include "machine/machine.h"
#include "machine/process_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace larder {

namespace {

using testing::HasSubstr;

constexpr uint64_t own = 512 * MiB;
const std::string v1_mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                              "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                              "35 31 0:32 {} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
const std::string v2_mounts = "30 23 0:26 {} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

// A machine with 64 GiB available, on which this process holds 512 MiB.
class FakeMachine {
  public:
    FakeMachine() : root_((std::filesystem::temp_directory_path() / "larder_machine_XXXXXX").string()) {
        if (::mkdtemp(root_.data()) == nullptr) {
            throw std::runtime_error("cannot make a folder for the test");
        }
        write("/proc/meminfo", "MemTotal:       100000000 kB\nMemFree:         1234 kB\nMemAvailable:   67108864 kB\n");
        write("/proc/self/status", "Name:\tlarder\nVmRSS:\t  614400 kB\nRssAnon:\t  524288 kB\nRssFile:\t   90112 kB\n"
                                   "RssShmem:\t       0 kB\n");
    }
    ~FakeMachine() { std::filesystem::remove_all(root_); }
    FakeMachine(const FakeMachine &) = delete;
    FakeMachine &operator=(const FakeMachine &) = delete;

    void write(const std::string &path, const std::string &text) const {
        const std::filesystem::path file = root_ + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    // Puts this process into cgroup `path`. `mount_root` is the part of the hierarchy that is mounted.
    void join_v1(const std::string &path, const std::string &mount_root = "/") const {
        write("/proc/self/cgroup", "9:name=systemd:/\n5:cpu,cpuacct:/elsewhere\n4:memory:" + path + "\n0::/\n");
        write("/proc/self/mountinfo", fmt::format(fmt::runtime(v1_mounts), mount_root));
    }
    void join_v2(const std::string &path, const std::string &mount_root = "/") const {
        write("/proc/self/cgroup", "0::" + path + "\n");
        write("/proc/self/mountinfo", fmt::format(fmt::runtime(v2_mounts), mount_root));
    }
    void group_v1(const std::string &path, uint64_t limit, uint64_t used, uint64_t inactive = 0,
                  uint64_t active = 0) const {
        const std::string folder = "/sys/fs/cgroup/memory" + path;
        write(folder + "/memory.limit_in_bytes", fmt::format("{}\n", limit));
        write(folder + "/memory.usage_in_bytes", fmt::format("{}\n", used));
        write(folder + "/memory.stat", fmt::format("cache 1\ninactive_file 2\nactive_file 3\ntotal_inactive_file "
                                                   "{}\ntotal_active_file {}\n",
                                                   inactive, active));
    }
    void group_v2(const std::string &path, const std::string &max, const std::string &high, uint64_t used,
                  uint64_t inactive = 0, uint64_t active = 0) const {
        const std::string folder = "/sys/fs/cgroup" + path;
        write(folder + "/memory.max", max + "\n");
        write(folder + "/memory.high", high + "\n");
        write(folder + "/memory.current", fmt::format("{}\n", used));
        write(folder + "/memory.stat", fmt::format("anon 77\ninactive_file {}\nactive_file {}\n", inactive, active));
    }

    [[nodiscard]] Machine probe() const { return probe_machine(root_); }
    [[nodiscard]] const std::string &root() const { return root_; }

  private:
    std::string root_;
};

constexpr uint64_t v1_unlimited = 9223372036854771712U;

std::string text(uint64_t bytes) { return std::to_string(bytes); }

} // namespace

TEST(Machine, CountsWhatThisProcessHoldsAsItsOwn) {
    const FakeMachine machine;
    EXPECT_EQ(machine.probe().usable_bytes, 64 * GiB + own);
    EXPECT_EQ(machine.probe().source, "MemAvailable");
}

// A child holds 3 MiB alone, and shares the rest with this process.
TEST(Machine, CountsWhatACountedChildHoldsAloneAsItsOwn) {
    const FakeMachine machine;
    machine.write("/proc/77/smaps_rollup",
                  "1-2 ---p 00000000 00:00 0 [rollup]\nRss:     9216 kB\nPrivate_Clean:   40 kB\n"
                  "Private_Dirty:   3072 kB\n");
    machine.join_v1("/box");
    machine.group_v1("/box", 4 * GiB, own + 10 * MiB);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 10 * MiB);
    {
        const CountedChild child(77);
        const CountedChild without_a_process(78);
        EXPECT_EQ(held_bytes(machine.root()), own + 3 * MiB);
        EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 7 * MiB);
        machine.write("/proc/77/smaps_rollup", "Private_Dirty: 8 kB\n"); // it has forked, and shares its pages
        EXPECT_EQ(held_bytes(machine.root()), own + 3 * MiB);
    }
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 10 * MiB);
}

// The kernel charges for a page, clears it, and only then counts it to the process.
TEST(Machine, ReportsWhatIsChargedAndListedNowhere) {
    const FakeMachine machine;
    machine.join_v1("/box");
    machine.group_v1("/box", 4 * GiB, own + 100 * MiB);
    EXPECT_EQ(machine.probe().uncounted_bytes, 0U) << "this kernel does not list the parts";
    const std::string folder = "/sys/fs/cgroup/memory/box/";
    machine.write(folder + "memory.stat",
                  fmt::format("total_rss {}\ntotal_cache 0\ntotal_inactive_file 0\ntotal_active_file 0\n", own));
    machine.write(folder + "memory.kmem.usage_in_bytes", "0\n");
    const Machine probed = machine.probe();
    EXPECT_GT(probed.uncounted_bytes, 0U);
    EXPECT_EQ(probed.usable_bytes + probed.uncounted_bytes, 4 * GiB) << "the rest was charged in advance";
}

TEST(Machine, IsBoundByItsCgroupV1) {
    const FakeMachine machine;
    machine.join_v1("/box");
    machine.group_v1("", v1_unlimited, 20 * GiB);
    machine.group_v1("/box", 4 * GiB, own);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.limit_in_bytes of /box");
}

TEST(Machine, IsBoundByItsCgroupV2) {
    const FakeMachine machine;
    machine.join_v2("/box");
    machine.group_v2("/box", text(4 * GiB), "max", own);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.max of /box");
}

TEST(Machine, IsNotBoundByACgroupWithoutALimit) {
    const FakeMachine machine;
    machine.join_v1("/box");
    machine.group_v1("/box", v1_unlimited, own);
    EXPECT_EQ(machine.probe().source, "MemAvailable");
    machine.join_v2("/box");
    machine.group_v2("/box", "max", "max", own);
    EXPECT_EQ(machine.probe().source, "MemAvailable");
}

TEST(Machine, IsBoundByAGrandparent) {
    const FakeMachine machine;
    machine.join_v2("/user.slice/session/larder");
    machine.group_v2("/user.slice", text(6 * GiB), "max", own + 1 * GiB);
    machine.group_v2("/user.slice/session", "max", "max", own);
    machine.group_v2("/user.slice/session/larder", "max", "max", own);
    EXPECT_EQ(machine.probe().usable_bytes, 5 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.max of /user.slice");

    machine.join_v1("/a/b/c");
    machine.group_v1("/a", 3 * GiB, own);
    machine.group_v1("/a/b", v1_unlimited, own);
    machine.group_v1("/a/b/c", v1_unlimited, own);
    EXPECT_EQ(machine.probe().usable_bytes, 3 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.limit_in_bytes of /a");
}

TEST(Machine, TakesTheLowestOfNestedLimits) {
    const FakeMachine machine;
    machine.join_v2("/a/b");
    machine.group_v2("/a", text(8 * GiB), "max", own + 6 * GiB);
    machine.group_v2("/a/b", text(4 * GiB), "max", own);
    EXPECT_EQ(machine.probe().usable_bytes, 2 * GiB); // the rest of the limit of /a
    EXPECT_EQ(machine.probe().source, "cgroup memory.max of /a");
}

TEST(Machine, KeepsBelowTheHighMark) {
    const FakeMachine machine;
    machine.join_v2("/box");
    machine.group_v2("/box", text(4 * GiB), text(3 * GiB), own);
    EXPECT_EQ(machine.probe().usable_bytes, 3 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.high of /box");
}

TEST(Machine, DoesNotCountPageCacheAsUsed) {
    const FakeMachine machine;
    machine.join_v1("/box");
    machine.group_v1("/box", 4 * GiB, own + 3 * GiB + 500 * MiB, 1 * GiB, 2 * GiB);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 500 * MiB);
    machine.join_v2("/box");
    machine.group_v2("/box", text(4 * GiB), "max", own + 3 * GiB + 500 * MiB, 1 * GiB, 2 * GiB);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 500 * MiB);
}

TEST(Machine, DoesNotCountWhatAGroupIsChargedBeforehand) {
    const FakeMachine machine;
    machine.join_v1("/box");
    machine.group_v1("/box", 4 * GiB, own + 600 * KiB);
    machine.write("/sys/fs/cgroup/memory/box/memory.kmem.usage_in_bytes", text(400 * KiB));
    machine.write("/sys/fs/cgroup/memory/box/memory.stat", fmt::format("total_rss {}\ntotal_cache 0\n", own));
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 400 * KiB) << "the other 200 are nobody's";
    machine.write("/sys/fs/cgroup/memory/box/memory.stat", fmt::format("total_rss {}\ntotal_cache 0\n", own / 2));
    EXPECT_LT(machine.probe().usable_bytes, 4 * GiB + 1) << "figures that are late are not believed";
    machine.group_v1("/box", 4 * GiB, own + 1 * GiB);
    machine.write("/sys/fs/cgroup/memory/box/memory.stat", fmt::format("total_rss {}\ntotal_cache 0\n", own));
    EXPECT_LT(machine.probe().usable_bytes, 3 * GiB + 256 * MiB);

    machine.join_v2("/box");
    machine.group_v2("/box", text(4 * GiB), "max", own + 600 * KiB);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 600 * KiB) << "a kernel that does not tell";
    machine.write("/sys/fs/cgroup/box/memory.stat",
                  fmt::format("anon {}\nfile 0\nkernel {}\nsock {}\n", own, 300 * KiB, 100 * KiB));
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB - 400 * KiB);
}

TEST(Machine, NeverExceedsTheLimitWhenOthersUseNothing) {
    const FakeMachine machine;
    machine.join_v2("/box");
    machine.group_v2("/box", text(4 * GiB), "max", 0, 1 * GiB, 1 * GiB);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB);
}

TEST(Machine, HasNothingWhenOthersFillTheGroup) {
    const FakeMachine machine;
    machine.join_v2("/box");
    machine.group_v2("/box", text(1 * GiB), "max", 3 * GiB);
    EXPECT_EQ(machine.probe().usable_bytes, 0U);
}

TEST(Machine, FindsItsCgroupWhereAContainerSeesItAsTheRoot) {
    const FakeMachine machine;
    machine.join_v1("/docker/0123abc/inner", "/docker/0123abc");
    machine.group_v1("", 4 * GiB, own);
    machine.group_v1("/inner", v1_unlimited, own);
    EXPECT_EQ(machine.probe().usable_bytes, 4 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.limit_in_bytes of /docker/0123abc");
}

TEST(Machine, TakesTheMountWhenItsPathLeadsOutsideOfIt) {
    const FakeMachine machine;
    machine.join_v2("/../other", "/");
    machine.group_v2("", text(2 * GiB), "max", own);
    EXPECT_EQ(machine.probe().usable_bytes, 2 * GiB);
    machine.join_v1("/docker/0123abcdef", "/docker/0123abc");
    machine.group_v1("", 1 * GiB, own);
    EXPECT_EQ(machine.probe().usable_bytes, 1 * GiB);
}

TEST(Machine, HeedsALimitAboveWhatAContainerSees) {
    const FakeMachine machine;
    machine.join_v1("/docker/abc", "/docker/abc");
    machine.group_v1("", v1_unlimited, own);
    machine.write("/sys/fs/cgroup/memory/memory.stat",
                  fmt::format("hierarchical_memory_limit {}\ntotal_inactive_file 0\n", 2 * GiB));
    EXPECT_EQ(machine.probe().usable_bytes, 2 * GiB);
    EXPECT_THAT(machine.probe().source, HasSubstr("cgroup"));
}

TEST(Machine, HeedsBothVersionsWhereBothAreMounted) {
    const FakeMachine machine;
    machine.write("/proc/self/cgroup", "4:memory:/old\n0::/new\n");
    machine.write("/proc/self/mountinfo", fmt::format(fmt::runtime(v1_mounts), "/") +
                                              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 x rw\n");
    machine.group_v1("/old", 4 * GiB, own);
    machine.write("/sys/fs/cgroup/unified/new/memory.max", "3221225472\n");
    EXPECT_EQ(machine.probe().usable_bytes, 3 * GiB);
    EXPECT_EQ(machine.probe().source, "cgroup memory.max of /new");
}

TEST(Machine, ReadsMountPointsWithSpaces) {
    const FakeMachine machine;
    machine.write("/proc/self/cgroup", "0::/box\n");
    machine.write("/proc/self/mountinfo", "30 23 0:26 / /sys/my\\040groups rw - cgroup2 cgroup2 rw\n");
    machine.write("/sys/my groups/box/memory.max", "1073741824\n");
    EXPECT_EQ(machine.probe().usable_bytes, 1 * GiB);
}

TEST(Machine, DoesWithoutAnyFile) {
    const FakeMachine machine;
    std::filesystem::remove_all(machine.root() + "/proc");
    EXPECT_GT(machine.probe().usable_bytes, 0U);
    EXPECT_EQ(machine.probe().source, "physical memory");
}

TEST(Machine, SurvivesFilesThatMakeNoSense) {
    const FakeMachine machine;
    machine.write("/proc/self/cgroup", "\n:\nno colons\n4:memory\n0::\n");
    machine.write("/proc/self/mountinfo", "\n-\na - cgroup2\n1 2 3 4 5 6 - cgroup2 x\n");
    EXPECT_EQ(machine.probe().source, "MemAvailable");
    machine.join_v2("/box");
    machine.group_v2("/box", "-5", "4x", own);
    EXPECT_EQ(machine.probe().source, "MemAvailable");
}

TEST(Machine, IsBoundByResourceLimits) {
    const FakeMachine machine;
    // So that the limits below are the effective ones.
    machine.write("/proc/meminfo", "MemAvailable: 999999999999 kB\n");
    for (const auto &[resource, source] : {std::pair{RLIMIT_DATA, "RLIMIT_DATA"}, std::pair{RLIMIT_AS, "RLIMIT_AS"}}) {
        rlimit before{};
        ASSERT_EQ(::getrlimit(resource, &before), 0);
        const rlimit lowered = {rlim_t{1} << 49, before.rlim_max};
        if (::setrlimit(resource, &lowered) != 0) {
            GTEST_SKIP() << "this limit is lower already";
        }
        const Machine probed = machine.probe();
        ASSERT_EQ(::setrlimit(resource, &before), 0);
        EXPECT_EQ(probed.usable_bytes, uint64_t{1} << 49);
        EXPECT_THAT(probed.source, HasSubstr(source));
    }
}

TEST(Machine, ProbesTheRealOne) {
    const Machine machine = probe_machine();
    EXPECT_GT(machine.usable_bytes, 0U);
    EXPECT_NE(machine.source, "");
}

} // namespace larder
