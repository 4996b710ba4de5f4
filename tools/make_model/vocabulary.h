// vocabulary.h — a small real byte-pair vocabulary.
#pragma once

#include <gguf.h>

#include <cstdint>

namespace larder::make_model {

// The minimum size of a vocabulary: all 256 bytes and the special tokens.
inline constexpr uint32_t vocab_min = 256 + 3;

// Writes a vocabulary of the most frequent tokens of GPT-2, <|endoftext|> (beginning and padding), <|im_start|> and
// <|im_end|> (end of text and of turn), and a ChatML template. Tokenising and detokenising any text returns it
// unchanged. Sizes beyond GPT-2's are filled with unused tokens. `size` must be at least vocab_min.
void write_vocabulary(gguf_context *metadata, uint32_t size);

} // namespace larder::make_model
