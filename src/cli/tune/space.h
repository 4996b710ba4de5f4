// space.h — the values that larder tune tries.
#pragma once

#include "cli/tune/start.h"
#include "lab/tune/tune.h"
#include "session/open_model.h"

namespace larder {

// A value that the user has set is not varied.
TuneSpace space_of(const OpenOptions &named, const StartingPoint &start);

} // namespace larder
