// grammar_paths.h — estimates how much work llama.cpp has with the next characters of a grammar (private to text).
#pragma once

#include "llama-grammar.h"

#include <cstdint>
#include <vector>

namespace larder {

// Characters that can come next, each once. Empty at the end of the grammar, or if only tokens can come.
std::vector<uint32_t> next_chars(const llama_grammar_stacks &stacks);

// True if llama.cpp follows more than `paths_max` paths for some text of eight characters that can come next. Tries the
// texts that look worst, so it may miss one. Takes time and memory in proportion to `paths_max`. Leaves the grammar as
// it was.
bool has_more_paths(llama_grammar &grammar, uint64_t paths_max);

} // namespace larder
