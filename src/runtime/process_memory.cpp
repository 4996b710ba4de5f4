#include "engine/engine.h"

#include "base/bytes.h"

#include <fstream>
#include <string>

namespace larder {

namespace {

// Lines like "VmHWM:   1234 kB" and "read_bytes: 1234".
uint64_t value_of(const std::string &line) {
    const uint64_t value = std::stoull(line.substr(line.find(':') + 1));
    return line.ends_with("kB") ? value * KiB : value;
}

} // namespace

ProcessMemory process_memory() {
    ProcessMemory memory;
    std::string line;
    for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
        if (line.starts_with("VmRSS:")) {
            memory.rss_bytes = value_of(line);
        } else if (line.starts_with("VmHWM:")) {
            memory.peak_rss_bytes = value_of(line);
        } else if (line.starts_with("VmSwap:")) {
            memory.vm_swap_bytes = value_of(line);
        } else if (line.starts_with("VmLck:")) {
            memory.locked_bytes = value_of(line);
        }
    }
    for (std::ifstream io("/proc/self/io"); std::getline(io, line);) {
        if (line.starts_with("read_bytes:")) {
            memory.read_bytes = value_of(line);
        } else if (line.starts_with("write_bytes:")) {
            memory.written_bytes = value_of(line);
        }
    }
    return memory;
}

} // namespace larder
