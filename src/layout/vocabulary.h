// vocabulary.h — whether the tokenizer's keys fit together and to the token embedding.
//
// llama.cpp believes most of them: it makes as many tokens as a key says, and ends the process over a token that is
// there twice.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Throws Error(model) that names the key. A file without a tokenizer is left to llama.cpp.
void check_vocabulary(const ModelLayout &layout, const Metadata &keys);

} // namespace larder
