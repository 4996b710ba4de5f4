// slot.h — the numbers of slots.
#pragma once

#include <cstdint>

namespace larder {

using SlotIndex = uint32_t; // numbered through all size classes, those of class 0 first
inline constexpr SlotIndex no_slot = UINT32_MAX;

} // namespace larder
