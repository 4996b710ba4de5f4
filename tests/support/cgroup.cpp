#include "support/cgroup.h"

#include <unistd.h>

#include <fstream>

namespace larder::test {

namespace fs = std::filesystem;

namespace {

bool write_value(const fs::path &file, uint64_t value) {
    std::ofstream out(file);
    out << value << std::flush;
    return out.good();
}

uint64_t read_value(const fs::path &file) {
    uint64_t value = 0;
    std::ifstream(file) >> value;
    return value;
}

// The number after `key` in a file of "key number" lines.
uint64_t read_keyed(const fs::path &file, const std::string &key) {
    std::ifstream in(file);
    std::string word;
    for (uint64_t value = 0; in >> word >> value;) {
        if (word == key) {
            return value;
        }
    }
    return 0;
}

} // namespace

bool Cgroup::make(const fs::path &parent, const std::string &limit_file, const std::string &swap_file,
                  uint64_t limit_bytes, uint64_t swap_value) {
    const fs::path path = parent / ("larder-test-" + std::to_string(getpid()) + "-" + std::to_string(limit_bytes));
    std::error_code error;
    fs::create_directory(path, error);
    if (error) {
        why_ = "cannot create " + path.string() + ": " + error.message();
        return false;
    }
    if (!write_value(path / limit_file, limit_bytes)) {
        fs::remove(path, error);
        why_ = "cannot set " + limit_file + " in " + path.string();
        return false;
    }
    if (fs::exists(path / swap_file)) { // absent where the kernel accounts no swap
        write_value(path / swap_file, swap_value);
    }
    path_ = path;
    return true;
}

Cgroup::Cgroup(uint64_t limit_bytes) {
    if (fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")) {
        if (make("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limit_bytes,
                 limit_bytes)) {
            write_value(path_ / "memory.swappiness", 0);
        }
        return;
    }
    if (fs::exists("/sys/fs/cgroup/cgroup.controllers")) {
        v2_ = make("/sys/fs/cgroup", "memory.max", "memory.swap.max", limit_bytes, 0);
        return;
    }
    why_ = "no cgroup memory controller is mounted";
}

Cgroup::~Cgroup() {
    if (made()) {
        std::error_code error;
        fs::remove(path_, error);
    }
}

uint64_t Cgroup::peak_bytes() const { return read_value(path_ / (v2_ ? "memory.peak" : "memory.max_usage_in_bytes")); }

uint64_t Cgroup::kills() const {
    return read_keyed(path_ / (v2_ ? "memory.events" : "memory.oom_control"), "oom_kill");
}

} // namespace larder::test
