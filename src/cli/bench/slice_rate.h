// slice_rate.h — the rate at which a disk reads the slices of a model, from a measurement at their sizes.
#pragma once

#include "lab/probe/probe.h"
#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

// The read sizes for the slices of one token, one per size class: the largest window of its slices, in bytes.
std::vector<uint64_t> slice_read_bytes(const ModelLayout &layout);

// Bytes that one token reads if no slice is cached: whole windows, so slightly more than ModelLayout::token_bytes.
uint64_t token_read_bytes(const ModelLayout &layout);

// The rate at which one token's slices are read, with random reads of each size at its best depth. In bytes per second;
// 0 for a dense model.
double slice_rate(const ModelLayout &layout, const DiskReport &report);

} // namespace larder
