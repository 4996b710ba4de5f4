// figures.h — measurements of a running model, as written to the stats file (docs/stats.md).
//
// Units: bytes, tokens; milliseconds where a name ends in _ms.
#pragma once

#include "machine/process_memory.h"
#include "pressure/pressure.h"
#include "store/store.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

class OpenModel;

struct RunFigures {
    uint64_t prompt_tokens = 0;
    uint64_t decode_tokens = 0;
    double prompt_ms = 0;
    double decode_ms = 0;
    double ttft_ms = 0; // from the start of the latest generation to its first token
    double load_ms = 0;
    StoreStats store; // for a residency other than the arena: hits, misses and evictions as that residency counts them
    ArenaUse arena;
    PressureFigures pressure;
    ProcessMemory memory;
    uint64_t bytes_dropped = 0; // dropped from a mapping by a residency, to be read again later
    uint64_t bytes_reread = 0;
    // Further figures of the residency: an object of the stats file under its name, and a part of the text line.
    std::optional<nlohmann::ordered_json> residency;
    std::string residency_line;
};

// All figures, as JSON for the stats file and as one human-readable line.
nlohmann::ordered_json stats_json(const OpenModel &model);
std::string stats_text(const OpenModel &model);
std::string stats_line(const OpenModel &model);

} // namespace larder
