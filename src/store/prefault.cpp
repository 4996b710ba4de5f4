#include "store/prefault.h"

#include "base/bytes.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

namespace larder {

namespace {

constexpr uint64_t step_bytes = 2 * MiB; // a huge page

} // namespace

void Prefault::touch(char *base, uint64_t bytes, const std::stop_token &stop) {
    const sched_param idle{};
    sched_setscheduler(0, SCHED_IDLE, &idle); // of this thread; refused at worst, and then it competes for a moment
    for (uint64_t at = 0; at < bytes && !stop.stop_requested(); at += step_bytes) {
        // Kernels before 5.14 do not know it: there the reads touch the pages, as they do where this comes too late.
        if (madvise(base + at, std::min(step_bytes, bytes - at), MADV_POPULATE_WRITE) != 0) {
            return;
        }
    }
}

} // namespace larder
