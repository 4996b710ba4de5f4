// some_tokens.h — arbitrary tokens, the same in every run.
#pragma once

#include "text/text.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace larder::test {

inline std::vector<Token> some_tokens(size_t n, uint32_t n_vocab) {
    std::vector<Token> tokens(n);
    uint64_t state = 1;
    for (Token &token : tokens) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        token = static_cast<Token>((state >> 33) % n_vocab);
    }
    return tokens;
}

} // namespace larder::test
