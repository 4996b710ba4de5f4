#include "runtime/address_needs.h"

#include "base/bytes.h"
#include "machine/threads.h"

#include "ggml.h"

#include <algorithm>

namespace larder {
namespace {

constexpr uint32_t own_threads = 4; // memory watcher, arena prefault, signals, and llama.cpp's log
constexpr uint32_t read_threads_max = 16;
// Mapped after the measurement: the alignment of the arena, the rings, and what the heap rounds up or does not return.
constexpr uint64_t slack_bytes = 6 * MiB;

} // namespace

uint32_t threads_to_start(uint32_t threads, const ReaderOptions &reader) {
    // llama.cpp refuses a larger number later.
    uint32_t all = std::min<uint32_t>(threads, GGML_MAX_N_THREADS) + own_threads - 1;
    if (reader.backend == IoBackend::pread) {
        all += std::min(read_threads_max, reader.depth > 0 ? reader.depth : default_read_depth);
    }
    return all;
}

IdleAddresses with_what_is_to_come(const IdleAddresses &with_context, uint32_t threads, const ReaderOptions &reader,
                                   uint64_t routed_bytes) {
    IdleAddresses idle = with_context;
    const uint64_t to_start = threads_to_start(threads, reader);
    // The stacks of running threads are already part of the idle addresses.
    const uint64_t to_come = (to_start - std::min(to_start, threads_running())) * thread_stack_bytes + slack_bytes;
    idle.writable += to_come;
    idle.all += to_come + routed_bytes;
    return idle;
}

} // namespace larder
