// words.h — a vocabulary with one word for each recited token: "t0", "t1", "t2", …
#pragma once

#include <gguf.h>

#include <cstdint>

namespace larder::make_recite {

// The number of tokens besides the words: all 256 bytes, the pieces from which words are joined, and the special
// tokens.
inline constexpr uint32_t other_tokens = 256 + 2 + 3;

// Writes a SentencePiece vocabulary of `size` tokens. Words 0 to `words` − 1 are tokens 0 to `words` − 1, so "t0 t1 t2"
// is always 0, 1, 2. Other text is tokenised byte by byte. Requires words + other_tokens <= size.
void write_words(gguf_context *metadata, uint32_t words, uint32_t size);

} // namespace larder::make_recite
