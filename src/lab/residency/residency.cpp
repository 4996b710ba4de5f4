#include "lab/residency/residency.h"

#include "base/check.h"
#include "lab/residency/hosts.h"
#include "machine/threads.h"
#include "runtime/address_needs.h"
#include "runtime/params.h"

#include <chrono>
#include <utility>

namespace larder {

std::string_view to_string(Residency residency) {
    switch (residency) {
    case Residency::arena:
        return "arena";
    case Residency::page:
        return "page";
    case Residency::stock:
        return "stock";
    }
    check_failed("a residency has a name", __FILE__, __LINE__);
}

ContextSpec resolve_without_plan(const ContextSpec &spec, const ModelLayout &layout) {
    const ContextSpec resolved = resolve(spec, layout.context_length);
    return resolved.ubatch_tokens > 0 ? resolved
                                      : with_ubatch(resolved, ubatch_candidates(resolved.ctx_tokens).front());
}

std::unique_ptr<OpenModel> open_with(Residency residency, const OpenOptions &options, const PagerOptions &pager) {
    if (residency == Residency::arena) {
        return open_model(options);
    }
    const auto begin = std::chrono::steady_clock::now();
    std::unique_ptr<ModelHost> host =
        residency == Residency::page ? open_page_host(options, pager) : open_stock_host(options);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return std::make_unique<OpenModel>(std::move(host), took.count());
}

} // namespace larder
