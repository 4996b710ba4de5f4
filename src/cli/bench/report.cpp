#include "cli/bench/report.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>

namespace larder {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json &json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json or_null(const std::optional<double> &value) { return value ? Json(*value) : Json(nullptr); }

uint64_t n_slot(const Json &figures) {
    uint64_t n = 0;
    for (const Json &size_class : figures.value("slots", Json::array())) {
        n += size_class.at("slots").get<uint64_t>();
    }
    return n;
}

// --- the table ---

constexpr std::array<std::pair<const char *, int>, 20> columns = {
    {{"model", 26},   {"size", 10},     {"arch", 10},        {"budget", 10},    {"arena", 10},
     {"slots", 7},    {"kernels", 8},   {"ubatch", 6},       {"test", 13},      {"tok/s", 17},
     {"hit rate", 8}, {"read/tok", 10}, {"dropped/tok", 11}, {"stall/tok", 11}, {"T_io", 11},
     {"T_cpu", 11},   {"limit", 9},     {"serial", 9},       {"of limit", 8},   {"peak RSS", 10}}};

std::string table_line(const std::vector<std::string> &cells) {
    std::string line = "|";
    for (size_t i = 0; i < cells.size(); i++) {
        line += i == 0 ? fmt::format(" {:<{}} |", cells[i], columns[i].second)
                       : fmt::format(" {:>{}} |", cells[i], columns[i].second);
    }
    return line + "\n";
}

std::string table_head() {
    std::vector<std::string> names;
    std::string rule = "|";
    for (const auto &[name, width] : columns) {
        names.emplace_back(name);
        const std::string dashes(static_cast<size_t>(width), '-');
        rule += names.size() == 1 ? fmt::format(" {} |", dashes) : fmt::format(" {}: |", dashes.substr(1));
    }
    return table_line(names) + rule + "\n";
}

std::string number(const std::optional<double> &value, const char *unit, double factor = 1) {
    return value ? fmt::format("{:.{}f}{}", *value * factor, *value * factor < 100 ? 2 : 1, unit) : "-";
}

bool refused(const BenchRow &row) { return row.exit_code == exit_code(ErrorKind::budget); }

// The budget as the user wrote it.
std::string budget_name(const BenchRow &row) {
    if (row.residency != Residency::arena) {
        return std::string(to_string(row.residency));
    }
    return row.budget.text.empty() ? "machine" : row.budget.text;
}

std::string table_row(const BenchSetting &setting, const BenchRow &row) {
    const RowFigures figures = figures_of(row, setting.disk_bytes_per_second);
    const auto bytes = [&row](const char *key) { return format_bytes(row.figures.at(key).get<uint64_t>()); };
    const bool failed = row.error.has_value();
    const std::string budget = row.budget.text.empty() && row.residency == Residency::arena && !failed
                                   ? bytes("budget_bytes")
                                   : budget_name(row);
    std::vector<std::string> cells = {setting.model_name, format_bytes(setting.model_bytes), setting.architecture,
                                      budget};
    if (failed) {
        cells.insert(cells.end(), {"-", "-", "-", "-", row.test.name(), refused(row) ? "refused" : "failed"});
        cells.resize(columns.size());
        return table_line(cells);
    }
    const bool arena = row.residency == Residency::arena;
    const auto size = [](double value) { return format_bytes(static_cast<uint64_t>(value)); };
    cells.insert(
        cells.end(),
        {arena ? bytes("arena_bytes") : "-", arena ? std::to_string(n_slot(row.figures)) : "-",
         row.figures.at("kernels").get<std::string>(), std::to_string(row.figures.at("ubatch_tokens").get<uint32_t>()),
         row.test.name(), fmt::format("{:.2f} ± {:.2f}", figures.tok_s, figures.tok_s_stddev),
         number(figures.hit_rate, " %", 100), size(figures.bytes_read_token),
         figures.bytes_dropped_token ? size(*figures.bytes_dropped_token) : "-", number(figures.stall_ms_token, " ms"),
         number(figures.t_io_ms, " ms"), number(figures.t_cpu_ms, " ms"), number(figures.limit_tok_s, ""),
         number(figures.serial_tok_s, ""), number(figures.limit_share, " %", 100), bytes("peak_rss_bytes")});
    return table_line(cells);
}

std::string table_end(const BenchSetting &setting) {
    std::string text =
        fmt::format("\n{}, larder {} (llama.cpp {})", setting.cold ? "cold" : "warm", LARDER_VERSION, llama_version());
    if (setting.disk_bytes_per_second > 0) {
        text += fmt::format("; a token uses {} of experts, and the disk reads them at {}/s",
                            format_bytes(setting.token_bytes),
                            format_bytes(static_cast<uint64_t>(setting.disk_bytes_per_second)));
    }
    return text + "\n";
}

// --- CSV ---

std::string csv_cell(const Json &value) {
    if (value.is_null()) {
        return "";
    }
    if (value.is_array()) { // "1;2;3"
        std::string text;
        for (const Json &element : value) {
            text += text.empty() ? "" : ";";
            text += csv_cell(element);
        }
        return text;
    }
    std::string text = value.is_string() ? value.get<std::string>() : dumped(value, -1);
    if (text.find_first_of(",\"\n") == std::string::npos) {
        return text;
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? std::string_view("\"\"") : std::string_view(&c, 1);
    }
    quoted += '"';
    return quoted;
}

std::string csv_line(const Json &row, bool names) {
    std::string line;
    for (const auto &[name, value] : row.items()) {
        line += line.empty() ? "" : ",";
        line += names ? name : csv_cell(value);
    }
    return line + "\n";
}

} // namespace

