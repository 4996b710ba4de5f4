// page_stats.h — the figures of a page residency among the engine's (private to engine).
#pragma once

#include "engine/engine.h"

#include <nlohmann/json.hpp>

namespace larder {

// Under the names all residencies share and under its own. `stats` has the process's memory already.
void add_page_stats(EngineStats &stats, const ExpertPager &pager, uint64_t read_bytes_at_load);

// The stats file's object "page"; stats.page is there.
nlohmann::ordered_json page_json(const EngineStats &stats);

} // namespace larder
