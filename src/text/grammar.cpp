#include "text/grammar.h"

#include "base/error.h"
#include "base/unique_fd.h"
#include "text/text_process.h"

#include "llama-grammar.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>

namespace larder {

namespace {

constexpr JobLimits limits = {
    .memory_bytes = 64 * MiB, .stack_bytes = 1 * MiB, .cpu_ms = 5000, .result_bytes = 64 * KiB};

constexpr const char *needs_vocabulary = "no vocab"; // part of llama.cpp's message about a token reference

// What llama.cpp writes to standard error during the call. It reports the reason nowhere else.
template <typename Call> std::string written_by(const Call &call) {
    const UniqueFd memory(memfd_create("grammar", MFD_CLOEXEC));
    dup2(memory.get(), STDERR_FILENO);
    call();
    (void)std::fflush(stderr);
    std::array<char, 4096> text{};
    const ssize_t n = pread(memory.get(), text.data(), text.size(), 0);
    return {text.data(), n > 0 ? static_cast<size_t>(n) : 0};
}

// "parse: error parsing grammar: expecting ::= at ...", and then the whole grammar.
std::string reason_in(const std::string &written) {
    constexpr std::string_view before = "error parsing grammar: ";
    const size_t at = written.find(before);
    const std::string reason = at == std::string::npos ? written : written.substr(at + before.size());
    return reason.substr(0, reason.find('\n'));
}

struct FreeGrammar {
    void operator()(llama_grammar *grammar) const { llama_grammar_free_impl(grammar); }
};
using Grammar = std::unique_ptr<llama_grammar, FreeGrammar>;

// A character that the element on top of a stack accepts; 0 if none is found.
uint32_t char_for(const llama_grammar_element *element) {
    if (element->type == LLAMA_GRETYPE_CHAR) {
        return element->value;
    }
    for (uint32_t c = ' '; c < 0x7F; c++) { // for "[^…]" and "."
        bool excluded = false;
        for (const llama_grammar_element *e = element; element->type == LLAMA_GRETYPE_CHAR_NOT; e++) {
            const bool range = e[1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER;
            excluded = excluded || (range ? e->value <= c && c <= e[1].value : e->value == c);
            e += range ? 1 : 0;
            if (e[1].type != LLAMA_GRETYPE_CHAR_ALT) {
                break;
            }
        }
        if (!excluded) {
            return c;
        }
    }
    return 0;
}

// The largest number of stacks on one path through the grammar. `way` selects among the possible next characters.
uint64_t most_stacks(const std::string &text, uint64_t way) {
    constexpr int chars = 192;
    const Grammar grammar(llama_grammar_init_impl(nullptr, text.c_str(), "root", false, nullptr, 0, nullptr, 0));
    if (grammar == nullptr) {
        throw std::runtime_error("it has no rule named root, or a rule that begins with itself");
    }
    uint64_t most = 0;
    for (int n = 0; n < chars; n++) {
        const llama_grammar_stacks &stacks = llama_grammar_get_stacks(grammar.get());
        most = std::max<uint64_t>(most, stacks.size());
        if (most > grammar_stacks_max) {
            break;
        }
        std::vector<uint32_t> next;
        for (const llama_grammar_stack &stack : stacks) {
            const uint32_t c = stack.empty() ? 0 : char_for(stack.back());
            if (c != 0 && std::ranges::find(next, c) == next.end()) {
                next.push_back(c);
            }
        }
        if (next.empty()) {
            break; // end of the grammar, or a token reference
        }
        way = way * 6364136223846793005ULL + 1442695040888963407ULL;
        llama_grammar_accept(grammar.get(), next[(way >> 33U) % next.size()]);
    }
    return most;
}

// Runs in the text process. Returns the number of stacks.
std::string try_out_job(const std::string &text) {
    constexpr uint64_t ways = 8;
    llama_grammar_parser parser;
    bool parsed = false;
    const std::string written = written_by([&] { parsed = parser.parse(text.c_str()); });
    if (!parsed && written.find(needs_vocabulary) != std::string::npos) {
        return "0";
    }
    if (!parsed && written.find("bad_alloc") != std::string::npos) { // the parser catches all exceptions
        throw std::bad_alloc();
    }
    if (!parsed || parser.rules.empty()) {
        throw std::runtime_error(parsed ? "it has no rules" : reason_in(written));
    }
    uint64_t most = 0;
    for (uint64_t way = 0; way < ways && most <= grammar_stacks_max; way++) {
        most = std::max(most, most_stacks(text, way));
    }
    return std::to_string(most);
}

std::string fault_of(const JobResult &result) {
    switch (result.end) {
    case JobEnd::done:
        return std::stoull(result.text) <= grammar_stacks_max
                   ? ""
                   : fmt::format("may be read in more than {} ways at once", grammar_stacks_max);
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

} // namespace

void check_grammar(const std::string &grammar, const std::function<bool()> &stop) {
    if (grammar.size() > grammar_bytes_max) {
        throw Error(ErrorKind::usage,
                    fmt::format("the grammar has {}, more than {}", format_bytes(grammar.size()),
                                format_bytes(grammar_bytes_max)),
                    "give a shorter one");
    }
    if (const std::string fault = fault_of(run_job(try_out_job, grammar, limits, stop)); !fault.empty()) {
        throw Error(ErrorKind::usage, fmt::format("the grammar {}", fault), "give a simpler grammar, in GBNF");
    }
}

} // namespace larder
