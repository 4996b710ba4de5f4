// The CSV format of BigMoeOnEdge: one row for each expert of each layer of each token. In prefill the rows are ordered
// by layer, so the rows of a token are not adjacent. The last layer is recorded only for the tokens that were computed
// in it.
#include "lab/trace/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

namespace larder {

namespace {

constexpr std::string_view columns = "turn,phase,step,layer,slot,expert";
constexpr size_t column_count = 6;

struct Row {
    size_t line;
    size_t token;
    uint32_t layer;
    uint32_t slot;
    int32_t expert;
};

// The text after `key`, up to a space; may be empty. `key` begins with a space.
std::string_view value_of(std::string_view comment, std::string_view key) {
    const size_t at = comment.find(key);
    if (at == std::string_view::npos) {
        return {};
    }
    const std::string_view rest = comment.substr(at + key.size());
    return rest.substr(0, rest.find(' '));
}

class CsvTrace {
  public:
    explicit CsvTrace(Lines &lines) : lines_(lines) {}

    RoutingTrace read() {
        do {
            if (lines_.text().starts_with('#')) {
                take_comment(lines_.text());
            } else if (fields_ == 0) {
                take_column_names(lines_.text());
            } else {
                take_row(lines_.text());
            }
        } while (lines_.next());
        assemble();
        return std::move(trace_);
    }

  private:
    void take_comment(std::string_view comment) {
        if (const std::string_view arch = value_of(comment, " arch="); !arch.empty()) {
            trace_.architecture = arch;
        }
        if (const std::string_view experts = value_of(comment, " n_expert="); !experts.empty()) {
            trace_.n_expert = static_cast<uint32_t>(number(experts, "n_expert", 1, trace_experts_max));
        }
    }

    void take_column_names(std::string_view names) {
        if (!names.starts_with(columns)) {
            throw lines_.fault(fmt::format("the columns do not begin with '{}'", columns));
        }
        fields_ = static_cast<size_t>(std::ranges::count(names, ',')) + 1;
    }

    void take_row(std::string_view text) {
        const auto fields = static_cast<size_t>(std::ranges::count(text, ',')) + 1;
        if (fields != fields_) {
            throw lines_.fault(fmt::format("the row has {} columns instead of {}", fields, fields_));
        }
        std::array<std::string_view, column_count> field;
        for (std::string_view &value : field) {
            value = text.substr(0, text.find(','));
            text.remove_prefix(std::min(text.size(), value.size() + 1));
        }
        constexpr int64_t count_max = INT32_MAX;
        const int64_t turn = number(field[0], "turn", 0, count_max);
        const int64_t phase = number(field[1], "phase", 0, 1);
        const int64_t step = number(field[2], "step", 0, count_max);
        const int64_t expert_end = trace_.n_expert > 0 ? trace_.n_expert : trace_experts_max;
        rows_.push_back({.line = lines_.number(),
                         .token = token_of(turn, phase, step),
                         .layer = static_cast<uint32_t>(number(field[3], "layer", 0, trace_layers_max - 1)),
                         .slot = static_cast<uint32_t>(number(field[4], "slot", 0, trace_top_k_max - 1)),
                         .expert = static_cast<int32_t>(number(field[5], "expert", -1, expert_end - 1))});
    }

    [[nodiscard]] int64_t number(std::string_view text, std::string_view name, int64_t low, int64_t high) const {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
            throw lines_.fault(
                fmt::format("{} is '{}', not a whole number from {} to {}", name, printable(text), low, high));
        }
        return value;
    }

    size_t token_of(int64_t turn, int64_t phase, int64_t step) {
        const auto [at, added] = token_index_.try_emplace({turn, phase, step}, trace_.tokens.size());
        if (added) {
            trace_.tokens.push_back({.phase = phase == 0 ? TracePhase::prefill : TracePhase::decode, .experts = {}});
        }
        return at->second;
    }

    // Converts the rows to tokens. Layers without rows are not routed.
    void assemble() {
        std::map<uint32_t, uint32_t> layer_index;
        int32_t expert_max = 0;
        for (const Row &row : rows_) {
            layer_index.emplace(row.layer, 0);
            trace_.top_k = std::max(trace_.top_k, row.slot + 1);
            expert_max = std::max(expert_max, row.expert);
        }
        for (auto &[layer, index] : layer_index) {
            index = static_cast<uint32_t>(trace_.layers.size());
            trace_.layers.push_back(layer);
        }
        trace_.n_layer = static_cast<uint32_t>(trace_.layers.size());
        trace_.n_expert = trace_.n_expert > 0 ? trace_.n_expert : static_cast<uint32_t>(expert_max) + 1;
        for (TraceToken &token : trace_.tokens) {
            token.experts.assign(size_t{trace_.n_layer} * trace_.top_k, -1);
        }
        place_rows(layer_index);
    }

    void place_rows(const std::map<uint32_t, uint32_t> &layer_index) {
        std::map<std::pair<size_t, uint32_t>, std::set<uint32_t>> slots; // of each layer of a token
        for (const Row &row : rows_) {
            std::vector<int32_t> &experts = trace_.tokens[row.token].experts;
            const auto first = experts.begin() + static_cast<std::ptrdiff_t>(layer_index.at(row.layer)) * trace_.top_k;
            if (row.expert >= 0 && std::find(first, first + trace_.top_k, row.expert) != first + trace_.top_k) {
                throw lines_.fault_at(row.line, fmt::format("layer {} names expert {} twice", row.layer, row.expert));
            }
            if (!slots[{row.token, row.layer}].insert(row.slot).second) {
                throw lines_.fault_at(row.line, fmt::format("layer {} has slot {} twice", row.layer, row.slot));
            }
            first[row.slot] = row.expert;
        }
        for (const Row &row : rows_) {
            const size_t count = slots[{row.token, row.layer}].size();
            if (count != trace_.top_k) {
                throw lines_.fault_at(row.line, fmt::format("layer {} has {} experts instead of {}, beginning here",
                                                            row.layer, count, trace_.top_k));
            }
        }
    }

    Lines &lines_;
    RoutingTrace trace_;
    std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> token_index_;
    std::vector<Row> rows_;
    size_t fields_ = 0; // 0 before the line with the column names
};

} // namespace

RoutingTrace read_route_csv(Lines &lines) { return CsvTrace(lines).read(); }

} // namespace larder
