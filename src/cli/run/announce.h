// announce.h — messages of larder run on standard error before and after an answer.
#pragma once

#include "lab/residency/residency.h"
#include "session/open_model.h"

#include <cstdint>

namespace larder {

// The plan in two lines, before weights are read. `ctx_tokens`: as requested; 0 if not given.
void announce_plan(const ModelLayout &layout, const MemoryPlan &plan, uint32_t ctx_tokens);
// The settings in use: residency, kernels, and differences from `asked` or from a machine that larder does not share.
void announce_model(const OpenModel &model, const ContextSpec &asked, const PagerOptions &pager);
// The figures of the run, and a warning if it took more memory than planned.
void announce_figures(const OpenModel &model, bool quiet);

} // namespace larder
