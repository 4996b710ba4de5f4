// take_memory: takes memory in a cgroup, for bench/neighbour.sh.
//
//   take_memory MIB MIB_PER_S
//
// Takes MIB MiB of memory at the given rate (0: all at once), whatever the usage of the cgroup is. Keeps it for one
// second, prints the rate it reached, and ends.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t mebibyte = uint64_t{1} << 20;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Small pages, so that memory is taken page by page.
char *map(uint64_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return static_cast<char *>(memory);
}

int take(uint64_t bytes, uint64_t bytes_per_s) {
    char *const memory = map(bytes);
    if (memory == nullptr) {
        std::perror("take_memory: cannot map");
        return 1;
    }
    const Clock::time_point begin = Clock::now();
    for (uint64_t taken = 0; taken < bytes;) {
        const double allowed = seconds_since(begin) * static_cast<double>(bytes_per_s);
        const uint64_t due = bytes_per_s == 0 ? bytes : std::min(bytes, static_cast<uint64_t>(allowed));
        std::memset(memory + taken, 1, due - taken);
        taken = due;
        std::this_thread::sleep_for(std::chrono::milliseconds(taken < bytes ? 1 : 0));
    }
    std::printf("%.0f\n", static_cast<double>(bytes / mebibyte) / seconds_since(begin));
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 3) {
            return take(std::stoull(argv[1]) * mebibyte, std::stoull(argv[2]) * mebibyte);
        }
    } catch (const std::exception &) { // the arguments are not numbers
    }
    std::fputs("usage: take_memory MIB MIB_PER_S\n", stderr);
    return 2;
}
