// layer_kinds.h — which layers attend to the whole context, to a window of it, or carry a recurrent state.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Fills full_attention_layers, windowed_layers, recurrent_layers and sliding_window.
void add_layer_kinds(ModelLayout &layout, const Metadata &keys);

} // namespace larder
