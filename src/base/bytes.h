// bytes.h — sizes in bytes: units, alignment, formatting and parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace larder {

inline constexpr uint64_t KiB = 1024;
inline constexpr uint64_t MiB = 1024 * KiB;
inline constexpr uint64_t GiB = 1024 * MiB;

// `alignment` must be a power of two. align_up() wraps near 2^64; callers must check sizes that come from a file first.
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) { return value & ~(alignment - 1); }
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) { return align_down(value + alignment - 1, alignment); }

// Direct I/O (O_DIRECT) requires that the offset, the length and the memory address of a read are multiples of the
// device's logical block size. 4096 is a multiple of that size on every disk in use.
inline constexpr uint64_t direct_io_alignment = 4096;

// Formats a size in binary units with at most two decimals: "512 B", "1.5 KiB", "18.16 GiB".
std::string format_bytes(uint64_t bytes);

// Parses a size: "8G", "8GiB", "8GB", "8192M", "1.5g", "1048576". K, M, G and T are powers of 1024 in every spelling. A
// number without a unit is in bytes. Throws Error(usage) that names `flag` for any other text, for less than 1 byte,
// and for a size that does not fit into 63 bits.
uint64_t parse_bytes(std::string_view text, std::string_view flag);

// Parses a percentage and returns it as a fraction: "50%" is 0.5, "12.5%" is 0.125. The percent sign is optional.
// Throws Error(usage) that names `flag` for any other text, for 0% and for more than 100%.
double parse_percent(std::string_view text, std::string_view flag);

} // namespace larder
