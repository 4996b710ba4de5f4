#include "cli/plan/report.h"

#include "base/bytes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace larder {

namespace {

using Json = nlohmann::ordered_json;

double percent_of(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

template <typename Value> Json or_null(const std::optional<Value> &value) { return value ? Json(*value) : Json(); }

std::string dumped(const Json &json) { // a file name need not be UTF-8
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string head_of(const PlanSubject &model) {
    return fmt::format("{} ({}): {} of weights, {} of them routed experts; budget {} ({})\n", printable(model.path),
                       printable(model.architecture), format_bytes(model.total_bytes), format_bytes(model.routed_bytes),
                       format_bytes(model.budget_bytes), model.budget_source);
}

Json head_json(const PlanSubject &model) {
    return {{"larder_plan", 1},
            {"model", model.path},
            {"architecture", model.architecture},
            {"total_bytes", model.total_bytes},
            {"routed_bytes", model.routed_bytes},
            {"budget_bytes", model.budget_bytes},
            {"budget_source", model.budget_source},
            {"machine_bytes", model.machine.usable_bytes},
            {"machine_source", model.machine.source},
            {"sequences", model.sequences}};
}

std::string row(std::string_view what, uint64_t bytes, std::string_view note) {
    return fmt::format("| {:<28} | {:>10} | {:<48} |\n", what, format_bytes(bytes), note);
}

std::string parts_of(const PlanReport &report) {
    const MemoryPlan &plan = report.memory;
    return fmt::format("| {:<28} | {:>10} | {:<48} |\n| {:-<28} | {:->9}: | {:-<48} |\n", "part", "bytes", "", "", "",
                       "") +
           row("C  resident", plan.fixed.resident, "weights that every token needs") +
           row("E  arena", plan.arena_bytes,
               report.size_classes.empty() ? "no routed experts"
                                           : fmt::format("{:.1f} % of the experts", 100 * report.cached_share)) +
           row("K  KV and recurrent state", plan.fixed.kv,
               fmt::format("{} tokens, {} sequence{}", report.ctx_tokens, report.model.sequences,
                           report.model.sequences == 1 ? "" : "s")) +
           row("L  = C + E + K", lower_bound(plan), "static lower bound") +
           row("O  compute buffers", plan.fixed.compute,
               fmt::format("ubatch {}, kernels {}", plan.ubatch_tokens, to_string(report.kernels))) +
           row("O  overhead", plan.fixed.overhead, "code, vocabulary, threads, loading") +
           row("F  = L + O", footprint(plan), "full footprint") +
           row("reserve", plan.reserve_bytes,
               fmt::format("headroom; {} of it for tokenising a long text", format_bytes(plan.fixed.transient))) +
           row("spare", plan.spare_bytes, "not needed") + row("budget", plan.budget_bytes, "F, reserve and spare") +
           row("floor", plan.floor_bytes, "one token's experts: the smallest arena");
}

std::string slots_of(const PlanReport &report) {
    std::string text = "\n|      slice |  slots | of all |  share | one token |\n"
                       "| ---------: | -----: | -----: | -----: | --------: |\n";
    for (size_t i = 0; i < report.size_classes.size(); i++) {
        const SizeClass &size_class = report.size_classes[i];
        text += fmt::format("| {:>10} | {:>6} | {:>6} | {:>4.1f} % | {:>9} |\n", format_bytes(size_class.slice_bytes),
                            report.memory.slots[i], size_class.n_slices,
                            percent_of(report.memory.slots[i], size_class.n_slices), size_class.n_slices_per_token);
    }
    return text;
}

std::string raised_reserve_of(const PlanReport &report) {
    const uint64_t asked = report.reserve_asked_bytes.value_or(report.memory.reserve_bytes);
    if (report.memory.reserve_bytes <= asked) {
        return {};
    }
    return fmt::format("--reserve {} is raised to {}: a quarter of it, plus {} for tokenising a long text\n",
                       format_bytes(asked), format_bytes(report.memory.reserve_bytes),
                       format_bytes(report.memory.fixed.transient));
}

std::string largest_context_of(const PlanReport &report) {
    const std::string within =
        report.ctx_budget_bytes == report.model.budget_bytes
            ? "the budget"
            : fmt::format("the {} that this process may use", format_bytes(report.ctx_budget_bytes));
    const std::string largest =
        report.ctx_tokens_max ? fmt::format("{} tokens{}", *report.ctx_tokens_max,
                                            *report.ctx_tokens_max == report.model.ctx_tokens ? ", the model's" : "")
                              : "none";
    return fmt::format("largest context in {}: {}\n", within, largest);
}

std::string verdict_of(const PlanReport &report) {
    if (!report.refusal) {
        return "verdict: feasible\n";
    }
    std::string text = fmt::format("verdict: refused, {}\n", report.refusal->message());
    if (report.smallest_budget_bytes) {
        text +=
            fmt::format("smallest budget for {} tokens: {}M\n", report.ctx_tokens, *report.smallest_budget_bytes / MiB);
    }
    return text + (report.ctx_budget_bytes > 0 ? largest_context_of(report) : "");
}

// Names the budget of the table if it is not the requested one.
std::string subject_of(const PlanReport &report) {
    if (!report.refusal || !report.smallest_budget_bytes) {
        return {};
    }
    return report.machine_suffices
               ? fmt::format("refused; the {} that this process may use ({}) would be divided like this:\n",
                             format_bytes(report.memory.budget_bytes), report.model.machine.source)
               : "refused; the smallest budget that works would be divided like this:\n";
}

std::string cell_text(const FeasibilityCell &cell, uint64_t budget) {
    if (cell.needed_bytes == 0) {
        return "below floor";
    }
    const char *verdict = cell.feasible ? "yes" : cell.lower_bound_bytes > budget ? "no (L)" : "no (F)";
    return fmt::format("{}M {}", cell.needed_bytes / MiB, verdict);
}

} // namespace

uint64_t lower_bound(const MemoryPlan &plan) { return plan.fixed.resident + plan.arena_bytes + plan.fixed.kv; }

uint64_t footprint(const MemoryPlan &plan) { return lower_bound(plan) + plan.fixed.compute + plan.fixed.overhead; }

std::string plan_table(const PlanReport &report) {
    std::string text = head_of(report.model);
    if (!report.threads_bound_by.empty()) {
        text += fmt::format("threads: {} ({})\n", report.threads, report.threads_bound_by);
    }
    if (const std::string note = rounded_context_note(report.ctx_asked_tokens); !note.empty()) {
        text += fmt::format("note: {}\n", note);
    }
    text += subject_of(report);
    if (!report.refusal || report.smallest_budget_bytes) {
        text += '\n';
        text += parts_of(report);
        text += report.size_classes.empty() ? "" : slots_of(report);
        text += "\n";
        text += raised_reserve_of(report);
    }
    if (report.hits) {
        text += fmt::format("expected hit rate: {:.1f} % (over {} tokens from an empty cache; {})\n",
                            100 * report.hits->rate, report.hits->tokens, printable(report.hits->source));
    }
    return text + verdict_of(report);
}

std::string plan_json(const PlanReport &report) {
    const MemoryPlan &plan = report.memory;
    Json json = head_json(report.model);
    json.update({{"feasible", !report.refusal.has_value()},
                 {"reason", report.refusal ? Json(report.refusal->message()) : Json()},
                 {"smallest_budget_bytes", or_null(report.smallest_budget_bytes)},
                 {"ctx_tokens_max", or_null(report.ctx_tokens_max)},
                 {"ctx_tokens", report.ctx_tokens},
                 {"ctx_asked_tokens", report.ctx_asked_tokens > 0 ? Json(report.ctx_asked_tokens) : Json()},
                 {"ubatch_tokens", plan.ubatch_tokens},
                 {"kernels", to_string(report.kernels)},
                 {"threads", report.threads},
                 {"threads_bound_by", report.threads_bound_by.empty() ? Json() : Json(report.threads_bound_by)},
                 {"planned_budget_bytes", plan.budget_bytes},
                 {"resident_bytes", plan.fixed.resident},
                 {"arena_bytes", plan.arena_bytes},
                 {"kv_bytes", plan.fixed.kv},
                 {"compute_bytes", plan.fixed.compute},
                 {"overhead_bytes", plan.fixed.overhead},
                 {"lower_bound_bytes", lower_bound(plan)},
                 {"footprint_bytes", footprint(plan)},
                 {"reserve_bytes", plan.reserve_bytes},
                 {"transient_bytes", plan.fixed.transient},
                 {"spare_bytes", plan.spare_bytes},
                 {"floor_bytes", plan.floor_bytes},
                 {"cached_share", report.cached_share},
                 {"slots", Json::array()},
                 {"hit_rate", report.hits ? Json(report.hits->rate) : Json()},
                 {"hit_rate_tokens", report.hits ? Json(report.hits->tokens) : Json()},
                 {"hit_rate_source", report.hits ? Json(report.hits->source) : Json()}});
    for (size_t i = 0; i < plan.slots.size(); i++) {
        const SizeClass &size_class = report.size_classes[i];
        json["slots"].push_back({{"slice_bytes", size_class.slice_bytes},
                                 {"slot_bytes", size_class.slot_bytes},
                                 {"slots", plan.slots[i]},
                                 {"n_slices", size_class.n_slices},
                                 {"n_slices_per_token", size_class.n_slices_per_token}});
    }
    return dumped(json);
}

std::string feasibility_table(const Feasibility &feasibility) {
    std::string text = head_of(feasibility.model);
    text += fmt::format("the smallest budget for each context and share of the experts in the arena, with kernels {} "
                        "and {} ubatch\nno (L): C + E + K is above the budget; no (F): C + E + K + O + reserve is "
                        "above the budget\n\n| context | ubatch |",
                        to_string(feasibility.kernels), feasibility.ubatch_asked ? "the given" : "the smallest");
    std::string rule = "| ------: | -----: |";
    for (const double share : feasibility.shares) {
        text += fmt::format(" {:>14} |", fmt::format("{:g} %", 100 * share));
        rule += " -------------: |";
    }
    text += '\n';
    text += rule;
    text += '\n';
    for (const FeasibilityRow &each : feasibility.rows) {
        text += fmt::format("| {:>7} | {:>6} |", each.ctx_tokens, each.ubatch_tokens);
        for (const FeasibilityCell &cell : each.cells) {
            text += fmt::format(" {:>14} |", cell_text(cell, feasibility.model.budget_bytes));
        }
        text += "\n";
    }
    return text;
}

std::string feasibility_json(const Feasibility &feasibility) {
    Json json = head_json(feasibility.model);
    json["kernels"] = to_string(feasibility.kernels);
    json["cells"] = Json::array();
    for (const FeasibilityRow &each : feasibility.rows) {
        for (size_t i = 0; i < each.cells.size(); i++) {
            const FeasibilityCell &cell = each.cells[i];
            json["cells"].push_back({{"ctx_tokens", each.ctx_tokens},
                                     {"ubatch_tokens", each.ubatch_tokens},
                                     {"cache_share", feasibility.shares[i]},
                                     {"lower_bound_bytes", cell.lower_bound_bytes},
                                     {"footprint_bytes", cell.footprint_bytes},
                                     {"needed_bytes", cell.needed_bytes > 0 ? Json(cell.needed_bytes) : Json()},
                                     {"feasible", cell.feasible}});
        }
    }
    return dumped(json);
}

} // namespace larder
