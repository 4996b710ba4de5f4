#include "machine/process.h"

#include "base/bytes.h"
#include "base/error.h"
#include "machine/numa.h"
#include "machine/out_of_memory.h"
#include "machine/threads.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace larder {

namespace {

constexpr uint64_t main_stack_least = 256 * KiB; // in use: about 130 KiB
constexpr uint64_t main_stack_wanted = 8 * MiB;  // the usual default of systems
constexpr int mmap_threshold = 4 * 1024 * 1024;  // larger allocations get a mapping of their own

// Rounds that an OpenMP thread spins at a barrier before it sleeps; this is some microseconds. libgomp's default is
// some milliseconds. If another program uses one of the cores, the spinning thread then keeps its core while the thread
// that it waits for cannot run, at a thousand barriers per token. This value is as fast on an idle machine and several
// times as fast on a busy one (docs/what-did-not-work.md).
constexpr const char *spin_count = "300";

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

void set_thread_stacks() {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, thread_stack_bytes);
        pthread_setattr_default_np(&attributes); // also for OpenMP's threads
        pthread_attr_destroy(&attributes);
    }
}

void set_up_heap() {
    mallopt(M_ARENA_MAX, 1); // each further heap takes 64 MiB of addresses
    // Otherwise glibc adapts both thresholds: the heap keeps freed memory, and how much depends on the order of
    // allocations.
    mallopt(M_MMAP_THRESHOLD, mmap_threshold);
    mallopt(M_TRIM_THRESHOLD, mmap_threshold);
    keep_memory_for_errors();
}

void start_again_with_short_spins(char *const *argv) {
    if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr &&
        ::setenv("GOMP_SPINCOUNT", spin_count, 1) == 0) {
        std::error_code error; // the resolved path, so that the list of processes shows the program's name
        ::execv(std::filesystem::read_symlink("/proc/self/exe", error).c_str(), argv);
        // If execv() fails, the program still works, with long spins.
    }
}

} // namespace

void set_up_process(char *const *argv) {
    grow_main_stack();
    if (argv != nullptr) {
        start_again_with_short_spins(argv);
    }
    signal(SIGCHLD, SIG_DFL); // a parent may have ignored it; then no child would leave a status
    signal(SIGXFSZ, SIG_IGN); // then a write beyond ulimit -f fails with EFBIG, and is reported
    set_thread_stacks();
    set_up_heap();
    interleave_memory();
}

} // namespace larder
