#include "support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace larder::test {

namespace {

void join_cgroup(const std::string &procs) {
    const int fd = open(procs.c_str(), O_WRONLY | O_CLOEXEC);
    const std::string self = std::to_string(getpid());
    if (fd < 0 || write(fd, self.data(), self.size()) < 0) {
        _exit(126);
    }
    close(fd);
}

// Appends the available data to `text`. At the end of file it closes the descriptor and sets it to -1.
void drain(int &fd, std::string &text) {
    std::array<char, 4096> buffer{};
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n > 0) {
        text.append(buffer.data(), static_cast<size_t>(n));
    } else if (n == 0 || errno != EINTR) {
        close(fd);
        fd = -1;
    }
}

} // namespace

Process::Process(const std::vector<std::string> &argv, const std::string &cgroup_procs) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
        std::abort();
    }
    std::vector<char *> raw;
    for (const std::string &argument : argv) {
        raw.push_back(const_cast<char *>(argument.c_str()));
    }
    raw.push_back(nullptr);
    std::signal(SIGPIPE, SIG_IGN); // writing to an ended program must only fail an expectation
    pid_ = fork();
    if (pid_ == 0) {
        std::signal(SIGPIPE, SIG_DFL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (!cgroup_procs.empty()) {
            join_cgroup(cgroup_procs);
        }
        execv(raw[0], raw.data());
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
}

Process::~Process() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        wait();
    }
}

void Process::type(const std::string &text) {
    [[maybe_unused]] const ssize_t written = write(in_, text.data(), text.size());
}

void Process::end_input() {
    if (in_ >= 0) {
        close(std::exchange(in_, -1));
    }
}

void Process::signal(int number) const { kill(pid_, number); }

bool Process::read_some(int timeout_ms) {
    if (out_ < 0 && err_ < 0) {
        return false;
    }
    std::array<pollfd, 2> fds = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
    poll(fds.data(), fds.size(), timeout_ms);
    if (fds[0].revents != 0) {
        drain(out_, so_far_.out);
    }
    if (fds[1].revents != 0) {
        drain(err_, so_far_.err);
    }
    return true;
}

bool Process::wait_until(const std::function<bool()> &condition) {
    constexpr int tries = 600;
    constexpr int try_ms = 100;
    for (int i = 0; i < tries && !condition(); i++) {
        if (!read_some(try_ms)) {
            return condition();
        }
    }
    return condition();
}

bool Process::wait_for_error(const std::string &text) {
    return wait_until([&] { return so_far_.err.find(text) != std::string::npos; });
}

bool Process::wait_for_output_lines(size_t lines) {
    return wait_until(
        [&] { return static_cast<size_t>(std::count(so_far_.out.begin(), so_far_.out.end(), '\n')) >= lines; });
}

bool Process::wait_for_output_bytes(size_t bytes) {
    return wait_until([&] { return so_far_.out.size() >= bytes; });
}

Finished Process::wait() {
    end_input();
    return wait_with_open_input();
}

Finished Process::wait_with_open_input() {
    while (read_some(-1)) {
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    so_far_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return so_far_;
}

Finished run(const std::vector<std::string> &argv, const std::string &cgroup_procs) {
    return Process(argv, cgroup_procs).wait();
}

Finished larder(std::vector<std::string> arguments, const std::string &cgroup_procs) {
    arguments.insert(arguments.begin(), LARDER_PROGRAM);
    return run(arguments, cgroup_procs);
}

Finished larder_without_threads(std::vector<std::string> arguments) {
    constexpr const char *nobody = "65534";
    std::vector<std::string> argv = {"/usr/bin/prlimit",
                                     "--nproc=1",
                                     "setpriv",
                                     std::string("--reuid=") + nobody,
                                     std::string("--regid=") + nobody,
                                     "--clear-groups",
                                     LARDER_PROGRAM};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return run(argv);
}

} // namespace larder::test
