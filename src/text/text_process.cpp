#include "text/text_process.h"

#include "base/error.h"
#include "base/unique_fd.h"
#include "machine/process_memory.h"
#include "text/text_process_child.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace larder {

namespace {

using Clock = std::chrono::steady_clock;

// A child limits its own processor time. This limit is for a child that does not run.
constexpr std::chrono::milliseconds patience{60000};
constexpr std::chrono::milliseconds between_stops{50};

constexpr uint64_t reason_bytes_max = 64 * KiB;

Error no_process(const char *what) {
    return Error::from_errno(errno, what, "allow more processes (ulimit -u, pids.max of the cgroup)");
}

std::pair<UniqueFd, UniqueFd> make_sockets(int type) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw no_process("cannot make a pair of sockets");
    }
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class Process {
  public:
    Process() {
        auto [ours, theirs] = make_sockets(SOCK_SEQPACKET);
        pid_ = fork();
        if (pid_ < 0) {
            throw no_process("cannot start a process to render chat templates in");
        }
        if (pid_ == 0) {
            serve_jobs(theirs.get());
        }
        control_ = std::move(ours);
        counted_.emplace(pid_);
    }
    ~Process() {
        counted_.reset();
        shutdown(control_.get(), SHUT_RDWR); // ends the process, even if another child still holds the socket
        waitpid(pid_, nullptr, 0);
    }
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    // Sends the process a socket for the answer. Returns false if the process has ended.
    [[nodiscard]] bool give(int fd) const {
        char nothing = 0;
        iovec data{&nothing, 1};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
        ssize_t sent = 0;
        do {
            sent = sendmsg(control_.get(), &message, MSG_NOSIGNAL);
        } while (sent < 0 && errno == EINTR);
        return sent == 1;
    }

  private:
    pid_t pid_ = -1;
    UniqueFd control_;
    std::optional<CountedChild> counted_; // the plan includes text_process_bytes
};

// The text process of this program. Started again if it was killed.
class Processes {
  public:
    std::shared_ptr<const Process> get() {
        const std::lock_guard lock(mutex_);
        if (process_ == nullptr) {
            process_ = std::make_shared<const Process>();
        }
        return process_;
    }
    void forget(const std::shared_ptr<const Process> &gone) {
        const std::lock_guard lock(mutex_);
        if (process_ == gone) {
            process_ = nullptr;
        }
    }

  private:
    std::mutex mutex_;
    std::shared_ptr<const Process> process_; // guarded by mutex_
};

Processes &processes() {
    static Processes all;
    return all;
}

// A socket from whose other end a child reads a request.
UniqueFd begin_job() {
    for (int attempt = 0; attempt < 2; attempt++) {
        const std::shared_ptr<const Process> process = processes().get();
        auto [ours, theirs] = make_sockets(SOCK_STREAM);
        if (process->give(theirs.get())) {
            return std::move(ours);
        }
        processes().forget(process);
    }
    throw no_process("the process to render chat templates in does not stay alive");
}

// Communicates with one child until it ends or the time-out expires.
class Exchange {
  public:
    Exchange(int fd, const JobLimits &limits, const std::function<bool()> &stop)
        : fd_(fd), text_bytes_max_(std::max<uint64_t>(limits.result_bytes, reason_bytes_max)), stop_(stop),
          give_up_(Clock::now() + patience + std::chrono::milliseconds(2 * limits.cpu_ms)) {}

    // Returns false if the job has ended; the answer reports how.
    bool send_all(const void *data, size_t bytes) {
        const auto *from = static_cast<const char *>(data);
        while (bytes > 0) {
            if (!wait_for(POLLOUT)) {
                return false;
            }
            const ssize_t n = send(fd_, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n < 0 && errno != EINTR && errno != EAGAIN) {
                return false;
            }
            if (n > 0) {
                from += n;
                bytes -= static_cast<size_t>(n);
            }
        }
        return true;
    }

    JobResult receive() {
        AnswerHeader header{};
        if (!receive_all(&header, sizeof header)) {
            return {ended_, {}};
        }
        if (header.text_bytes > text_bytes_max_) {
            return {JobEnd::large, {}};
        }
        std::string text(header.text_bytes, '\0');
        if (!receive_all(text.data(), text.size())) {
            return {ended_, {}};
        }
        return {header.end, std::move(text)};
    }

  private:
    bool receive_all(void *data, size_t bytes) {
        auto *to = static_cast<char *>(data);
        while (bytes > 0) {
            if (!wait_for(POLLIN)) {
                return false;
            }
            const ssize_t n = recv(fd_, to, bytes, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
                return false;
            }
            if (n > 0) {
                to += n;
                bytes -= static_cast<size_t>(n);
            }
        }
        return true;
    }

    bool wait_for(short events) {
        for (;;) {
            if (stop_ && stop_()) {
                ended_ = JobEnd::stopped;
                return false;
            }
            if (Clock::now() > give_up_) {
                ended_ = JobEnd::processor;
                return false;
            }
            pollfd fd{fd_, events, 0};
            if (poll(&fd, 1, static_cast<int>(between_stops.count())) > 0) {
                return true;
            }
        }
    }

    int fd_;
    uint64_t text_bytes_max_;
    const std::function<bool()> &stop_;
    Clock::time_point give_up_;
    JobEnd ended_ = JobEnd::crashed;
};

} // namespace

void start_text_process() { (void)processes().get(); }

JobResult run_job(Job job, const std::string &request, const JobLimits &limits, const std::function<bool()> &stop) {
    const UniqueFd socket = begin_job();
    Exchange exchange(socket.get(), limits, stop);
    const RequestHeader header{job, limits, request.size()};
    if (exchange.send_all(&header, sizeof header)) {
        exchange.send_all(request.data(), request.size());
    }
    return exchange.receive(); // also for a child that did not read the whole request
}

} // namespace larder
