#include "support/neighbour.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace larder::test {
namespace {

constexpr useconds_t pause_us = 10'000;

char *map(uint64_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        _exit(1);
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return static_cast<char *>(memory);
}

void take_what_there_is(const Cgroup &limited, uint64_t bytes) {
    for (uint64_t taken = 0; taken < bytes; usleep(pause_us)) {
        if (limited.used_bytes() + 2 * MiB <= limited.limit_bytes()) {
            std::memset(map(MiB), 1, MiB);
            taken += MiB;
        }
    }
}

void take_at_a_rate(uint64_t bytes, uint64_t bytes_per_ms) {
    using Clock = std::chrono::steady_clock;
    char *const memory = map(bytes);
    const Clock::time_point begin = Clock::now();
    for (uint64_t taken = 0; taken < bytes; usleep(1000)) {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
        const uint64_t due = std::min(bytes, static_cast<uint64_t>(ms) * bytes_per_ms);
        std::memset(memory + taken, 1, due - taken);
        taken = due;
    }
}

} // namespace

template <typename Take> void Neighbour::start(const Cgroup &home, Take take) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        std::abort();
    }
    pid_ = fork();
    if (pid_ == 0) {
        dup2(ends[1], STDIN_FILENO);            // standard input is not read
        close_range(STDERR_FILENO + 1, ~0U, 0); // closes pipes of other processes, which need their end of file
        std::ofstream(home.procs()) << getpid() << std::flush;
        take();
        [[maybe_unused]] const ssize_t written = write(STDIN_FILENO, "x", 1);
        for (;;) {
            pause();
        }
    }
    close(ends[1]);
    full_ = ends[0];
}

Neighbour::Neighbour(const Cgroup &home, const Cgroup &limited, uint64_t bytes) {
    start(home, [&] { take_what_there_is(limited, bytes); });
}

Neighbour::Neighbour(const Cgroup &home, uint64_t bytes, uint64_t bytes_per_ms) {
    start(home, [&] { take_at_a_rate(bytes, bytes_per_ms); });
}

Neighbour::~Neighbour() {
    end();
    close(full_);
}

bool Neighbour::wait_until_full() const {
    constexpr int minute_ms = 60'000;
    pollfd waiting = {full_, POLLIN, 0};
    char byte = 0;
    return poll(&waiting, 1, minute_ms) == 1 && read(full_, &byte, 1) == 1;
}

bool Neighbour::alive() const { return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0; }

void Neighbour::end() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(std::exchange(pid_, -1), nullptr, 0);
    }
}

} // namespace larder::test
