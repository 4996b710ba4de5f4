// slots.h — distributes an arena over the size classes (private to plan).
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

uint64_t bytes_of(const std::vector<SizeClass> &classes, const std::vector<uint64_t> &slots);

// Adds slots of at most `bytes` in total to `slots`.
void share_out(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots);

} // namespace larder
