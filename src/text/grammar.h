// grammar.h — checks, in the text process, whether llama.cpp can sample with a grammar.
//
// llama.cpp parses grammars recursively, and keeps one stack for each possible parse of the text so far. A short
// grammar may need the whole stack of a thread, all memory, or minutes for one token. So a grammar is parsed and tried
// in the text process (text_process.h) before the sampler gets it.
//
// Threads: any. Errors: Error(usage) for a grammar that is refused.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>
#include <string>

namespace larder {

inline constexpr uint64_t grammar_bytes_max = 128 * KiB;

// Maximum number of stacks that a grammar may have at once. Each token is compared with all of them.
inline constexpr uint64_t grammar_stacks_max = 512;

// Throws Error(usage) if the GBNF grammar cannot be parsed, is longer than grammar_bytes_max, is nested too deeply,
// takes too much memory or time, or needs more than grammar_stacks_max stacks for a text that matches it. Token
// references (`<[1]>`) are not checked. Returns early if `stop` returns true; it may be empty.
void check_grammar(const std::string &grammar, const std::function<bool()> &stop = {});

} // namespace larder
