// residency.h — other ways to store a model's experts, for comparison with the arena (docs/residency.md).
//
//   - page: experts in a mapping of the file; cold ones are dropped from it.
//   - stock: llama.cpp's own loader, with everything mapped. `verify` compares with it.
//
// Neither keeps a budget. Threads, errors, units: see session/open_model.h.
#pragma once

#include "lab/pager/pager.h"
#include "session/open_model.h"

#include <memory>
#include <string_view>

namespace larder {

enum class Residency { arena, page, stock };
std::string_view to_string(Residency residency);

// For the arena this is open_model(). `pager` is used for `page` only. Throws Error(usage) for options that the
// residency does not support.
std::unique_ptr<OpenModel> open_with(Residency residency, const OpenOptions &options, const PagerOptions &pager);

} // namespace larder
