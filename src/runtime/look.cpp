#include "runtime/look.h"

#include "base/error.h"
#include "machine/process_memory.h"
#include "runtime/look_child.h"
#include "runtime/spec_json.h"

#include <fmt/format.h>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

namespace larder {

namespace {

using Json = nlohmann::json;

// The child limits its own processor time. This limit is for a child that hangs without using any.
constexpr std::chrono::minutes answer_max{10};

constexpr const char *take_file_again =
    "the file is damaged, or its settings contradict each other: get it again, or take another GGUF of the model";

void write_all(int fd, const std::string &text) {
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return; // the child has ended; the read of its answer reports how
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
}

void take_default_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE}) {
        ::signal(signal, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The status of a child that ends; none if the system has discarded it.
std::optional<int> wait_for(pid_t child) {
    int status = 0;
    pid_t ended = -1;
    do {
        ended = ::waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    return ended == child ? std::optional(status) : std::nullopt;
}

} // namespace

Look::Look(std::vector<const ModelLayout *> layouts) : layouts_(std::move(layouts)) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        throw Error::from_errno(errno, "cannot make a pair of sockets");
    }
    socket_ = UniqueFd(ends[0]);
    const UniqueFd childs(ends[1]);
    const ProcessMemory memory = process_memory();
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) {
        throw Error::from_errno(errno, "cannot start a process to look at the model with",
                                "allow more processes (ulimit -u, pids.max of the cgroup)");
    }
    if (child_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL); // without its parent the child has no purpose
        if (::getppid() != parent) {
            ::_exit(0);
        }
        take_default_signals();
        socket_ = UniqueFd();
        answer_looks(childs.get(), layouts_, memory.rss_bytes - memory.anonymous_bytes);
    }
}

Look::~Look() {
    if (child_ > 0) {
        socket_ = UniqueFd(); // the child's next read returns end of file, and it exits
        ::kill(child_, SIGKILL);
        wait_for(child_);
    }
}

std::string Look::read_line() {
    for (;;) {
        if (const size_t newline = pending_.find('\n'); newline != std::string::npos) {
            std::string line = pending_.substr(0, newline);
            pending_.erase(0, newline + 1);
            return line;
        }
        pollfd fd{socket_.get(), POLLIN, 0};
        const int ready = ::poll(&fd, 1, static_cast<int>(std::chrono::milliseconds(answer_max).count()));
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready == 0) {
            ::kill(child_, SIGKILL);
            timed_out_ = true;
        }
        std::array<char, 16384> buffer{};
        const ssize_t n = ready > 0 ? ::read(socket_.get(), buffer.data(), buffer.size()) : 0;
        if (n <= 0) {
            return {};
        }
        pending_.append(buffer.data(), static_cast<size_t>(n));
    }
}

Error Look::end_of_child(size_t index) {
    const std::string &file = layouts_[index]->files.front();
    const auto fault_of_file = [&file](const std::string &how) {
        return Error(ErrorKind::model, fmt::format("{}: {}", file, how), take_file_again);
    };
    socket_ = UniqueFd(); // a child that has not ended by itself ends at its next read
    const std::optional<int> ended = wait_for(std::exchange(child_, -1));
    if (!ended) {
        return {ErrorKind::io, fmt::format("the process that looked at {} has ended; how is unknown", file),
                "do not ignore SIGCHLD"};
    }
    const int status = *ended;
    if (timed_out_) {
        return fault_of_file(fmt::format("llama.cpp does not answer within {} minutes", answer_max.count()));
    }
    if (WIFEXITED(status)) {
        return fault_of_file(
            fmt::format("llama.cpp ended the process that looked at it (exit code {})", WEXITSTATUS(status)));
    }
    if (WTERMSIG(status) == SIGXCPU) {
        return fault_of_file(
            fmt::format("llama.cpp takes more than {} s of processor time to look at it", look_seconds_max));
    }
    if (WTERMSIG(status) == SIGKILL) {
        return {ErrorKind::io,
                fmt::format("the process that looked at {} was killed, most likely because the memory ran out", file),
                "raise the limit of the cgroup, or stop other programs"};
    }
    return fault_of_file(fmt::format("llama.cpp crashes on it ({})", ::strsignal(WTERMSIG(status))));
}

Json Look::ask(size_t index, const Json &question) {
    if (end_) {
        throw Error(*end_);
    }
    write_all(socket_.get(), question.dump() + "\n");
    Json answer = Json::parse(read_line(), nullptr, false);
    if (answer.is_discarded()) {
        end_ = end_of_child(index);
        throw Error(*end_);
    }
    if (answer.contains("error")) {
        throw error_from(answer.at("error"));
    }
    return answer;
}

ModelFacts Look::model(size_t index, Kernels kernels) {
    const Json answer = ask(index, {{"ask", "model"}, {"index", index}, {"kernels", to_string(kernels)}});
    return {{answer.at("repacked"), answer.at("tied")}, answer.at("aliased_bytes"), answer.at("n_vocab")};
}

uint64_t Look::held_bytes() { return ask(0, {{"ask", "held"}}).at("held_bytes"); }

ContextFacts Look::context(size_t index, const ContextSpec &resolved) {
    const Json answer = ask(index, {{"ask", "context"}, {"index", index}, {"context", to_json(resolved)}});
    return {answer.at("resident_bytes"),
            answer.at("kv_bytes"),
            answer.at("compute_bytes"),
            answer.at("process_bytes"),
            {answer.at("idle_writable_bytes"), answer.at("idle_bytes")}};
}

} // namespace larder
