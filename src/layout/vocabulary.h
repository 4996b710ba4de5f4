// vocabulary.h — checks that the tokenizer's keys are consistent with each other and with the token embedding.
//
// llama.cpp does not check most of them: it creates as many tokens as a key specifies, and ends the process if a token
// occurs twice.
#pragma once

#include "layout/layout.h"
#include "layout/metadata.h"

namespace larder {

// Throws Error(model) that names the key. A file without a tokenizer is not checked.
void check_vocabulary(const ModelLayout &layout, const Metadata &keys);

} // namespace larder
