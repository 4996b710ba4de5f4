// Limits of addresses, not all of which are memory.
#include "machine/address_limits.h"

#include "base/bytes.h"
#include "machine/out_of_memory.h"
#include "support/fake_root.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace larder {
namespace {

using testing::HasSubstr;

// The idle addresses of a process with these figures in /proc, in KiB.
IdleAddresses idle_of(uint64_t data, uint64_t size, uint64_t rss) {
    const test::FakeRoot root;
    root.write("/proc/self/status", fmt::format("VmSize:\t {} kB\nVmRSS:\t {} kB\nVmData:\t {} kB\n", size, rss, data));
    return idle_addresses(root.path());
}

// Sets a soft limit while it exists.
class SoftLimit {
  public:
    SoftLimit(__rlimit_resource_t resource, rlim_t bytes) : resource_(resource) {
        EXPECT_EQ(::getrlimit(resource, &before_), 0);
        const rlimit lowered{bytes, before_.rlim_max};
        EXPECT_EQ(::setrlimit(resource, &lowered), 0);
    }
    ~SoftLimit() { ::setrlimit(resource_, &before_); }
    SoftLimit(const SoftLimit &) = delete;
    SoftLimit &operator=(const SoftLimit &) = delete;

  private:
    __rlimit_resource_t resource_;
    rlimit before_{};
};

const Machine roomy{1 * GiB, "MemAvailable"};

TEST(AddressLimits, IsIdleWhereItIsMappedAndNotInRam) {
    const IdleAddresses idle = idle_of(130'000, 500'000, 80'000);
    EXPECT_EQ(idle.writable, 50'000 * KiB);
    EXPECT_EQ(idle.all, 420'000 * KiB);
    EXPECT_EQ(idle_of(70'000, 500'000, 80'000).writable, 0U) << "pages of the program's files are no data";
}

TEST(AddressLimits, OfTheRealProcessHoldsMoreThanIsInRam) { EXPECT_GT(idle_addresses().all, 0U); }

TEST(AddressLimits, BoundsNothingWithoutALimit) {
    const Machine machine = within_limits(roomy, {}, {2 * GiB, 2 * GiB});
    EXPECT_EQ(machine.usable_bytes, 1 * GiB);
    EXPECT_EQ(machine.source, "MemAvailable");
    EXPECT_EQ(raise_limit_for(machine, 2 * GiB), "");
}

TEST(AddressLimits, LeavesABudgetOfWhatIsNotIdle) {
    const IdleAddresses idle{50 * MiB, 300 * MiB};
    Machine machine = within_limits(roomy, {150 * MiB, {}}, idle);
    EXPECT_EQ(machine.usable_bytes, 100 * MiB);
    EXPECT_EQ(machine.source, "RLIMIT_DATA (ulimit -d)");
    machine = within_limits(roomy, {{}, 420 * MiB}, idle);
    EXPECT_EQ(machine.usable_bytes, 120 * MiB);
    EXPECT_EQ(machine.source, "RLIMIT_AS (ulimit -v)");
    EXPECT_EQ(within_limits(roomy, {150 * MiB, 420 * MiB}, idle).usable_bytes, 100 * MiB) << "the lower one";
    EXPECT_EQ(within_limits(roomy, {40 * MiB, {}}, idle).usable_bytes, 0U);
    EXPECT_EQ(within_limits(roomy, {2 * GiB, {}}, idle).source, "MemAvailable") << "where there is less memory";
}

TEST(AddressLimits, AreOfThisProcessAloneSoThatClaimsOfOthersDoNotLowerThem) {
    Machine claimed = roomy;
    claimed.claimed_bytes = 700 * MiB;
    Machine machine = within_limits(claimed, {200 * MiB, {}}, {});
    EXPECT_EQ(machine.usable_bytes, 200 * MiB);
    EXPECT_EQ(machine.claimed_bytes, 0U) << "324 MiB of the machine are unclaimed";
    machine = within_limits(claimed, {500 * MiB, {}}, {});
    EXPECT_EQ(machine.unclaimed_bytes(), 324 * MiB);
}

TEST(AddressLimits, ALimitRaisedAsToldHoldsTheBudget) {
    const IdleAddresses idle{50 * MiB + 3, 0};
    const Machine refused = within_limits(roomy, {100 * MiB, {}}, idle);
    const std::string remedy = raise_limit_for(refused, 200 * MiB);
    EXPECT_EQ(remedy, fmt::format("raise 'ulimit -d' to {} or more", 251 * 1024));
    EXPECT_GE(within_limits(roomy, {251 * MiB, {}}, idle).usable_bytes, 200 * MiB);
}

TEST(AddressLimits, WhatRanOutIsTheLimitWhereThereIsOne) {
    EXPECT_EQ(out_of_memory().kind(), ErrorKind::io);
    const std::error_code again(EAGAIN, std::generic_category());
    EXPECT_THAT(no_thread(again).what(), HasSubstr("ulimit -u"));
    const SoftLimit limit(RLIMIT_DATA, rlim_t{1} << 49);
    EXPECT_EQ(out_of_memory().kind(), ErrorKind::budget);
    EXPECT_THAT(out_of_memory("no room").what(),
                HasSubstr("no room: RLIMIT_DATA (ulimit -d) lets the process map 512 TiB; raise that limit"));
    EXPECT_THAT(no_thread(again).what(), HasSubstr("cannot start a thread"));
    EXPECT_EQ(no_thread(again).kind(), ErrorKind::budget);
}

} // namespace
} // namespace larder
