// fake_root.h — a folder with files for /proc and /sys that a test writes.
#pragma once

#include "base/bytes.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace larder::test {

// A machine with 64 GiB available. The process holds 512 MiB, of which 500 MiB are anonymous.
class FakeRoot {
  public:
    FakeRoot() : path_((std::filesystem::temp_directory_path() / "larder_root_XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) {
            throw std::runtime_error("cannot make a folder for the test");
        }
        write("/proc/meminfo", "MemTotal:       100000000 kB\nMemAvailable:   67108864 kB\n");
        holds(512 * MiB, 12 * MiB);
    }
    ~FakeRoot() { std::filesystem::remove_all(path_); }
    FakeRoot(const FakeRoot &) = delete;
    FakeRoot &operator=(const FakeRoot &) = delete;

    // Replaces the file atomically, so that a concurrent reader gets the old or the new text.
    void write(const std::string &name, const std::string &text) const {
        const std::filesystem::path file = path_ + name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file.string() + ".new") << text;
        std::filesystem::rename(file.string() + ".new", file);
    }
    void holds(uint64_t rss, uint64_t of_files) const {
        write("/proc/self/status", fmt::format("VmRSS:\t{} kB\nRssAnon:\t{} kB\nRssFile:\t{} kB\nRssShmem:\t0 kB\n",
                                               rss / KiB, (rss - of_files) / KiB, of_files / KiB));
    }
    void join_v1(const std::string &group) const {
        write("/proc/self/cgroup", "4:memory:" + group + "\n0::/\n");
        write("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    }
    void join_v2(const std::string &group) const {
        write("/proc/self/cgroup", "0::" + group + "\n");
        write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    }
    void limit_v1(const std::string &group, uint64_t limit, uint64_t used, uint64_t failures = 0) const {
        const std::string folder = "/sys/fs/cgroup/memory" + group;
        write(folder + "/memory.limit_in_bytes", fmt::format("{}\n", limit));
        write(folder + "/memory.usage_in_bytes", fmt::format("{}\n", used));
        write(folder + "/memory.failcnt", fmt::format("{}\n", failures));
    }
    void limit_v2(const std::string &group, uint64_t limit, uint64_t used, uint64_t failures = 0) const {
        const std::string folder = "/sys/fs/cgroup" + group;
        write(folder + "/memory.max", fmt::format("{}\n", limit));
        write(folder + "/memory.current", fmt::format("{}\n", used));
        write(folder + "/memory.events",
              fmt::format("low 3\nhigh 20\nmax {}\noom 1\noom_kill 1\noom_group_kill 0\n", failures));
    }
    void stalls(const std::string &file, double percent) const {
        write(file, fmt::format("some avg10={:.2f} avg60=77.00 avg300=0.00 total=1\n"
                                "full avg10=88.00 avg60=0.00 avg300=0.00 total=1\n",
                                percent));
    }
    [[nodiscard]] const std::string &path() const { return path_; }

  private:
    std::string path_;
};

} // namespace larder::test
