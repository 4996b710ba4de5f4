// hosts.h — the model hosts of both residencies (private to lab/residency).
#pragma once

#include "lab/pager/pager.h"
#include "session/model_host.h"
#include "session/open_model.h"

#include <memory>

namespace larder {

std::unique_ptr<ModelHost> open_page_host(const OpenOptions &options, const PagerOptions &pager);
std::unique_ptr<ModelHost> open_stock_host(const OpenOptions &options);

// For a residency without a plan: uses llama.cpp's default ubatch if `spec` has none.
ContextSpec resolve_without_plan(const ContextSpec &spec, const ModelLayout &layout);

} // namespace larder
