#include "support/cgroup.h"

#include "base/bytes.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

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
    if (fs::exists(path / swap_file)) { // absent if the kernel does not account swap
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

Cgroup::Cgroup(const Cgroup &parent, const std::string &name) : v2_(parent.v2_), why_(parent.why_) {
    if (!parent.made()) {
        return;
    }
    if (v2_) {
        std::ofstream(parent.path_ / "cgroup.subtree_control") << "+memory";
    }
    std::error_code error;
    const fs::path path = parent.path_ / name;
    fs::create_directory(path, error);
    if (error || !fs::exists(path / (v2_ ? "memory.max" : "memory.limit_in_bytes"))) {
        why_ = "cannot create " + path.string() + ": " + error.message();
        fs::remove(path, error);
        return;
    }
    if (!v2_) {
        write_value(path / "memory.swappiness", 0);
    }
    path_ = path;
}

// With version 2 the kernel kills if the limit becomes lower than the usage. With version 1 it drops page cache and
// then refuses.
bool Cgroup::lower_limit(uint64_t limit) const {
    constexpr uint64_t slack = 3 * MiB; // for allocations in the meantime
    const std::string file = v2_ ? "memory.max" : "memory.limit_in_bytes";
    if (v2_) {
        write_value(path_ / "memory.high", limit);
    }
    for (int tries = 0; tries < 600; tries++) {
        const uint64_t now = std::max(limit, used_bytes() + slack);
        if (v2_ ? now == limit && write_value(path_ / file, limit) : write_value(path_ / file, limit)) {
            return true;
        }
        if (!v2_ && now < limit_bytes()) {
            write_value(path_ / file, now);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
}

bool Cgroup::raise_limit(uint64_t limit) const {
    if (v2_) {
        std::ofstream(path_ / "memory.high") << "max";
    }
    return write_value(path_ / (v2_ ? "memory.max" : "memory.limit_in_bytes"), limit);
}

uint64_t Cgroup::limit_bytes() const { return read_value(path_ / (v2_ ? "memory.max" : "memory.limit_in_bytes")); }

uint64_t Cgroup::used_bytes() const { return read_value(path_ / (v2_ ? "memory.current" : "memory.usage_in_bytes")); }

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
