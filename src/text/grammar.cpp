#include "text/grammar.h"

#include "base/check.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "text/grammar_paths.h"
#include "text/text_process.h"

#include "llama-grammar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

namespace larder {

namespace {

constexpr JobLimits limits = {
    .memory_bytes = 64 * MiB, .stack_bytes = 1 * MiB, .cpu_ms = 5000, .result_bytes = 64 * KiB};

constexpr const char *needs_vocabulary = "no vocab"; // part of llama.cpp's message about a token reference

// What llama.cpp writes to standard error during the call. It reports the reason nowhere else.
template <typename Call> std::string written_by(const Call &call) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) { // what does not fit is dropped
        throw std::runtime_error("no pipe can be made");
    }
    const UniqueFd output(ends[0]);
    const UniqueFd input(ends[1]);
    dup2(input.get(), STDERR_FILENO);
    call();
    (void)std::fflush(stderr);
    std::array<char, 4096> text{};
    const ssize_t n = read(output.get(), text.data(), text.size());
    return {text.data(), n > 0 ? static_cast<size_t>(n) : 0};
}

// "parse: error parsing grammar: expecting ::= at ...", and then the whole grammar.
std::string reason_in(const std::string &written) {
    constexpr std::string_view before = "error parsing grammar: ";
    const size_t at = written.find(before);
    const std::string reason = at == std::string::npos ? written : written.substr(at + before.size());
    return reason.substr(0, reason.find('\n'));
}

using Grammar = std::unique_ptr<llama_grammar, void (*)(llama_grammar *)>;

Grammar parsed(const llama_vocab *vocab, const std::string &text) {
    return {llama_grammar_init_impl(vocab, text.c_str(), "root", false, nullptr, 0, nullptr, 0),
            llama_grammar_free_impl};
}

// Why llama.cpp cannot sample from this state in bounded time; empty if it can.
std::string fault_at(llama_grammar &grammar) {
    if (grammar.stacks.size() > grammar_stacks_max) {
        return fmt::format("may be read in more than {} ways at once", grammar_stacks_max);
    }
    if (has_more_paths(grammar, grammar_paths_max)) {
        return fmt::format("has more than {} paths for one token", grammar_paths_max);
    }
    return {};
}

// Follows one text that matches the grammar. `way` selects among the possible next characters.
std::string fault_on_way(const std::string &text, uint64_t way) {
    constexpr int chars = 192;
    const Grammar grammar = parsed(nullptr, text);
    if (grammar == nullptr) {
        throw std::runtime_error("it has no rule named root, or a rule that begins with itself");
    }
    for (int n = 0; n < chars; n++) {
        if (std::string fault = fault_at(*grammar); !fault.empty()) {
            return fault;
        }
        const std::vector<uint32_t> next = next_chars(grammar->stacks);
        if (next.empty()) {
            break;
        }
        way = way * 6364136223846793005ULL + 1442695040888963407ULL;
        llama_grammar_accept(grammar.get(), next[(way >> 33U) % next.size()]);
    }
    return {};
}

// Runs in the text process. Returns a fault that was found, or nothing.
std::string try_out_job(const std::string &text) {
    constexpr uint64_t ways = 8;
    llama_grammar_parser parser;
    bool parsed = false;
    const std::string written = written_by([&] { parsed = parser.parse(text.c_str()); });
    if (!parsed && written.find(needs_vocabulary) != std::string::npos) {
        return {};
    }
    if (!parsed && written.find("bad_alloc") != std::string::npos) { // the parser catches all exceptions
        throw std::bad_alloc();
    }
    if (!parsed || parser.rules.empty()) {
        throw std::runtime_error(parsed ? "it has no rules" : reason_in(written));
    }
    std::string fault;
    for (uint64_t way = 0; way < ways && fault.empty(); way++) {
        fault = fault_on_way(text, way);
    }
    return fault;
}

std::string fault_of(const JobResult &result) {
    switch (result.end) {
    case JobEnd::done:
        return result.text;
    case JobEnd::stopped:
        return "";
    case JobEnd::refused:
        return fmt::format("cannot be read: {}", printable(result.text, quoted_characters_max));
    case JobEnd::memory:
        return fmt::format("takes more than {}", format_bytes(limits.memory_bytes));
    case JobEnd::stack:
        return "is nested too deeply";
    case JobEnd::processor:
        return fmt::format("takes llama.cpp more than {} s to try out", limits.cpu_ms / 1000);
    case JobEnd::large:
    case JobEnd::crashed:
        break;
    }
    return "crashes llama.cpp";
}

constexpr const char *simpler = "give a simpler grammar, in GBNF";

} // namespace

void check_grammar(const std::string &grammar, const std::function<bool()> &stop) {
    if (grammar.size() > grammar_bytes_max) {
        throw Error(ErrorKind::usage,
                    fmt::format("the grammar has {}, more than {}", format_bytes(grammar.size()),
                                format_bytes(grammar_bytes_max)),
                    "give a shorter one");
    }
    if (const std::string fault = fault_of(run_job(try_out_job, grammar, limits, stop)); !fault.empty()) {
        throw Error(ErrorKind::usage, fmt::format("the grammar {}", fault), simpler);
    }
}

GrammarWatch::GrammarWatch(const llama_vocab *vocab, const std::string &grammar)
    : vocab_(vocab), text_(grammar), grammar_(nullptr, llama_grammar_free_impl) {
    reset();
}

GrammarWatch::~GrammarWatch() = default;

void GrammarWatch::reset() {
    grammar_ = parsed(vocab_, text_);
    LARDER_CHECK(grammar_ != nullptr);
    refuse("the grammar");
}

void GrammarWatch::accept(int32_t token) {
    llama_grammar_accept_impl(*grammar_, token);
    refuse("after the text so far, the grammar");
}

void GrammarWatch::refuse(const char *what) const {
    if (const std::string fault = fault_at(*grammar_); !fault.empty()) {
        throw Error(ErrorKind::usage, fmt::format("{} {}", what, fault), simpler);
    }
}

} // namespace larder
