// experts.h — the routed experts of a layout: the numbers of their slices, and their size classes.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Reads expert_count and expert_used_count, then fills expert_tensors, size_classes, n_slice and token_bytes from the
// tensors of the layout. Requires n_layer and n_layer_nextn.
void add_experts(ModelLayout &layout, const Metadata &keys);

} // namespace larder
