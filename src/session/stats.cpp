// Formats the figures as JSON and as one line.
#include "session/figures.h"

#include "base/bytes.h"
#include "session/open_model.h"

#include <fmt/format.h>

namespace larder {

namespace {

double per_second(uint64_t tokens, double ms) { return ms > 0 ? static_cast<double>(tokens) * 1000.0 / ms : 0; }

// "-" if nothing was evaluated.
std::string rate_text(uint64_t tokens, double ms) {
    return tokens > 0 ? fmt::format("{:.2f}", per_second(tokens, ms)) : "-";
}

double hit_rate(const StoreStats &store) {
    const uint64_t accesses = store.expert_hits + store.expert_misses;
    return accesses > 0 ? static_cast<double>(store.expert_hits) / static_cast<double>(accesses) : 0;
}

nlohmann::ordered_json slots_by_class(const OpenModel &model, const ArenaUse &arena) {
    auto classes = nlohmann::ordered_json::array();
    for (size_t i = 0; i < arena.slots.size(); i++) {
        classes.push_back({{"slice_bytes", model.layout().size_classes[i].slice_bytes},
                           {"slot_bytes", model.layout().size_classes[i].slot_bytes},
                           {"slots", model.plan().slots[i]},
                           {"slots_in_use", arena.slots[i]}});
    }
    return classes;
}

} // namespace

nlohmann::ordered_json stats_json(const OpenModel &model) {
    const RunFigures stats = model.figures();
    const MemoryPlan &plan = model.plan();
    nlohmann::ordered_json json = {
        {"model", model.layout().files.front()},
        {"residency", model.residency()},
        {"prompt_tokens", stats.prompt_tokens},
        {"decode_tokens", stats.decode_tokens},
        {"prompt_tok_s", per_second(stats.prompt_tokens, stats.prompt_ms)},
        {"decode_tok_s", per_second(stats.decode_tokens, stats.decode_ms)},
        {"ttft_ms", stats.ttft_ms},
        {"load_ms", stats.load_ms},
        {"expert_hits", stats.store.expert_hits},
        {"expert_misses", stats.store.expert_misses},
        {"hit_rate", hit_rate(stats.store)},
        {"evictions", stats.store.evictions},
        {"slice_reads", stats.store.slice_reads},
        {"bytes_read", stats.store.bytes_read},
        {"read_errors", stats.store.read_errors},
        {"stall_ms", static_cast<double>(stats.store.stall_us) / 1000.0},
        {"budget_bytes", plan.budget_bytes},
        {"budget_source", plan.budget_source},
        {"arena_bytes", plan.arena_bytes},
        {"resident_bytes", plan.fixed.resident},
        {"kv_bytes", plan.fixed.kv},
        {"compute_bytes", plan.fixed.compute},
        {"overhead_bytes", plan.fixed.overhead},
        {"reserve_bytes", plan.reserve_bytes},
        {"transient_bytes", plan.fixed.transient},
        {"planned_bytes", planned_bytes(plan)},
        {"floor_bytes", plan.floor_bytes},
        {"slots", slots_by_class(model, stats.arena)},
        {"arena_in_use_bytes", stats.arena.bytes},
        {"arena_shrinks", stats.store.shrinks},
        {"arena_regrows", stats.store.regrows},
        {"given_back_bytes", stats.store.bytes_given_back},
        {"last_resize", stats.pressure.last_reason},
        {"rss_bytes", stats.memory.rss_bytes},
        {"peak_rss_bytes", stats.memory.peak_rss_bytes},
        {"sampled_peak_rss_bytes", stats.pressure.peak_rss_bytes},
        {"vm_swap_bytes", stats.memory.vm_swap_bytes},
        {"locked_bytes", stats.memory.locked_bytes},
        {"disk_read_bytes", stats.memory.read_bytes},
        {"disk_written_bytes", stats.memory.written_bytes},
        {"io_backend", model.reader_info().backend},
        {"direct_io", model.reader_info().direct_io},
        {"kernels", to_string(model.kernels())},
        {"threads", model.threads()},
        {"ctx_tokens", model.ctx_tokens()},
        {"ubatch_tokens", model.ubatch_tokens()},
    };
    if (stats.residency) {
        json[std::string(model.residency())] = *stats.residency;
    }
    return json;
}

std::string stats_text(const OpenModel &model) {
    return stats_json(model).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string stats_line(const OpenModel &model) {
    const RunFigures stats = model.figures();
    std::string line = fmt::format("prompt {} tokens, {} tok/s | decode {} tokens, {} tok/s | first token {:.0f} ms",
                                   stats.prompt_tokens, rate_text(stats.prompt_tokens, stats.prompt_ms),
                                   stats.decode_tokens, rate_text(stats.decode_tokens, stats.decode_ms), stats.ttft_ms);
    const std::string swap = fmt::format("swap {}", format_bytes(stats.memory.vm_swap_bytes));
    const bool in_arena = model.residency() == "arena";
    if (in_arena && model.layout().n_expert > 0) {
        line += fmt::format(" | hit rate {:.1f} %, {} read", 100 * hit_rate(stats.store),
                            format_bytes(stats.store.bytes_read));
    }
    line += stats.residency_line;
    line += " | peak RSS " + format_bytes(stats.memory.peak_rss_bytes);
    if (in_arena) {
        line += " of " + format_bytes(model.plan().budget_bytes);
    }
    return line + ", " + swap;
}

} // namespace larder
