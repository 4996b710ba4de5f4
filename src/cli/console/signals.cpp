#include "cli/console/signals.h"

#include "base/error.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace larder {

namespace {

void wake(const UniqueFd &event) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof one);
}

} // namespace

Signals::Signals() : wake_input_(eventfd(0, EFD_CLOEXEC)), wake_thread_(eventfd(0, EFD_CLOEXEC)) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal_fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC));
    if (!signal_fd_.valid() || !wake_input_.valid() || !wake_thread_.valid()) {
        throw Error::from_errno(errno, "cannot set up signal handling");
    }
    thread_ = std::thread([this] { run(); });
}

Signals::~Signals() {
    wake(wake_thread_);
    thread_.join();
}

void Signals::set_handlers(std::function<void()> stop_answer, std::function<void()> write_stats) {
    const std::lock_guard lock(handlers_mutex_);
    stop_answer_ = std::move(stop_answer);
    write_stats_ = std::move(write_stats);
}

void Signals::answer_begins() {
    stopping_ = false;
    answering_ = true;
}

void Signals::answer_ends() {
    answering_ = false;
    stopping_ = false;
}

void Signals::run() {
    for (;;) {
        std::array<pollfd, 2> fds = {{{signal_fd_.get(), POLLIN, 0}, {wake_thread_.get(), POLLIN, 0}}};
        if (poll(fds.data(), fds.size(), -1) < 0) {
            continue;
        }
        if (fds[1].revents != 0) {
            return;
        }
        signalfd_siginfo info{};
        if (read(signal_fd_.get(), &info, sizeof info) != sizeof info) {
            continue;
        }
        if (info.ssi_signo == SIGUSR2) {
            const std::lock_guard lock(handlers_mutex_);
            if (write_stats_) {
                write_stats_();
            }
        } else if (stopping_.exchange(true)) { // the second signal
            std::_Exit(exit_interrupted);
        } else if (info.ssi_signo == SIGINT) {
            on_interrupt();
        } else {
            on_terminate();
        }
    }
}

void Signals::on_interrupt() {
    if (!answering_) {
        on_terminate();
        return;
    }
    const std::lock_guard lock(handlers_mutex_);
    if (stop_answer_) {
        stop_answer_();
    }
}

void Signals::on_terminate() {
    if (quit_.exchange(true)) { // the second signal: the program does not respond
        std::_Exit(exit_interrupted);
    }
    wake(wake_input_);
    const std::lock_guard lock(handlers_mutex_);
    if (stop_answer_) {
        stop_answer_();
    } else {
        std::_Exit(exit_interrupted); // still loading; no cleanup is needed
    }
}

// Waits for input and appends it to input_.
bool Signals::read_input() {
    while (!quit_ && !input_ended_) {
        std::array<pollfd, 2> fds = {{{STDIN_FILENO, POLLIN, 0}, {wake_input_.get(), POLLIN, 0}}};
        if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
            return false;
        }
        if (quit_ || fds[0].revents == 0) {
            continue;
        }
        std::array<char, 65536> buffer{};
        const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
        if (n > 0) {
            input_.append(buffer.data(), static_cast<size_t>(n));
            return true;
        }
        input_ended_ = n == 0 || errno != EINTR;
    }
    return false;
}

Signals::Line Signals::read_line(std::string &line, uint64_t bytes_max) {
    constexpr uint64_t skipped_bytes_max = uint64_t{1} << 30U; // a line without an end, for example /dev/zero
    line.clear();
    uint64_t skipped = 0;
    for (size_t searched = 0;;) {
        const size_t newline = input_.find('\n', searched);
        const bool ends = newline != std::string::npos;
        const size_t length = ends ? newline : input_.size();
        if (skipped + length <= bytes_max) {
            line.assign(input_, 0, ends ? length : 0);
            searched = length;
        } else {
            skipped += length;
            searched = 0;
        }
        if (ends || skipped > 0) {
            input_.erase(0, ends ? length + 1 : length);
        }
        input_ended_ = input_ended_ || skipped > skipped_bytes_max;
        if (ends || !read_input()) {
            if (!ends && skipped == 0) { // the last line may lack its newline
                line = std::exchange(input_, {});
            }
            const bool nothing = !ends && skipped == 0 && line.empty();
            return quit_ || nothing ? Line::end : skipped > 0 ? Line::too_long : Line::text;
        }
    }
}

} // namespace larder
