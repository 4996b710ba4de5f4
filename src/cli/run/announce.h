// announce.h — what larder run says on standard error before and after an answer.
#pragma once

#include "lab/residency/residency.h"
#include "session/open_model.h"

#include <cstdint>

namespace larder {

// The plan in two lines, before weights are read. `ctx_tokens` as asked for, 0 if it was not.
void announce_plan(const ModelLayout &layout, const MemoryPlan &plan, uint32_t ctx_tokens);
// What is in use: residency, kernels, and what differs from `asked` or from a machine that larder has to itself.
void announce_model(const OpenModel &model, const ContextSpec &asked, const PagerOptions &pager);
// The figures of the run, and a warning where it took more memory than planned.
void announce_figures(const OpenModel &model, bool quiet);

} // namespace larder
