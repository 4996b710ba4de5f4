// slots.h — how an arena is shared out among the size classes (private to plan).
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

uint64_t bytes_of(const std::vector<SizeClass> &classes, const std::vector<uint64_t> &slots);

// Adds slots worth at most `bytes` to those in `slots`.
void share_out(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots);

} // namespace larder
