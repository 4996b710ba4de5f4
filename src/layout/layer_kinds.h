// layer_kinds.h — the layers with full attention, with a sliding window, and with a recurrent state.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Fills full_attention_layers, windowed_layers, recurrent_layers and sliding_window.
void add_layer_kinds(ModelLayout &layout, const Metadata &keys);

} // namespace larder
