// hosts.h — the hosts of both residencies (private to lab/residency).
#pragma once

#include "lab/pager/pager.h"
#include "session/model_host.h"
#include "session/open_model.h"

#include <memory>

namespace larder {

std::unique_ptr<ModelHost> open_page_host(const OpenOptions &options, const PagerOptions &pager);
std::unique_ptr<ModelHost> open_stock_host(const OpenOptions &options);

// Of a residency without a plan: a spec without a ubatch gets llama.cpp's own.
ContextSpec resolve_without_plan(const ContextSpec &spec, const ModelLayout &layout);

} // namespace larder
