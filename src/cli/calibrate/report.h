// report.h — the result of `larder calibrate`, as a table or JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

struct CalibratedReserve {
    uint64_t asked_bytes = 0;       // the figures have the reserve that the plan used
    nlohmann::ordered_json figures; // of the run, under the names of the stats file; null if the run failed
    std::string error;              // why the run failed
};

struct Calibration {
    std::string model_path;
    uint64_t budget_bytes = 0;
    // In ascending order of the requested reserve, and so of the reserve in force.
    std::vector<CalibratedReserve> reserves;
};

// Whether the peak of the whole process, including file mappings, was within the budget.
bool within_budget(const Calibration &calibration, const CalibratedReserve &reserve);
// The smallest reserve in force with which the process stayed within the budget; null if there is none.
const CalibratedReserve *smallest_reserve(const Calibration &calibration);

std::string calibration_table(const Calibration &calibration);
std::string calibration_json(const Calibration &calibration);

} // namespace larder
