// report.h — writes the rows of `larder bench` as a table, CSV, JSON or JSON lines.
#pragma once

#include "cli/bench/row.h"
#include "layout/layout.h"

#include <string>
#include <vector>

namespace larder {

// Facts that all rows share.
struct BenchSetting {
    std::string model_path;
    std::string model_name; // the model's own name, or the name of its file
    std::string architecture;
    uint64_t model_bytes = 0;
    uint64_t routed_bytes = 0;
    uint64_t token_bytes = 0; // A: bytes of the experts of one token
    bool cold = false;
    uint32_t batch_tokens = 0;
    uint64_t seed = 0;
    double disk_bytes_per_second = 0; // W_s; 0 for a dense model
};
BenchSetting setting_of(const ModelLayout &layout);

// Rows are added one by one, and written as soon as the format allows.
class BenchReport {
  public:
    // `format`: md, csv, json or jsonl.
    BenchReport(std::string format, BenchSetting setting);

    // Each returns the text to print.
    [[nodiscard]] std::string begin() const;
    [[nodiscard]] std::string add(const BenchRow &row);
    [[nodiscard]] std::string end() const;

  private:
    std::string format_;
    BenchSetting setting_;
    std::string errors_; // of the rows; printed below a table
    nlohmann::ordered_json all_ = nlohmann::ordered_json::array();
};

// One row as JSON. CSV has the same names.
nlohmann::ordered_json row_json(const BenchSetting &setting, const BenchRow &row);

} // namespace larder
