// bytes.h — sizes: alignment, and how they are written and read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace larder {

inline constexpr uint64_t KiB = 1024;
inline constexpr uint64_t MiB = 1024 * KiB;
inline constexpr uint64_t GiB = 1024 * MiB;

// `alignment` is a power of two. align_up wraps near 2^64; callers check sizes that come from a file beforehand.
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) { return value & ~(alignment - 1); }
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) { return align_down(value + alignment - 1, alignment); }

// Direct I/O (O_DIRECT) needs offset, length and memory of a read to be multiples of the device's block. 4096 is a
// multiple of the block of every disk in use.
inline constexpr uint64_t direct_io_alignment = 4096;

// "512 B", "1.5 KiB", "18.16 GiB": two decimals at most, binary units.
std::string format_bytes(uint64_t bytes);

// Reads a size: "8G", "8GiB", "8GB", "8192M", "1.5g", "1048576". K, M, G and T are powers of 1024 in every spelling, as
// memory sizes are; a number without a unit is bytes. Throws Error(usage) that names `flag` for anything else, zero and
// what does not fit into 63 bits.
uint64_t parse_bytes(std::string_view text, std::string_view flag);

// Reads a share: "50%" as 0.5, "12.5%" as 0.125. Throws Error(usage) that names `flag` for anything else, for 0% and
// for more than 100%.
double parse_percent(std::string_view text, std::string_view flag);

} // namespace larder
