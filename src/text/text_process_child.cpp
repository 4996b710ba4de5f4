#include "text/text_process_child.h"

#include "text/own_stack.h"

#include "ggml.h"
#include "log.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace larder {

namespace {

constexpr int control_fd = 3;

// Keeps only the control socket and /dev/null open: the parent's files must close when the parent closes them.
void keep_only(int control) {
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        dup2(nowhere, fd);
    }
    dup2(control, control_fd);
    if (syscall(SYS_close_range, control_fd + 1, ~0U, 0) != 0) {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        for (int fd = control_fd + 1; fd < static_cast<int>(std::min<rlim_t>(files.rlim_cur, 65536)); fd++) {
            close(fd);
        }
    }
}

void take_signals() {
    for (int number = 1; number < SIGRTMIN; number++) {
        signal(number, SIG_DFL);
    }
    // The parent handles signals that are sent to the process group. This process ends with the control socket.
    for (const int number : {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ}) {
        signal(number, SIG_IGN);
    }
    signal(SIGCHLD, SIG_IGN); // children do not become zombies
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool read_all(int fd, void *data, size_t bytes) {
    auto *to = static_cast<char *>(data);
    while (bytes > 0) {
        const ssize_t n = read(fd, to, bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        if (n > 0) {
            to += n;
            bytes -= static_cast<size_t>(n);
        }
    }
    return true;
}

void write_all(int fd, const char *from, size_t bytes) {
    while (bytes > 0) {
        const ssize_t n = write(fd, from, bytes);
        if (n < 0 && errno != EINTR) {
            return; // the parent has closed the socket
        }
        if (n > 0) {
            from += n;
            bytes -= static_cast<size_t>(n);
        }
    }
}

int answer_fd = -1; // a child has one job; its signal handlers answer here, too

// While on, SIGIO ends this process when the other end of the socket closes: the job was stopped, or its parent has
// ended.
void end_with_socket(int fd, bool on) {
    fcntl(fd, F_SETOWN, getpid());
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC);
}

[[noreturn]] void answer(JobEnd end, const std::string &text = {}) {
    const itimerval none{};
    setitimer(ITIMER_PROF, &none, nullptr);
    end_with_socket(answer_fd, false);
    const AnswerHeader header{end, text.size()};
    write_all(answer_fd, reinterpret_cast<const char *>(&header), sizeof header);
    write_all(answer_fd, text.data(), text.size());
    _exit(0);
}

void on_signal(int number, siginfo_t *info, void * /*context*/) {
    constexpr uintptr_t null_page_end = 64 * KiB; // a fault at a lower address is a null pointer, not a stack overflow
    const bool overflow = (number == SIGSEGV || number == SIGBUS) &&
                          reinterpret_cast<uintptr_t>(info->si_addr) >= null_page_end; // NOLINT(*-union-access)
    const JobEnd end = number == SIGPROF ? JobEnd::processor : overflow ? JobEnd::stack : JobEnd::crashed;
    const AnswerHeader header{end, 0};
    write_all(answer_fd, reinterpret_cast<const char *>(&header), sizeof header);
    _exit(0);
}

void handle_faults() {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) {
        sigaction(number, &action, nullptr);
    }
}

// Writable memory of this process in bytes, as RLIMIT_DATA counts it.
uint64_t data_bytes() {
    std::array<char, 4096> text{};
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = read(fd, text.data(), text.size() - 1);
    close(fd);
    const char *line = n > 0 ? std::strstr(text.data(), "VmData:") : nullptr;
    return line != nullptr ? std::strtoull(line + 7, nullptr, 10) * KiB : 0;
}

void set_limits(const JobLimits &limits) {
    rlimit data{};
    getrlimit(RLIMIT_DATA, &data);
    data.rlim_cur =
        std::min<rlim_t>(data.rlim_max, data_bytes() + limits.memory_bytes + limits.stack_bytes + 256 * KiB);
    setrlimit(RLIMIT_DATA, &data);
    itimerval timer{};
    timer.it_value.tv_sec = static_cast<time_t>(limits.cpu_ms / 1000);
    timer.it_value.tv_usec = static_cast<suseconds_t>(limits.cpu_ms % 1000 * 1000);
    setitimer(ITIMER_PROF, &timer, nullptr);
}

// If the cgroup runs out of memory nevertheless, the kernel ends this child first.
void go_first() {
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    [[maybe_unused]] const ssize_t written = write(fd, "1000", 4);
    close(fd);
}

// A signal handler needs another stack after a stack overflow. The thread has this one while the object lives.
class SignalStack {
  public:
    SignalStack() {
        alignas(16) static std::array<char, 64 * KiB> bytes;
        stack_t stack{};
        stack.ss_sp = bytes.data();
        stack.ss_size = bytes.size();
        sigaltstack(&stack, &before_);
    }
    ~SignalStack() { sigaltstack(&before_, nullptr); }
    SignalStack(const SignalStack &) = delete;
    SignalStack &operator=(const SignalStack &) = delete;

  private:
    stack_t before_{};
};

[[noreturn]] void do_job(int fd) {
    answer_fd = fd;
    go_first();
    handle_faults();
    RequestHeader header{};
    std::string request;
    if (!read_all(fd, &header, sizeof header)) {
        _exit(1);
    }
    request.resize(header.request_bytes);
    if (!read_all(fd, request.data(), request.size())) {
        _exit(1);
    }
    set_limits(header.limits);
    end_with_socket(fd, true);
    std::string result;
    try {
        run_on_own_stack(header.limits.stack_bytes, [&] {
            const SignalStack signal_stack;
            result = header.job(request);
        });
    } catch (const std::bad_alloc &) {
        answer(JobEnd::memory);
    } catch (const std::exception &error) {
        answer(JobEnd::refused, error.what());
    }
    answer(result.size() > header.limits.result_bytes ? JobEnd::large : JobEnd::done, result);
}

int receive_socket() {
    char nothing = 0;
    iovec data{&nothing, 1};
    int fd = -1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t n = 0;
    do {
        n = recvmsg(control_fd, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        _exit(0); // the parent has ended
    }
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
    return fd;
}

} // namespace

void serve_jobs(int control) {
    keep_only(control);
    take_signals();
    prctl(PR_SET_NAME, "larder-text");
    common_log_set_verbosity_thold(-1);
    ggml_set_abort_callback([](const char *) {}); // replaces the trace of a debugger
    malloc_trim(0);
    for (;;) {
        const int fd = receive_socket();
        if (fd < 0) {
            continue;
        }
        const pid_t pid = fork();
        if (pid == 0) {
            close(control_fd);
            do_job(fd);
        }
        close(fd); // closing the socket reports the job as ended
    }
}

} // namespace larder
