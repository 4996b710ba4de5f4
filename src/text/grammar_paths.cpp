#include "text/grammar_paths.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace larder {

namespace {

constexpr int chars_ahead = 8;
constexpr size_t first_chars_max = 8;
constexpr size_t stacks_ahead_max = 16384;

// As llama.cpp matches an element with a character. False for an element that stands for a token.
bool accepts(const llama_grammar_element *element, uint32_t c) {
    if (element->type != LLAMA_GRETYPE_CHAR && element->type != LLAMA_GRETYPE_CHAR_NOT &&
        element->type != LLAMA_GRETYPE_CHAR_ANY) {
        return false;
    }
    const bool excluded = element->type == LLAMA_GRETYPE_CHAR_NOT;
    bool found = element->type == LLAMA_GRETYPE_CHAR_ANY;
    do {
        const bool range = element[1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER;
        found = found || (range ? element->value <= c && c <= element[1].value : element->value == c);
        element += range ? 2 : 1;
    } while (element->type == LLAMA_GRETYPE_CHAR_ALT);
    return found != excluded;
}

// A character that the element accepts; 0 if none is found.
uint32_t char_for(const llama_grammar_element *element) {
    if (element->type == LLAMA_GRETYPE_CHAR) {
        return element->value;
    }
    for (uint32_t c = ' '; c < 0x7F; c++) { // for "[^…]" and "."
        if (accepts(element, c)) {
            return c;
        }
    }
    return 0;
}

// The paths that lead to each stack. llama.cpp removes equal stacks of a text, but not while it tries the characters of
// a token.
using Paths = std::map<llama_grammar_stack, uint64_t>;

// The characters that the most paths accept, the commonest first.
std::vector<uint32_t> commonest_chars(const Paths &paths, size_t n_max) {
    llama_grammar_stacks stacks;
    for (const auto &[stack, count] : paths) {
        stacks.push_back(stack);
    }
    std::vector<std::pair<uint64_t, uint32_t>> by_paths;
    for (const uint32_t c : next_chars(stacks)) {
        uint64_t accepting = 0;
        for (const auto &[stack, count] : paths) {
            accepting += !stack.empty() && accepts(stack.back(), c) ? count : 0;
        }
        by_paths.emplace_back(accepting, c);
    }
    std::ranges::sort(by_paths, std::greater());
    std::vector<uint32_t> chars;
    for (size_t i = 0; i < std::min(n_max, by_paths.size()); i++) {
        chars.push_back(by_paths[i].second);
    }
    return chars;
}

// Counts along the text that begins with `c` and continues with the commonest character each time.
bool more_paths_from(llama_grammar &grammar, Paths paths, uint32_t c, uint64_t paths_max) {
    uint64_t all = paths.size();
    for (int n = 0; n < chars_ahead; n++) {
        Paths after;
        for (const auto &[stack, count] : paths) {
            grammar.stacks = {stack};
            llama_grammar_accept(&grammar, c);
            for (const llama_grammar_stack &next : grammar.stacks) {
                after[next] += count;
                all += count;
                if (all > paths_max || after.size() > stacks_ahead_max) {
                    return true;
                }
            }
        }
        paths = std::move(after);
        const std::vector<uint32_t> commonest = commonest_chars(paths, 1);
        if (commonest.empty()) {
            break;
        }
        c = commonest.front();
    }
    return false;
}

class KeptStacks {
  public:
    explicit KeptStacks(llama_grammar &grammar) : grammar_(grammar), stacks_(grammar.stacks) {}
    ~KeptStacks() { grammar_.stacks = std::move(stacks_); }
    KeptStacks(const KeptStacks &) = delete;
    KeptStacks &operator=(const KeptStacks &) = delete;

  private:
    llama_grammar &grammar_;
    llama_grammar_stacks stacks_;
};

} // namespace

std::vector<uint32_t> next_chars(const llama_grammar_stacks &stacks) {
    std::vector<uint32_t> chars;
    for (const llama_grammar_stack &stack : stacks) {
        const uint32_t c = stack.empty() ? 0 : char_for(stack.back());
        if (c != 0) {
            chars.push_back(c);
        }
    }
    std::ranges::sort(chars);
    chars.erase(std::unique(chars.begin(), chars.end()), chars.end());
    return chars;
}

bool has_more_paths(llama_grammar &grammar, uint64_t paths_max) {
    Paths paths;
    for (const llama_grammar_stack &stack : grammar.stacks) {
        paths[stack] = 1;
    }
    const KeptStacks kept(grammar);
    return std::ranges::any_of(commonest_chars(paths, first_chars_max),
                               [&](uint32_t c) { return more_paths_from(grammar, paths, c, paths_max); });
}

} // namespace larder
