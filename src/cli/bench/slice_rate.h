// slice_rate.h — how fast a disk reads the slices of a model, from a measurement at their sizes.
#pragma once

#include "lab/probe/probe.h"
#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

// The sizes of the reads of a token's slices, one for each size class: the widest window of its slices.
std::vector<uint64_t> slice_read_bytes(const ModelLayout &layout);

// What is read for one token if nothing is in the arena: whole windows, so a little more than ModelLayout::token_bytes.
uint64_t token_read_bytes(const ModelLayout &layout);

// The rate at which one token's slices are read: every size at its best depth, random. In bytes per second; 0 for a
// dense model.
double slice_rate(const ModelLayout &layout, const DiskReport &report);

} // namespace larder
