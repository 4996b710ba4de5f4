// Limits of addresses, of which not all is memory.
#include "plan/address_space.h"

#include "base/bytes.h"
#include "plan/proc_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace larder {
namespace {

using testing::HasSubstr;

// A process of which /proc says so much, in KiB.
IdleAddresses idle_of(uint64_t data, uint64_t size, uint64_t rss) {
    std::string root = (std::filesystem::temp_directory_path() / "larder_addresses_XXXXXX").string();
    EXPECT_NE(::mkdtemp(root.data()), nullptr);
    std::filesystem::create_directories(root + "/proc/self");
    std::ofstream(root + "/proc/self/status")
        << fmt::format("VmSize:\t {} kB\nVmRSS:\t {} kB\nVmData:\t {} kB\n", size, rss, data);
    const IdleAddresses idle = idle_addresses(root);
    std::filesystem::remove_all(root);
    return idle;
}

// Sets a soft limit for as long as it lives.
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

TEST(AddressSpace, IsIdleWhereItIsMappedAndNotInRam) {
    const IdleAddresses idle = idle_of(130'000, 500'000, 80'000);
    EXPECT_EQ(idle.writable, 50'000 * KiB);
    EXPECT_EQ(idle.all, 420'000 * KiB);
    EXPECT_EQ(idle_of(70'000, 500'000, 80'000).writable, 0U) << "pages of the program's files are no data";
}

TEST(AddressSpace, OfTheRealProcessHoldsMoreThanIsInRam) { EXPECT_GT(idle_addresses().all, 0U); }

TEST(AddressSpace, BoundsNothingWithoutALimit) {
    const Machine machine = within_limits(roomy, {}, {2 * GiB, 2 * GiB});
    EXPECT_EQ(machine.usable_bytes, 1 * GiB);
    EXPECT_EQ(machine.source, "MemAvailable");
    EXPECT_EQ(raise_limit_for(machine, 2 * GiB), "");
}

TEST(AddressSpace, LeavesABudgetOfWhatIsNotIdle) {
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

TEST(AddressSpace, ALimitRaisedAsToldHoldsTheBudget) {
    const IdleAddresses idle{50 * MiB + 3, 0};
    const Machine refused = within_limits(roomy, {100 * MiB, {}}, idle);
    const std::string remedy = raise_limit_for(refused, 200 * MiB);
    EXPECT_EQ(remedy, fmt::format("raise 'ulimit -d' to {} or more", 251 * 1024));
    EXPECT_GE(within_limits(roomy, {251 * MiB, {}}, idle).usable_bytes, 200 * MiB);
}

TEST(AddressSpace, APlanThatDoesNotFitSaysWhichLimitToRaise) {
    ModelLayout layout;
    layout.size_classes = {{1000, 4096, 100, 8}};
    const Machine machine = within_limits(roomy, {64 * MiB, {}}, {44 * MiB, 0});
    PlanWishes wishes;
    const auto refusal = [&](uint64_t resident) -> std::string {
        try {
            make_plan(layout, {.resident = resident}, machine, wishes);
        } catch (const Error &error) {
            EXPECT_EQ(error.kind(), ErrorKind::budget);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal(10 * MiB), "");
    EXPECT_THAT(refusal(30 * MiB), HasSubstr("RLIMIT_DATA (ulimit -d)): raise 'ulimit -d' to "));
    wishes.budget_bytes = 30 * MiB;
    EXPECT_THAT(refusal(10 * MiB), HasSubstr("use --ram 20M or less, or raise 'ulimit -d' to 75776 or more"));
}

TEST(AddressSpace, WhatRanOutIsTheLimitWhereThereIsOne) {
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

TEST(AddressSpace, ThreadsHaveStacksOfOneSizeAfterwards) {
    set_up_process();
    size_t stack = 0;
    std::thread([&] {
        pthread_attr_t attributes;
        ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
        ASSERT_EQ(pthread_attr_getstacksize(&attributes, &stack), 0);
        pthread_attr_destroy(&attributes);
    }).join();
    EXPECT_EQ(stack, thread_stack_bytes);
    check_threads_can_start(8);
}

} // namespace
} // namespace larder
