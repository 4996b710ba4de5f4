// Recognises the format of a file.
#include "lab/trace/formats.h"

#include <filesystem>

namespace larder {

RoutingTrace read_trace(const std::string &path) {
    Lines lines(path);
    if (!lines.next()) {
        throw lines.fault_at(1, "the trace is empty");
    }
    RoutingTrace trace;
    if (lines.text().starts_with('{')) {
        trace = read_json_lines(lines);
    } else if (lines.text().starts_with("# route_trace v1")) {
        trace = read_route_csv(lines);
    } else {
        throw lines.fault("a trace begins with JSON or with '# route_trace v1', and this file does not");
    }
    if (trace.tokens.empty()) {
        throw lines.fault("the trace ends without a token");
    }
    trace.name = std::filesystem::path(path).filename().string();
    return trace;
}

} // namespace larder
