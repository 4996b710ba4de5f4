#include "support/neighbour.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace larder::test {
namespace {

constexpr useconds_t pause_us = 10'000;

[[noreturn]] void take(const Cgroup &home, const Cgroup &limited, uint64_t bytes, int full) {
    dup2(full, STDIN_FILENO);               // which nobody reads
    close_range(STDERR_FILENO + 1, ~0U, 0); // pipes to other processes of the test, which would never see their end
    std::ofstream(home.procs()) << getpid() << std::flush;
    for (uint64_t taken = 0; taken < bytes; usleep(pause_us)) {
        if (limited.used_bytes() + 2 * MiB <= limited.limit_bytes()) {
            void *memory = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) {
                _exit(1);
            }
            std::memset(memory, 1, MiB);
            taken += MiB;
        }
    }
    [[maybe_unused]] const ssize_t written = write(STDIN_FILENO, "x", 1);
    for (;;) {
        pause();
    }
}

} // namespace

Neighbour::Neighbour(const Cgroup &home, const Cgroup &limited, uint64_t bytes) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        std::abort();
    }
    pid_ = fork();
    if (pid_ == 0) {
        take(home, limited, bytes, ends[1]);
    }
    close(ends[1]);
    full_ = ends[0];
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
