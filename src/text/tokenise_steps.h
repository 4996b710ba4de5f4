// tokenise_steps.h — how long llama.cpp's tokenizers take in the worst case (private to text).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct llama_vocab;

namespace larder {

// The time in which some part of the text is tokenised, where it grows faster than the text: nanoseconds of a processor
// of today. `what` names the part for an error.
struct TokeniseTime {
    double nanoseconds = 0;
    std::string what;
};
TokeniseTime tokenise_time(const llama_vocab *vocab, std::string_view text);

} // namespace larder
