// vocabulary.h — a small real byte-pair vocabulary.
#pragma once

#include <gguf.h>

#include <cstdint>

namespace larder::make_model {

// The least a vocabulary can have: all 256 bytes and the special tokens.
inline constexpr uint32_t vocab_min = 256 + 3;

// Writes GPT-2's vocabulary cut to its most frequent tokens, <|endoftext|> (beginning and padding), <|im_start|> and
// <|im_end|> (end of text and of turn), and a ChatML template. Any text goes through it and back unchanged.
// Sizes beyond GPT-2's are filled up with unused tokens. `size` is at least vocab_min.
void write_vocabulary(gguf_context *metadata, uint32_t size);

} // namespace larder::make_model
