// formats.h — the readers of the formats, and limits for all traces.
#pragma once

#include "lab/trace/lines.h"
#include "lab/trace/trace.h"

namespace larder {

// Much more than any model has. They limit the memory that a damaged file can claim.
inline constexpr uint32_t trace_layers_max = 1024;
inline constexpr uint32_t trace_experts_max = 65536;
inline constexpr uint32_t trace_top_k_max = 256;

// Both begin at the current line of `lines`, the first line that is not empty.
RoutingTrace read_json_lines(Lines &lines);
RoutingTrace read_route_csv(Lines &lines);

} // namespace larder