BenchSetting setting_of(const ModelLayout &layout) {
    BenchSetting setting;
    setting.model_path = layout.files.front();
    setting.model_name = layout.name.empty() ? std::filesystem::path(setting.model_path).stem().string() : layout.name;
    setting.architecture = layout.architecture;
    setting.model_bytes = layout.total_bytes;
    setting.routed_bytes = layout.routed_bytes;
    setting.token_bytes = layout.token_bytes;
    return setting;
}

Json row_json(const BenchSetting &setting, const BenchRow &row) {
    const bool measured = !row.error;
    const bool arena = row.residency == Residency::arena;
    const RowFigures figures = measured ? figures_of(row, setting.disk_bytes_per_second) : RowFigures{};
    const auto known = [&row](const char *key) {
        return row.figures.contains(key) ? row.figures.at(key) : Json(nullptr);
    };
    const auto of_page = [&row](const char *key) {
        return row.figures.contains("page") ? row.figures.at("page").at(key) : Json(nullptr);
    };
    const auto if_measured = [measured](Json value) { return measured ? std::move(value) : Json(nullptr); };
    Json slots = Json::array();
    for (const Json &size_class : row.figures.value("slots", Json::array())) {
        slots.push_back(size_class.at("slots"));
    }
    return {{"model_path", setting.model_path},
            {"model_name", setting.model_name},
            {"model_bytes", setting.model_bytes},
            {"architecture", setting.architecture},
            {"routed_bytes", setting.routed_bytes},
            {"token_bytes", setting.token_bytes},
            {"residency", to_string(row.residency)},
            {"start", setting.cold ? "cold" : "warm"},
            {"ram", row.budget.text},
            {"budget_bytes", arena ? known("budget_bytes") : Json(nullptr)},
            {"arena_bytes", arena ? known("arena_bytes") : Json(nullptr)},
            {"slots", std::move(slots)},
            {"test", row.test.name()},
            {"n_prompt", row.test.n_prompt},
            {"n_gen", row.test.n_gen},
            {"n_depth", row.test.depth},
            {"kernels", known("kernels")},
            {"threads", known("threads")},
            {"ctx_tokens", known("ctx_tokens")},
            {"batch_tokens", setting.batch_tokens},
            {"ubatch_tokens", known("ubatch_tokens")},
            {"seed", setting.seed},
            {"repetitions", row.repetitions.size()},
            {"tok_s", if_measured(figures.tok_s)},
            {"tok_s_stddev", if_measured(figures.tok_s_stddev)},
            {"tok_s_samples", figures.tok_s_samples},
            {"hit_rate", or_null(figures.hit_rate)},
            {"bytes_read_per_token", if_measured(figures.bytes_read_token)},
            {"page_evict", of_page("evict")},
            {"hot_tokens", of_page("hot_tokens")},
            {"bytes_dropped_per_token", or_null(figures.bytes_dropped_token)},
            {"bytes_reread_per_token", or_null(figures.bytes_reread_token)},
            {"stall_ms_per_token", if_measured(or_null(figures.stall_ms_token))},
            {"t_io_ms", if_measured(or_null(figures.t_io_ms))},
            {"t_cpu_ms", or_null(figures.t_cpu_ms)},
            {"t_cpu_method", figures.t_cpu_ms ? Json(figures.t_cpu_method) : Json(nullptr)},
            {"limit_tok_s", or_null(figures.limit_tok_s)},
            {"serial_tok_s", or_null(figures.serial_tok_s)},
            {"limit_share", or_null(figures.limit_share)},
            {"peak_rss_bytes", known("peak_rss_bytes")},
            {"vm_swap_bytes", known("vm_swap_bytes")},
            {"disk_bytes_per_second",
             setting.disk_bytes_per_second > 0 ? Json(setting.disk_bytes_per_second) : Json(nullptr)},
            {"io_backend", known("io_backend")},
            {"direct_io", known("direct_io")},
            {"larder", LARDER_VERSION},
            {"llama_cpp", llama_version()},
            {"error", measured ? Json(nullptr) : Json(row.error->what())}};
}

BenchReport::BenchReport(std::string format, BenchSetting setting)
    : format_(std::move(format)), setting_(std::move(setting)) {}

std::string BenchReport::begin() const { return format_ == "md" ? table_head() : ""; }

std::string BenchReport::add(const BenchRow &row) {
    if (format_ == "md") {
        if (row.error.has_value()) {
            errors_ += fmt::format("\n{}, {}: {}\n", budget_name(row), row.test.name(), row.error->what());
        }
        return table_row(setting_, row);
    }
    all_.push_back(row_json(setting_, row));
    if (format_ == "jsonl") {
        return dumped(all_.back(), -1) + "\n";
    }
    if (format_ == "csv") {
        return (all_.size() == 1 ? csv_line(all_.back(), true) : "") + csv_line(all_.back(), false);
    }
    return "";
}

std::string BenchReport::end() const {
    if (format_ == "md") {
        return errors_ + table_end(setting_);
    }
    return format_ == "json" ? dumped(all_, 2) + "\n" : "";
}

} // namespace larder
