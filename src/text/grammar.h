// grammar.h — checks, in the text process, whether llama.cpp can sample with a grammar.
//
// llama.cpp parses grammars recursively, and keeps one stack for each possible parse of the text so far. A short
// grammar may need the whole stack of a thread, all memory, or minutes for one token. So a grammar is parsed and tried
// in the text process (text_process.h) before the sampler gets it. Not every text that matches it can be tried, so a
// GrammarWatch follows the answer too.
//
// Threads: any; a GrammarWatch is for one thread at a time. Errors: Error(usage) for a grammar that is refused.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

struct llama_vocab;
struct llama_grammar;

namespace larder {

inline constexpr uint64_t grammar_bytes_max = 128 * KiB;

// Maximum number of stacks that a grammar may have at once. Each token is compared with all of them.
inline constexpr uint64_t grammar_stacks_max = 512;

// Maximum number of paths through a grammar for the next eight characters. llama.cpp follows each path for each token
// that begins with these characters. The worst text is estimated, not searched for.
inline constexpr uint64_t grammar_paths_max = 1'000'000;

// Throws Error(usage) if the GBNF grammar cannot be parsed, is longer than grammar_bytes_max, is nested too deeply,
// takes too much memory or time, or exceeds grammar_stacks_max or grammar_paths_max for a text that matches it. Token
// references (`<[1]>`) are not checked. Returns early if `stop` returns true; it may be empty.
void check_grammar(const std::string &grammar, const std::function<bool()> &stop = {});

// Follows one answer through its grammar beside the sampler, which does not report its stacks.
class GrammarWatch {
  public:
    // The vocabulary must outlive this object. The grammar is one that check_grammar() accepts and a sampler was made
    // of.
    GrammarWatch(const llama_vocab *vocab, const std::string &grammar);
    ~GrammarWatch();
    GrammarWatch(const GrammarWatch &) = delete;
    GrammarWatch &operator=(const GrammarWatch &) = delete;

    // Starts again at the beginning of the grammar. Throws if the sampler would take too long for the first token.
    void reset();
    // Adds a token that the sampler chose. Throws if the sampler would take too long for the next one; then call
    // reset().
    void accept(int32_t token);

  private:
    void refuse(const char *what) const;

    const llama_vocab *vocab_;
    std::string text_;
    std::unique_ptr<llama_grammar, void (*)(llama_grammar *)> grammar_;
};

} // namespace larder
