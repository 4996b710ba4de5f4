// tokenise_steps.h — worst-case time of llama.cpp's tokenizers (private to text).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct llama_vocab;

namespace larder {

// Time for the part of the text whose time grows faster than its length, in nanoseconds of a current processor. `what`
// names that part in errors.
struct TokeniseTime {
    double nanoseconds = 0;
    std::string what;
};
TokeniseTime tokenise_time(const llama_vocab *vocab, std::string_view text);

} // namespace larder
