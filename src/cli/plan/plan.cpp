// larder plan: how a budget would be shared out, and whether it suffices, before a weight is read.
#include "plan/plan.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/console/terminal.h"
#include "cli/flags/engine_flags.h"
#include "cli/plan/expected_hits.h"
#include "cli/plan/report.h"
#include "engine/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace larder {

namespace {

constexpr std::array<double, 6> shares_of_all = {0.10, 0.25, 0.50, 0.75, 0.90, 1.0};
constexpr uint32_t ctx_tokens_of_all_min = 2048;
constexpr uint32_t ctx_tokens_of_all_max = 32768;

struct PlanFlags {
    EngineFlags engine;
    std::string ram;
    std::string cache;
    std::string trace;
    std::string output = "md";
    bool all = false;
};

// What the budget may be: --ram, but no more than the machine gives.
uint64_t usable_budget(const Planner &planner) {
    const PlanWishes &wishes = planner.options().wishes;
    const uint64_t usable = planner.machine().usable_bytes;
    const uint64_t wanted = wishes.budget_bytes.value_or(usable);
    return wishes.overcommit ? wanted : std::min(wanted, usable);
}

PlannedModel model_of(const Planner &planner) {
    const ModelLayout &layout = planner.layout();
    const PlanWishes &wishes = planner.options().wishes;
    PlannedModel model;
    model.path = layout.files.front();
    model.architecture = layout.architecture;
    model.total_bytes = layout.total_bytes;
    model.routed_bytes = layout.routed_bytes;
    model.machine = planner.machine();
    model.budget_bytes = wishes.budget_bytes.value_or(planner.machine().usable_bytes);
    model.budget_source = wishes.budget_bytes ? "--ram" : planner.machine().source;
    model.sequences = planner.options().sequences;
    return model;
}

// The smallest budget for a context. One that is too long to be asked about does not fit.
uint64_t need_of(Planner &planner, uint32_t ctx_tokens) {
    try {
        return smallest_budget(planner.layout(), planner.least(ctx_tokens), planner.options().wishes);
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
        return UINT64_MAX;
    }
}

// The plan of the smallest budget that holds the context, whatever the machine gives; none where no budget helps.
std::optional<MemoryPlan> smallest_plan(Planner &planner) {
    const uint32_t ctx_tokens = planner.options().ctx_tokens;
    const uint64_t smallest = need_of(planner, ctx_tokens);
    if (smallest == UINT64_MAX) {
        return std::nullopt;
    }
    PlanWishes wishes = planner.options().wishes;
    wishes.budget_bytes = smallest;
    wishes.overcommit = true;
    try {
        MemoryPlan plan = make_plan(planner.layout(), planner.least(ctx_tokens), planner.machine(), wishes);
        plan.ubatch_tokens = planner.least_ubatch(ctx_tokens);
        return plan;
    } catch (const Error &) { // --arena or --cache is below one token's experts
        return std::nullopt;
    }
}

// The refusal with what can be done instead.
Error with_context_named(const Error &refusal, const std::optional<uint32_t> &ctx_tokens_max) {
    if (ctx_tokens_max) {
        return {refusal.kind(), refusal.message(), fmt::format("{}; -c {} fits", refusal.remedy(), *ctx_tokens_max)};
    }
    std::string remedy = refusal.remedy();
    for (const std::string_view no_help : {", or lower -c", "lower -c or "}) {
        if (const size_t at = remedy.find(no_help); at != std::string::npos) {
            remedy.erase(at, no_help.size());
        }
    }
    return {refusal.kind(), refusal.message(), fmt::format("{}; no shorter context fits", remedy)};
}

void explain_refusal(PlanReport &report, Planner &planner, const Error &refusal) {
    report.kernels = planner.least_kernels();
    if (std::optional<MemoryPlan> plan = smallest_plan(planner)) {
        report.smallest_budget_bytes = plan->budget_bytes;
        report.memory = std::move(*plan);
    }
    const uint64_t budget = usable_budget(planner);
    const bool helps = report.smallest_budget_bytes ? *report.smallest_budget_bytes > budget
                                                    : need_of(planner, report.ctx_tokens) == UINT64_MAX;
    if (helps) { // otherwise it is not the context that is too long
        report.ctx_tokens_max =
            largest_context(report.ctx_tokens, budget, [&](uint32_t tokens) { return need_of(planner, tokens); });
        report.refusal = with_context_named(refusal, report.ctx_tokens_max);
    } else {
        report.refusal = refusal;
    }
}

PlanReport report_of(Planner &planner, const std::string &trace_path) {
    const ModelLayout &layout = planner.layout();
    std::optional<RoutingTrace> trace;
    if (!trace_path.empty()) {
        trace = trace_for(layout, trace_path);
    }
    PlanReport report;
    report.model = model_of(planner);
    report.size_classes = layout.size_classes;
    report.ctx_tokens = planner.options().ctx_tokens;
    try {
        PlannedRun planned = planner.plan();
        report.memory = std::move(planned.memory);
        report.kernels = planned.kernels;
        report.model.budget_bytes = report.memory.budget_bytes; // --cache names it
        report.model.budget_source = report.memory.budget_source;
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
        explain_refusal(report, planner, error);
        if (!report.smallest_budget_bytes) {
            return report;
        }
    }
    report.cached_share = cached_share(layout, report.memory);
    report.hits = expected_hits(layout, report.cached_share, trace);
    return report;
}

// 2048, 4096, … up to the model's context; that alone if it is shorter.
std::vector<uint32_t> contexts_of(uint64_t model_ctx_tokens) {
    const uint64_t longest = model_ctx_tokens == 0 ? ctx_tokens_of_all_max : model_ctx_tokens;
    std::vector<uint32_t> contexts;
    for (uint32_t tokens = ctx_tokens_of_all_min; tokens <= std::min<uint64_t>(longest, ctx_tokens_of_all_max);
         tokens *= 2) {
        contexts.push_back(tokens);
    }
    if (contexts.empty()) {
        contexts.push_back(static_cast<uint32_t>(longest));
    }
    return contexts;
}

FeasibilityCell cell_of(Planner &planner, const FixedBytes &fixed, uint64_t floor_bytes, double share,
                        uint64_t budget) {
    PlanWishes wishes = planner.options().wishes;
    wishes.cache_share = share;
    const uint64_t arena = static_cast<uint64_t>(share * static_cast<double>(all_experts_bytes(planner.layout())));
    FeasibilityCell cell;
    cell.lower_bound_bytes = fixed.resident + arena + fixed.kv;
    cell.footprint_bytes = cell.lower_bound_bytes + fixed.compute + fixed.overhead;
    if (arena >= floor_bytes) {
        cell.needed_bytes = smallest_budget(planner.layout(), fixed, wishes);
        cell.feasible = cell.needed_bytes <= budget;
    }
    return cell;
}

Feasibility feasibility_of(Planner &planner) {
    Feasibility feasibility;
    feasibility.model = model_of(planner);
    feasibility.model.budget_bytes = usable_budget(planner);
    feasibility.kernels = planner.least_kernels();
    feasibility.shares.assign(shares_of_all.begin(), shares_of_all.end());
    uint64_t floor_bytes = 0;
    for (const SizeClass &size_class : planner.layout().size_classes) {
        floor_bytes += std::min(size_class.n_slices_per_token, size_class.n_slices) * size_class.slot_bytes;
    }
    const std::vector<uint32_t> contexts = contexts_of(planner.layout().context_length);
    for (const uint32_t ctx_tokens : contexts) {
        const FixedBytes fixed = planner.least(ctx_tokens);
        FeasibilityRow row{ctx_tokens, planner.least_ubatch(ctx_tokens), {}};
        for (const double share : feasibility.shares) {
            row.cells.push_back(cell_of(planner, fixed, floor_bytes, share, feasibility.model.budget_bytes));
        }
        feasibility.rows.push_back(std::move(row));
    }
    return feasibility;
}

int plan_all(Planner &planner, const PlanFlags &flags) {
    const Feasibility feasibility = feasibility_of(planner);
    print_now(flags.output == "json" ? feasibility_json(feasibility) : feasibility_table(feasibility));
    const bool any = std::ranges::any_of(feasibility.rows, [](const FeasibilityRow &row) {
        return std::ranges::any_of(row.cells, &FeasibilityCell::feasible);
    });
    return any ? 0 : exit_code(ErrorKind::budget);
}

int plan(const PlanFlags &flags) {
    EngineOptions options = engine_options(flags.engine, flags.ram);
    if (!flags.cache.empty()) {
        options.wishes.cache_share =
            parse_percent(flags.cache.ends_with('%') ? flags.cache : flags.cache + "%", "--cache");
    }
    Planner planner(options);
    if (flags.all) {
        return plan_all(planner, flags);
    }
    const PlanReport report = report_of(planner, flags.trace);
    print_now(flags.output == "json" ? plan_json(report) : plan_table(report));
    if (report.refusal) {
        throw Error(*report.refusal);
    }
    return 0;
}

} // namespace

void add_plan(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<PlanFlags>();
    CLI::App *command =
        app.add_subcommand("plan", "show how a budget would be shared out, and whether it suffices; reads no weight");
    const std::string memory = "Model and memory";
    add_budget_flag(*command, flags->ram);
    add_engine_flags(*command, flags->engine);
    CLI::Option *cache =
        command
            ->add_option("--cache", flags->cache,
                         "an arena of this share of the routed experts, in %; without --ram: and the budget it takes")
            ->excludes(command->get_option("--arena"))
            ->group(memory);
    CLI::Option *all = command
                           ->add_flag("--all", flags->all,
                                      "a table over contexts and shares of the experts: which fit, and what each takes")
                           ->excludes(cache)
                           ->group(memory);
    command->add_option("--trace", flags->trace, "expect the hit rate of this routing (default: of a synthetic one)")
        ->excludes(all);
    add_output_flag(*command, flags->output);
    command->callback([flags, &body] { body = [flags] { return plan(*flags); }; });
}

} // namespace larder
