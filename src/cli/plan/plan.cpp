// larder plan: shows how a budget would be divided, and whether it suffices, without reading weights.
#include "plan/plan.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/console/terminal.h"
#include "cli/flags/model_flags.h"
#include "cli/plan/expected_hits.h"
#include "cli/plan/report.h"
#include "machine/cpus.h"
#include "runtime/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace larder {

namespace {

constexpr std::array<double, 6> shares_of_all = {0.10, 0.25, 0.50, 0.75, 0.90, 1.0};
constexpr uint32_t ctx_tokens_of_all_min = 2048;
constexpr uint32_t ctx_tokens_of_all_max = 32768;

struct PlanFlags {
    OpenOptions open;
    Budget budget;
    std::string cache;
    std::string trace;
    std::string output = "md";
    bool all = false;
};

// The usable budget: --ram, at most what the machine gives.
uint64_t usable_budget(const Planner &planner) {
    const PlanOptions &options = planner.plan_options();
    const uint64_t wanted = budget_of(options, planner.machine());
    return options.overcommit ? wanted : std::min(wanted, planner.machine().usable_bytes);
}

PlanSubject model_of(const Planner &planner) {
    const ModelLayout &layout = planner.layout();
    const PlanOptions &options = planner.plan_options();
    PlanSubject model;
    model.path = layout.files.front();
    model.architecture = layout.architecture;
    model.total_bytes = layout.total_bytes;
    model.routed_bytes = layout.routed_bytes;
    model.machine = planner.machine();
    model.budget_bytes = budget_of(options, planner.machine());
    model.budget_source = options.budget_bytes ? "--ram" : planner.machine().source;
    model.sequences = planner.spec().context.sequences;
    model.ctx_tokens = layout.context_length;
    return model;
}

// The smallest budget for a context. A context that is too long to be measured does not fit.
uint64_t need_of(Planner &planner, uint32_t ctx_tokens) {
    try {
        return smallest_budget(planner.layout(), planner.least(ctx_tokens), planner.plan_options());
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
        return UINT64_MAX;
    }
}

// The plan of the smallest budget that holds the context, whatever the machine gives. Empty if no budget suffices.
std::optional<MemoryPlan> smallest_plan(Planner &planner) {
    const uint32_t ctx_tokens = planner.spec().context.ctx_tokens;
    const uint64_t smallest = need_of(planner, ctx_tokens);
    if (smallest == UINT64_MAX) {
        return std::nullopt;
    }
    PlanOptions options = planner.plan_options();
    options.budget_bytes = smallest;
    options.overcommit = true;
    try {
        MemoryPlan plan = make_plan(planner.layout(), planner.least(ctx_tokens), planner.machine(), options);
        plan.ubatch_tokens = planner.least_ubatch(ctx_tokens);
        return plan;
    } catch (const Error &) { // --arena or --cache is smaller than one token's experts
        return std::nullopt;
    }
}

// "lower -c to 512". Adds the budget that this context fits if it differs from the requested one.
Remedy lower_context(const PlanReport &report) {
    const std::string into = report.ctx_budget_bytes < report.model.budget_bytes
                                 ? ", which fits into " + format_bytes(report.ctx_budget_bytes)
                                 : "";
    return {RemedyKind::shorter_context, fmt::format("lower -c to {}{}", *report.ctx_tokens_max, into),
            *report.ctx_tokens_max};
}

// The refusal of a context that does not fit. Names the largest context that fits, or omits the advice to lower it.
Error with_context(const Error &refusal, const PlanReport &report) {
    const Error others = refusal.without_remedies(RemedyKind::shorter_context);
    return report.ctx_tokens_max ? others.with_remedy(lower_context(report)) : others;
}

// The refusal of a context too long to be measured. No sufficient budget is known.
Error with_context_unmeasured(Planner &planner, const Error &refusal, const PlanReport &report) {
    if (report.ctx_tokens_max) {
        return refusal.with_remedies({lower_context(report)});
    }
    const uint64_t least = need_of(planner, ctx_tokens_step);
    return least == UINT64_MAX
               ? refusal
               : refusal.with_remedies(
                     {{RemedyKind::larger_budget,
                       fmt::format("lower -c and raise --ram: {} tokens take {}M", ctx_tokens_step, least / MiB),
                       least}});
}

std::optional<uint32_t> largest_context_within(Planner &planner, uint64_t refused_tokens, uint64_t budget) {
    return largest_context(static_cast<uint32_t>(std::min<uint64_t>(refused_tokens, UINT32_MAX)), budget,
                           [&](uint32_t tokens) { return need_of(planner, tokens); });
}

void explain_refusal(PlanReport &report, Planner &planner, const Error &refusal) {
    report.refusal = refusal;
    report.kernels = planner.least_kernels();
    if (std::optional<MemoryPlan> plan = smallest_plan(planner)) {
        report.smallest_budget_bytes = plan->budget_bytes;
        report.memory = std::move(*plan);
    }
    const uint64_t budget = usable_budget(planner);
    const bool unmeasured = need_of(planner, report.ctx_tokens) == UINT64_MAX;
    report.machine_suffices = report.smallest_budget_bytes.value_or(UINT64_MAX) <= budget &&
                              budget < planner.plan_options().budget_bytes.value_or(budget);
    if (report.machine_suffices) { // the context fits, and perhaps a longer one, up to the model's
        report.ctx_budget_bytes = budget;
        const uint64_t longest = std::max<uint64_t>(report.ctx_tokens, planner.layout().context_length);
        report.ctx_tokens_max =
            std::max(report.ctx_tokens, largest_context_within(planner, longest + 1, budget).value_or(0));
    } else if (unmeasured || report.smallest_budget_bytes.value_or(0) > budget) { // else another cause
        report.ctx_budget_bytes = budget;
        report.ctx_tokens_max = largest_context_within(planner, report.ctx_tokens, budget);
        report.refusal = unmeasured ? with_context_unmeasured(planner, refusal, report) : with_context(refusal, report);
    }
}

PlanReport plan_or_refusal(Planner &planner) {
    PlanReport report;
    report.model = model_of(planner);
    report.size_classes = planner.layout().size_classes;
    report.ctx_tokens = planner.spec().context.ctx_tokens;
    report.reserve_asked_bytes = planner.plan_options().reserve_bytes;
    ProcessPlan planned;
    try {
        planned = planner.plan();
    } catch (const Error &error) {
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
        explain_refusal(report, planner, error);
        return report;
    }
    report.kernels = planned.models.front().kernels;
    report.model.budget_bytes = planned.memory.budget_bytes; // --cache determines the budget
    report.model.budget_source = planned.memory.budget_source;
    try {
        planner.check_lock(planned);
    } catch (const Error &error) { // no other budget or context helps
        report.refusal = error;
    }
    report.memory = std::move(planned.memory);
    return report;
}

// Replaces the plan of the smallest budget by the plan of what the machine gives.
void plan_for_the_machine(PlanReport &report, OpenOptions options) {
    options.runtime.plan.budget_bytes = report.model.machine.usable_bytes;
    try {
        const ProcessPlan planned = Planner({options.model}, options.runtime).plan();
        report.memory = planned.memory;
        report.kernels = planned.models.front().kernels;
    } catch (const Error &error) { // less memory is available than a moment ago
        if (error.kind() != ErrorKind::budget) {
            throw;
        }
        report.machine_suffices = false;
    }
}

PlanReport report_of(const OpenOptions &options, const std::string &trace_path) {
    auto planner = std::make_unique<Planner>(std::vector{options.model}, options.runtime);
    std::optional<RoutingTrace> trace;
    if (!trace_path.empty()) {
        trace = trace_for(planner->layout(), trace_path);
    }
    PlanReport report = plan_or_refusal(*planner);
    report.ctx_asked_tokens = options.model.context.ctx_tokens;
    report.threads = planner->spec().context.threads;
    report.threads_bound_by = options.model.context.threads == 0 ? usable_cpus().bound_by() : "";
    const ModelLayout layout = std::move(planner->take_layouts().front());
    planner.reset(); // its memory would count as overhead in the next plan
    if (report.machine_suffices) {
        plan_for_the_machine(report, options);
    }
    if (!report.refusal || report.smallest_budget_bytes) {
        report.cached_share = cached_share(layout, report.memory);
        report.hits = expected_hits(layout, report.cached_share, trace);
    }
    return report;
}

// -c if given; otherwise 2048, 4096, … up to the model's context, or only the model's context if it is shorter.
std::vector<uint32_t> contexts_of(uint32_t asked_tokens, uint64_t model_ctx_tokens) {
    if (asked_tokens > 0) {
        return {rounded_context(asked_tokens)};
    }
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

FeasibilityCell cell_of(Planner &planner, const FixedBytes &fixed, double share, uint64_t budget) {
    PlanOptions options = planner.plan_options();
    options.cache_share = share;
    const uint64_t arena = cache_bytes(planner.layout(), share);
    FeasibilityCell cell;
    cell.lower_bound_bytes = fixed.resident + arena + fixed.kv;
    cell.footprint_bytes = cell.lower_bound_bytes + fixed.compute + fixed.overhead;
    if (arena >= floor_bytes(planner.layout())) {
        cell.needed_bytes = smallest_budget(planner.layout(), fixed, options);
        cell.feasible = cell.needed_bytes <= budget;
    }
    return cell;
}

Feasibility feasibility_of(Planner &planner, const OpenOptions &asked) {
    Feasibility feasibility;
    feasibility.model = model_of(planner);
    if (const uint64_t usable = usable_budget(planner); usable < feasibility.model.budget_bytes) {
        feasibility.model.budget_bytes = usable;
        feasibility.model.budget_source = planner.machine().source + ", less than --ram";
    }
    feasibility.kernels = planner.least_kernels();
    feasibility.ubatch_asked = asked.model.context.ubatch_tokens > 0;
    feasibility.shares.assign(shares_of_all.begin(), shares_of_all.end());
    for (const uint32_t ctx_tokens : contexts_of(asked.model.context.ctx_tokens, planner.layout().context_length)) {
        const FixedBytes fixed = planner.least(ctx_tokens);
        FeasibilityRow row{ctx_tokens, planner.least_ubatch(ctx_tokens), {}};
        for (const double share : feasibility.shares) {
            row.cells.push_back(cell_of(planner, fixed, share, feasibility.model.budget_bytes));
        }
        feasibility.rows.push_back(std::move(row));
    }
    return feasibility;
}

int plan_all(const OpenOptions &options, bool as_json) {
    Planner planner({options.model}, options.runtime);
    const Feasibility feasibility = feasibility_of(planner, options);
    print_now(as_json ? feasibility_json(feasibility) : feasibility_table(feasibility));
    const bool any = std::ranges::any_of(feasibility.rows, [](const FeasibilityRow &row) {
        return std::ranges::any_of(row.cells, &FeasibilityCell::feasible);
    });
    return any ? 0 : exit_code(ErrorKind::budget);
}

int plan_one(const OpenOptions &options, const std::string &trace_path, bool as_json) {
    const PlanReport report = report_of(options, trace_path);
    print_now(as_json ? plan_json(report) : plan_table(report));
    if (report.refusal) {
        throw Error(*report.refusal);
    }
    return 0;
}

int plan(const PlanFlags &flags) {
    OpenOptions options = with_budget(flags.open, flags.budget);
    if (!flags.cache.empty()) {
        options.runtime.plan.cache_share =
            parse_percent(flags.cache.ends_with('%') ? flags.cache : flags.cache + "%", "--cache");
    }
    const bool as_json = flags.output == "json";
    return flags.all ? plan_all(options, as_json) : plan_one(options, flags.trace, as_json);
}

} // namespace

void add_plan(CLI::App &app, CommandBody &body) {
    auto flags = std::make_shared<PlanFlags>();
    CLI::App *command =
        app.add_subcommand("plan", "show how a budget would be divided, and whether it suffices; reads no weights");
    const std::string memory = "Model and memory";
    add_budget_flag(*command, flags->budget);
    add_model_flags(*command, flags->open);
    CLI::Option *cache = command
                             ->add_option("--cache", flags->cache,
                                          "make the arena this share of the routed experts, in %; without --ram, also "
                                          "print the budget that this takes")
                             ->excludes(command->get_option("--arena"))
                             ->group(memory);
    CLI::Option *all = command
                           ->add_flag("--all", flags->all,
                                      "print a table of contexts (with -c: only that one) and shares of the experts: "
                                      "the smallest budget of each, and whether the given budget holds it")
                           ->excludes(cache)
                           ->excludes(command->get_option("--arena"))
                           ->excludes(command->get_option("--mlock"))
                           ->group(memory);
    command->add_option("--trace", flags->trace, "routing trace for the expected hit rate (default: a synthetic trace)")
        ->excludes(all);
    add_output_flag(*command, flags->output);
    command->callback([flags, &body] { body = [flags] { return plan(*flags); }; });
}

} // namespace larder
