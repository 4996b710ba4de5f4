// cgroup.h — a cgroup with a memory limit and no swap, made for a test and removed after it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace larder::test {

class Cgroup {
  public:
    // Cgroup v1 or v2, whichever has a writable memory controller. made() is false where there is none, and why() says
    // so.
    explicit Cgroup(uint64_t limit_bytes);
    ~Cgroup();
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    [[nodiscard]] bool made() const { return !path_.empty(); }
    [[nodiscard]] const std::string &why() const { return why_; }
    [[nodiscard]] std::string procs() const { return (path_ / "cgroup.procs").string(); }
    // The kernel's own high-water mark of everything charged: RSS, page cache, page tables.
    [[nodiscard]] uint64_t peak_bytes() const;
    // How often the kernel killed something in it.
    [[nodiscard]] uint64_t kills() const;

  private:
    bool make(const std::filesystem::path &parent, const std::string &limit_file, const std::string &swap_file,
              uint64_t limit_bytes, uint64_t swap_value);

    std::filesystem::path path_;
    bool v2_ = false;
    std::string why_;
};

} // namespace larder::test
