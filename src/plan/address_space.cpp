#include "plan/address_space.h"

#include "base/bytes.h"
#include "plan/proc_files.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace larder {
namespace {

constexpr uint64_t main_stack_least = 256 * KiB; // it takes some 130
constexpr uint64_t main_stack_wanted = 8 * MiB;  // what systems give without being asked
constexpr int mmap_threshold = 4 * 1024 * 1024;  // larger blocks are mappings of their own
constexpr size_t kept_for_messages = 256 * KiB;

// Freed where memory has run out, so that it can be said.
std::unique_ptr<char[]> for_messages; // NOLINT(modernize-avoid-c-arrays)

std::optional<uint64_t> soft_limit(__rlimit_resource_t resource) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    return limit.rlim_cur;
}

void grow_main_stack() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= main_stack_least) {
        return;
    }
    const rlimit raised{std::min<rlim_t>(limit.rlim_max, main_stack_wanted), limit.rlim_max};
    if (raised.rlim_cur >= main_stack_least && ::setrlimit(RLIMIT_STACK, &raised) == 0) {
        return;
    }
    throw Error(ErrorKind::io,
                fmt::format("the stack may not grow beyond {} (ulimit -s)", format_bytes(limit.rlim_cur)),
                fmt::format("raise 'ulimit -s' to {} or more", main_stack_least / KiB));
}

struct Bound {
    const char *name;
    const char *ulimit;
    std::optional<uint64_t> limit;
    uint64_t idle;
};

std::array<Bound, 2> bounds(const AddressLimits &limits, const IdleAddresses &idle) {
    return {{{"RLIMIT_DATA (ulimit -d)", "ulimit -d", limits.writable, idle.writable},
             {"RLIMIT_AS (ulimit -v)", "ulimit -v", limits.all, idle.all}}};
}

uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

} // namespace

void set_up_process() {
    grow_main_stack();
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, thread_stack_bytes);
        pthread_setattr_default_np(&attributes); // of OpenMP's threads too
        pthread_attr_destroy(&attributes);
    }
    mallopt(M_ARENA_MAX, 1); // each other heap takes 64 MiB of addresses
    // Else they grow, the heap keeps what was freed, and what the process holds depends on the order of things.
    mallopt(M_MMAP_THRESHOLD, mmap_threshold);
    mallopt(M_TRIM_THRESHOLD, mmap_threshold);
    if (address_limits().any()) {
        for_messages = std::make_unique<char[]>(kept_for_messages); // NOLINT(modernize-avoid-c-arrays)
    }
}

AddressLimits address_limits() { return {soft_limit(RLIMIT_DATA), soft_limit(RLIMIT_AS)}; }

IdleAddresses idle_addresses(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    const auto bytes = [&](const char *key) { return status.find(key).value_or(0) * KiB; };
    // A budget holds the pages of the program's files too, which are no data.
    return {above(bytes("VmData"), bytes("VmRSS")), above(bytes("VmSize"), bytes("VmRSS"))};
}

Machine within_limits(const Machine &machine, const AddressLimits &limits, const IdleAddresses &idle) {
    Machine least = machine;
    for (const Bound &bound : bounds(limits, idle)) {
        if (bound.limit && above(*bound.limit, bound.idle) < least.usable_bytes) {
            least = {above(*bound.limit, bound.idle), bound.name, bound.ulimit, bound.idle};
        }
    }
    return least;
}

std::string raise_limit_for(const Machine &machine, uint64_t budget_bytes) {
    if (machine.ulimit.empty()) {
        return {};
    }
    return fmt::format("raise '{}' to {} or more", machine.ulimit,
                       align_up(budget_bytes + machine.idle_bytes, MiB) / KiB);
}

std::string named_limits() {
    std::string named;
    for (const Bound &bound : bounds(address_limits(), {})) {
        if (bound.limit) {
            named += fmt::format("{}{} lets the process map {}", named.empty() ? "" : ", ", bound.name,
                                 format_bytes(*bound.limit));
        }
    }
    return named;
}

Error out_of_memory(const std::string &what) {
    for_messages.reset();
    const std::string named = named_limits();
    return named.empty()
               ? Error(ErrorKind::io, what, "lower --ram or -c")
               : Error(ErrorKind::budget, fmt::format("{}: {}", what, named), "raise that limit, or lower --ram or -c");
}

Error no_thread(const std::error_code &code) {
    const std::string what = fmt::format("cannot start a thread: {}", code.message());
    if (address_limits().any()) {
        return out_of_memory(what);
    }
    return {ErrorKind::io, what, "allow more of them (ulimit -u, pids.max of the cgroup), or use fewer (-t)"};
}

uint64_t threads_running() {
    return std::max<uint64_t>(1, KeyedFile("/proc/self/status").find("Threads").value_or(1)) - 1;
}

void check_threads_can_start(uint32_t threads) {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    std::error_code refused;
    std::vector<std::thread> all;
    all.reserve(threads);
    try {
        while (all.size() < threads) {
            all.emplace_back([&] {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return over; });
            });
        }
    } catch (const std::system_error &error) {
        refused = error.code();
    } catch (const std::bad_alloc &) {
        refused = std::make_error_code(std::errc::not_enough_memory);
    }
    {
        const std::lock_guard lock(mutex);
        over = true;
    }
    changed.notify_all();
    for (std::thread &thread : all) {
        thread.join();
    }
    if (refused) {
        throw no_thread(refused);
    }
}

} // namespace larder
