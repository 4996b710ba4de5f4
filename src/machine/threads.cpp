#include "machine/threads.h"

#include "machine/out_of_memory.h"
#include "machine/proc_files.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace larder {

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
