// utf8.h — reading UTF-8 that may be invalid (private to text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace larder {

struct Utf8Char {
    uint32_t value = 0; // the code point, or the invalid byte
    uint32_t bytes = 1;
    bool valid = false;
};

// The character at text[at]; `at` must be valid. Overlong forms, surrogates and truncated characters count as single
// invalid bytes.
inline Utf8Char next_char(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t first = byte(at);
    if (first < 0x80) {
        return {first, 1, true};
    }
    const uint32_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || at + length > text.size()) {
        return {first, 1, false};
    }
    uint32_t value = first & (0x7FU >> length);
    for (size_t i = at + 1; i < at + length; i++) {
        if ((byte(i) & 0xC0U) != 0x80U) {
            return {first, 1, false};
        }
        value = (value << 6U) | (byte(i) & 0x3FU);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return {first, 1, false};
    }
    return {value, length, true};
}

} // namespace larder
