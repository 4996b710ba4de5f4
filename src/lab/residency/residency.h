// residency.h — other ways to keep a model's experts, to compare the arena with (docs/residency.md).
//
//   page    experts in a mapping of the file, cold ones dropped from it
//   stock   llama.cpp's own loader, everything mapped: what verify compares with
//
// Neither keeps a budget. Threads, errors, units: as session/open_model.h.
#pragma once

#include "lab/pager/pager.h"
#include "session/open_model.h"

#include <memory>
#include <string_view>

namespace larder {

enum class Residency { arena, page, stock };
std::string_view to_string(Residency residency);

// open_model() for the arena. `pager` is looked at for `page` only. Throws Error(usage) for options that the residency
// does not have.
std::unique_ptr<OpenModel> open_with(Residency residency, const OpenOptions &options, const PagerOptions &pager);

} // namespace larder
