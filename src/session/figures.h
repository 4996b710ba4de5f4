// figures.h — what was measured while a model ran, as the stats file has it (docs/stats.md).
//
// Units: bytes, tokens, milliseconds where a name says _ms.
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
    double ttft_ms = 0; // from the latest generation's beginning to its first token
    double load_ms = 0;
    StoreStats store; // of another residency than the arena: hits, misses and evictions as it counts them
    ArenaUse arena;
    PressureFigures pressure;
    ProcessMemory memory;
    uint64_t bytes_dropped = 0; // by a residency that drops experts from a mapping, and read again later
    uint64_t bytes_reread = 0;
    // Of the residency, where it has more to say: an object of the stats file under its name, and a part of the line.
    std::optional<nlohmann::ordered_json> residency;
    std::string residency_line;
};

// All figures as the JSON text of the stats file, and in one line for people.
nlohmann::ordered_json stats_json(const OpenModel &model);
std::string stats_text(const OpenModel &model);
std::string stats_line(const OpenModel &model);

} // namespace larder
