#include "cli/worker/process.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace larder {

namespace {

// An unnamed file with this text, positioned at its beginning.
UniqueFd file_of(const std::string &text) {
    UniqueFd fd(memfd_create("larder job", MFD_CLOEXEC));
    size_t done = 0;
    while (fd.valid() && done < text.size()) {
        const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) {
            break;
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    if (!fd.valid() || done < text.size() || lseek(fd.get(), 0, SEEK_SET) != 0) {
        throw Error::from_errno(errno, "cannot pass a job to another process");
    }
    return fd;
}

} // namespace

Process::Process(const std::vector<std::string> &arguments, const std::string &text) {
    const UniqueFd job = file_of(text);
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error::from_errno(errno, "cannot make a pipe");
    }
    output_ = UniqueFd(ends[0]);
    const UniqueFd input(ends[1]);
    std::vector<char *> argv;
    std::string program = "larder";
    argv.push_back(program.data());
    for (const std::string &argument : arguments) {
        argv.push_back(const_cast<char *>(argument.c_str())); // execv() takes char *, but does not write
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) {
        throw Error::from_errno(errno, "cannot start another process");
    }
    if (pid_ == 0) {
        sigset_t none; // a signal that a thread of this process blocks must end the child
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        prctl(PR_SET_PDEATHSIG, SIGTERM); // without its parent the child has no purpose
        dup2(job.get(), STDIN_FILENO);
        dup2(input.get(), STDOUT_FILENO);
        execv("/proc/self/exe", argv.data());
        _exit(127);
    }
}

Process::~Process() {
    if (pid_ > 0) {
        kill(pid_, SIGTERM);
        waitpid(pid_, nullptr, 0);
    }
}

bool Process::read_line(std::string &line) {
    for (;;) {
        const size_t newline = pending_.find('\n');
        if (newline != std::string::npos) {
            line = pending_.substr(0, newline);
            pending_.erase(0, newline + 1);
            return true;
        }
        std::array<char, 65536> buffer{};
        const ssize_t n = read(output_.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        pending_.append(buffer.data(), static_cast<size_t>(n));
    }
}

void Process::terminate() const {
    if (pid_ > 0) {
        kill(pid_, SIGTERM);
    }
}

int Process::wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace larder
