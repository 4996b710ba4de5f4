#include "cli/calibrate/report.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

using Json = nlohmann::ordered_json;

uint64_t bytes_of(const CalibratedReserve &reserve, const char *name) {
    return reserve.figures.at(name).get<uint64_t>();
}

uint64_t slots_of(const CalibratedReserve &reserve) {
    uint64_t n = 0;
    for (const Json &size_class : reserve.figures.at("slots")) {
        n += size_class.at("slots").get<uint64_t>();
    }
    return n;
}

// The peak memory of the process minus the parts that the plan counts by name. Negative if some of them were not fully
// touched.
int64_t measured_overhead(const CalibratedReserve &reserve) {
    uint64_t named = 0;
    for (const char *part : {"resident_bytes", "kv_bytes", "compute_bytes", "arena_bytes"}) {
        named += bytes_of(reserve, part);
    }
    return static_cast<int64_t>(bytes_of(reserve, "peak_rss_bytes")) - static_cast<int64_t>(named);
}

int64_t room_left(const Calibration &calibration, const CalibratedReserve &reserve) {
    return static_cast<int64_t>(calibration.budget_bytes) - static_cast<int64_t>(bytes_of(reserve, "peak_rss_bytes"));
}

std::string mebibytes(int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / MiB); }
std::string mebibytes(uint64_t bytes) { return mebibytes(static_cast<int64_t>(bytes)); }

std::string verdict_of(const Calibration &calibration, const CalibratedReserve &reserve) {
    return within_budget(calibration, reserve)
               ? fmt::format("yes, {} left", mebibytes(room_left(calibration, reserve)))
               : fmt::format("no, {} over", mebibytes(-room_left(calibration, reserve)));
}

std::string row_of(const Calibration &calibration, const CalibratedReserve &reserve) {
    const std::string asked = mebibytes(reserve.asked_bytes);
    if (reserve.figures.is_null()) {
        return fmt::format("| {:>10} | {:>10} | {:>11} | {:>7} | {:>12} | {:>12} | {:>10} | {:>10} | no: {} |\n", asked,
                           "-", "-", "-", "-", "-", "-", "-", printable(reserve.error));
    }
    return fmt::format("| {:>10} | {:>10} | {:>11} | {:>7} | {:>12} | {:>12} | {:>10} | {:>10} | {:<21} |\n", asked,
                       mebibytes(bytes_of(reserve, "reserve_bytes")), mebibytes(bytes_of(reserve, "arena_bytes")),
                       slots_of(reserve), mebibytes(bytes_of(reserve, "peak_anonymous_bytes")),
                       mebibytes(bytes_of(reserve, "peak_rss_bytes")), mebibytes(bytes_of(reserve, "overhead_bytes")),
                       mebibytes(measured_overhead(reserve)), verdict_of(calibration, reserve));
}

bool raised(const CalibratedReserve &reserve) {
    return !reserve.figures.is_null() && bytes_of(reserve, "reserve_bytes") > reserve.asked_bytes;
}

// The value of --reserve that gives the measured plan.
std::string flag_of(const CalibratedReserve &reserve) {
    return reserve.asked_bytes == 0 ? "--reserve 0"
                                    : fmt::format("--reserve {}K", align_up(reserve.asked_bytes, KiB) / KiB);
}

std::string conclusion_of(const Calibration &calibration) {
    std::string text;
    if (std::ranges::any_of(calibration.reserves, raised)) {
        text += "\na reserve is raised if three quarters of it cannot hold what tokenising a long text takes\n";
    }
    const CalibratedReserve *smallest = smallest_reserve(calibration);
    if (smallest == nullptr) {
        return text + "\nno reserve keeps the process within the budget\n";
    }
    return text + fmt::format("\nsmallest reserve that keeps the process within the budget: {}\n",
                              raised(*smallest)
                                  ? fmt::format("{}, raised from {}", mebibytes(bytes_of(*smallest, "reserve_bytes")),
                                                flag_of(*smallest))
                                  : flag_of(*smallest));
}

} // namespace

bool within_budget(const Calibration &calibration, const CalibratedReserve &reserve) {
    return !reserve.figures.is_null() && room_left(calibration, reserve) >= 0;
}

const CalibratedReserve *smallest_reserve(const Calibration &calibration) {
    for (const CalibratedReserve &reserve : calibration.reserves) {
        if (within_budget(calibration, reserve)) {
            return &reserve;
        }
    }
    return nullptr;
}

std::string calibration_table(const Calibration &calibration) {
    std::string text =
        fmt::format("{}: budget {}\n\n"
                    "| {:>10} | {:>10} | {:>11} | {:>7} | {:>12} | {:>12} | {:>10} | {:>10} | {:<21} |\n"
                    "| {:->9}: | {:->9}: | {:->10}: | {:->6}: | {:->11}: | {:->11}: | {:->9}: | {:->9}: | {:-<21} |\n",
                    printable(calibration.model_path), format_bytes(calibration.budget_bytes), "asked for", "reserve",
                    "arena", "slots", "peak anon.", "peak RSS", "overhead", "measured", "within the budget", "", "", "",
                    "", "", "", "", "", "");
    for (const CalibratedReserve &reserve : calibration.reserves) {
        text += row_of(calibration, reserve);
    }
    return text + conclusion_of(calibration);
}

std::string calibration_json(const Calibration &calibration) {
    const CalibratedReserve *smallest = smallest_reserve(calibration);
    Json json = {{"larder_calibration", 1},
                 {"model", calibration.model_path},
                 {"budget_bytes", calibration.budget_bytes},
                 {"smallest_reserve_bytes", smallest != nullptr ? smallest->figures.at("reserve_bytes") : Json()},
                 {"smallest_asked_bytes", smallest != nullptr ? Json(smallest->asked_bytes) : Json()},
                 {"reserves", Json::array()}};
    for (const CalibratedReserve &reserve : calibration.reserves) {
        Json row = {{"asked_bytes", reserve.asked_bytes}, {"within_budget", within_budget(calibration, reserve)}};
        if (reserve.figures.is_null()) {
            row["error"] = reserve.error;
        } else {
            row.update({{"room_left_bytes", room_left(calibration, reserve)},
                        {"slots", slots_of(reserve)},
                        {"overhead_measured_bytes", measured_overhead(reserve)}});
            for (const char *name :
                 {"reserve_bytes", "transient_bytes", "arena_bytes", "peak_anonymous_bytes", "peak_rss_bytes",
                  "vm_swap_bytes", "resident_bytes", "kv_bytes", "compute_bytes", "overhead_bytes"}) {
                row[name] = reserve.figures.at(name);
            }
        }
        json["reserves"].push_back(std::move(row));
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; // a file name need not be UTF-8
}

} // namespace larder
