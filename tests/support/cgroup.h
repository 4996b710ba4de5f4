// cgroup.h — a cgroup with a memory limit and without swap; removed by the destructor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace larder::test {

class Cgroup {
  public:
    // Uses cgroup v1 or v2, whichever has a writable memory controller. If there is none, made() is false and why()
    // returns the reason.
    explicit Cgroup(uint64_t limit_bytes);
    // A cgroup inside another one, without a limit of its own. Not made if `parent` is not made. Only groups without
    // child groups may have processes.
    Cgroup(const Cgroup &parent, const std::string &name);
    ~Cgroup();
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    [[nodiscard]] bool made() const { return !path_.empty(); }
    [[nodiscard]] const std::string &why() const { return why_; }
    [[nodiscard]] std::string procs() const { return (path_ / "cgroup.procs").string(); }
    [[nodiscard]] std::string name() const { return path_.filename().string(); }

    // Lowers the limit as far as the memory in use allows, and further as the usage falls. False if the limit is not
    // reached within a minute.
    bool lower_limit(uint64_t limit_bytes) const;
    bool raise_limit(uint64_t limit_bytes) const;
    [[nodiscard]] uint64_t limit_bytes() const;
    [[nodiscard]] uint64_t used_bytes() const;
    // The kernel's peak of all charged memory: RSS, page cache, page tables.
    [[nodiscard]] uint64_t peak_bytes() const;
    // The number of processes that the kernel has killed in the group.
    [[nodiscard]] uint64_t kills() const;

  private:
    bool make(const std::filesystem::path &parent, const std::string &limit_file, const std::string &swap_file,
              uint64_t limit_bytes, uint64_t swap_value);

    std::filesystem::path path_;
    bool v2_ = false;
    std::string why_;
};

} // namespace larder::test
