// report.h — the result of `larder probe`, as tables and as JSON.
#pragma once

#include "cli/probe/target.h"
#include "lab/probe/probe.h"

#include <optional>
#include <string>
#include <vector>

namespace larder {

// What the measurements mean for decoding with a model.
struct ProbeVerdict {
    double slice_bytes_per_second = 0;  // see slice_rate.h
    double memory_bytes_per_second = 0; // with the best number of threads
    uint64_t token_read_bytes = 0;      // from the disk, if nothing is cached
    uint64_t token_memory_bytes = 0;    // weights that one token reads from memory
    double disk_tok_s_no_hits = 0;
    double disk_tok_s_typical = 0; // at a hit rate of typical_hit_rate
    double memory_tok_s = 0;
    double crossing_hit_rate = 0; // above it, memory is the limit; below it, the disk; 0: always memory
};
inline constexpr double typical_hit_rate = 0.75;

struct ProbeResult {
    ProbeTarget target;
    DiskReport disk;
    std::vector<MemorySample> memory;
    std::optional<ProbeVerdict> verdict; // for a model with routed experts
};

ProbeVerdict verdict_of(const ModelLayout &layout, const DiskReport &disk, const std::vector<MemorySample> &memory);

std::string probe_markdown(const ProbeResult &result);
std::string probe_json(const ProbeResult &result);

} // namespace larder
