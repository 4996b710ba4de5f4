// grammar.h — whether llama.cpp can sample with a grammar, found out where it can do no harm.
//
// llama.cpp's grammars recurse when they are parsed, and keep one stack for each way in which the text so far can be
// read: a short grammar may need the whole stack of a thread, all memory, or minutes for a token. So a grammar is
// parsed and tried out in the text process (text_process.h) before the sampler gets it.
//
// Threads: any. Errors: Error(usage) for a grammar that is refused.
#pragma once

#include "base/bytes.h"

#include <cstdint>
#include <functional>
#include <string>

namespace larder {

inline constexpr uint64_t grammar_bytes_max = 128 * KiB;

// Most stacks that a grammar may have at once. Each token is compared with every one of them.
inline constexpr uint64_t grammar_stacks_max = 512;

// Throws Error(usage) if the GBNF grammar cannot be parsed, is longer than grammar_bytes_max, is nested too deeply,
// takes too much memory or time, or comes to more than grammar_stacks_max stacks on texts that follow it. Token
// references (`<[1]>`) are not looked at. Returns early if `stop` becomes true, which may be empty.
void check_grammar(const std::string &grammar, const std::function<bool()> &stop = {});

} // namespace larder
