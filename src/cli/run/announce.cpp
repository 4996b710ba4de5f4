#include "cli/run/announce.h"

#include "base/bytes.h"
#include "cli/console/terminal.h"
#include "machine/cpus.h"
#include "machine/numa.h"

#include <string>

namespace larder {

namespace {

// Reports differences from the requested settings, and from a machine that larder does not share.
void announce_differences(const OpenModel &model, const ContextSpec &asked) {
    if (asked.ctx_tokens > 0 && model.ctx_tokens() != asked.ctx_tokens) {
        say("note: {}\n", rounded_context_note(asked.ctx_tokens));
    }
    const Cpus cpus = usable_cpus();
    if (asked.threads == 0 && model.threads() == cpus.default_threads() && !cpus.bound_by().empty()) {
        say("threads: {} ({})\n", model.threads(), cpus.bound_by());
    }
    if (const std::string note = numa_note(); !note.empty()) {
        say("NUMA: {}\n", note);
    }
}

} // namespace

void announce_plan(const ModelLayout &layout, const MemoryPlan &plan, uint32_t ctx_tokens) {
    say("{} ({}): {} of weights, budget {} ({})\n", layout.name.empty() ? layout.files.front() : layout.name,
        layout.architecture, format_bytes(layout.total_bytes), format_bytes(plan.budget_bytes), plan.budget_source);
    if (layout.expert_tensors.empty()) {
        say("a dense model: it has no routed experts, so all weights are resident; ubatch {}\n", plan.ubatch_tokens);
    } else {
        say("resident {}, KV {}, compute {} (ubatch {}), overhead {}, reserve {}, arena {} for {} of experts{}\n",
            format_bytes(plan.fixed.resident), format_bytes(plan.fixed.kv), format_bytes(plan.fixed.compute),
            plan.ubatch_tokens, format_bytes(plan.fixed.overhead), format_bytes(plan.reserve_bytes),
            format_bytes(plan.arena_bytes), format_bytes(layout.routed_bytes),
            holds_all_experts(layout, plan) ? ": all fit" : "");
    }
    if (layout.context_length > 0 && ctx_tokens > layout.context_length) {
        say("note: the model was trained with contexts of {} tokens\n", layout.context_length);
    }
}

void announce_model(const OpenModel &model, const ContextSpec &asked, const PagerOptions &pager) {
    if (model.residency() == to_string(Residency::page)) {
        say("residency page: no budget; experts are in a mapping of the file and are dropped after {} tokens without "
            "use ({})\n",
            pager.hot_tokens, to_string(pager.evict));
    } else if (model.residency() == to_string(Residency::stock)) {
        say("residency stock: no budget; llama.cpp's own loader\n");
    }
    say("kernels: {}\n", to_string(model.kernels()));
    announce_differences(model, asked);
}

void announce_figures(const OpenModel &model, bool quiet) {
    const RunFigures figures = model.figures();
    if (!quiet && figures.prompt_tokens > 0) {
        say("{}\n", stats_line(model));
    }
    const std::string more = above_plan(model.plan(), figures.memory.peak_rss_bytes);
    if (model.residency() == to_string(Residency::arena) && !more.empty()) {
        say("warning: {}\n", more);
    }
}

} // namespace larder
