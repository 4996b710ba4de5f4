// report.h — what `larder calibrate` found, as a table or JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

struct CalibratedReserve {
    uint64_t asked_bytes = 0;       // what the plan makes of it is in the figures
    nlohmann::ordered_json figures; // of the run, under the names of the stats file; null if there are none
    std::string error;              // why
};

struct Calibration {
    std::string model_path;
    uint64_t budget_bytes = 0;
    std::vector<CalibratedReserve> reserves; // ascending by what was asked for, so by what was in force
};

// The peak of the whole process, files mapped into it included, was no more than the budget.
bool within_budget(const Calibration &calibration, const CalibratedReserve &reserve);
// The smallest reserve in force that stayed within the budget; null if none did.
const CalibratedReserve *smallest_reserve(const Calibration &calibration);

std::string calibration_table(const Calibration &calibration);
std::string calibration_json(const Calibration &calibration);

} // namespace larder
