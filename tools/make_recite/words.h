// words.h — a vocabulary in which each recited token is one word: "t0", "t1", "t2", …
#pragma once

#include <gguf.h>

#include <cstdint>

namespace larder::make_recite {

// The tokens that a vocabulary has besides the words: all 256 bytes, what words are put together from, and the special
// ones.
inline constexpr uint32_t other_tokens = 256 + 2 + 3;

// Writes a SentencePiece vocabulary of `size` tokens. Words 0 to `words` − 1 are tokens 0 to `words` − 1, so that "t0
// t1 t2" is always 0, 1, 2; other text goes byte by byte. words + other_tokens <= size.
void write_words(gguf_context *metadata, uint32_t words, uint32_t size);

} // namespace larder::make_recite
