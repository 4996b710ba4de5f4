// formats.h — the readers of the formats, and what no trace exceeds.
#pragma once

#include "lab/trace/lines.h"
#include "lab/trace/trace.h"

namespace larder {

// Far beyond any model; what a damaged file claims must not become memory.
inline constexpr uint32_t trace_layers_max = 1024;
inline constexpr uint32_t trace_experts_max = 65536;
inline constexpr uint32_t trace_top_k_max = 256;

// Both begin at the first line that is not empty, which `lines` stands on.
RoutingTrace read_json_lines(Lines &lines);
RoutingTrace read_route_csv(Lines &lines);

} // namespace larder
