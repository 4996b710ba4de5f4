#include "store/prefault.h"

#include "base/bytes.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

namespace larder {

namespace {

constexpr uint64_t step_bytes = 2 * MiB; // a huge page

} // namespace

void Prefault::stop() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) {
        thread_.request_stop();
        // With idle priority it might not run for long where all cores are busy.
        const sched_param normal{};
        pthread_setschedparam(thread_.native_handle(), SCHED_OTHER, &normal);
        thread_.join();
    }
}

void Prefault::touch(char *base, uint64_t bytes, const std::stop_token &stop) {
    const sched_param idle{};
    sched_setscheduler(0, SCHED_IDLE, &idle); // this thread only; if it fails, the thread competes briefly
    for (uint64_t at = 0; at < bytes && !stop.stop_requested(); at += step_bytes) {
        // Kernels before 5.14 do not support MADV_POPULATE_WRITE. There the reads touch the pages.
        if (madvise(base + at, std::min(step_bytes, bytes - at), MADV_POPULATE_WRITE) != 0) {
            return;
        }
    }
}

} // namespace larder
