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
    // One inside another, without a limit of its own; not made if that is not. Only groups without groups inside may
    // have processes.
    Cgroup(const Cgroup &parent, const std::string &name);
    ~Cgroup();
    Cgroup(const Cgroup &) = delete;
    Cgroup &operator=(const Cgroup &) = delete;

    [[nodiscard]] bool made() const { return !path_.empty(); }
    [[nodiscard]] const std::string &why() const { return why_; }
    [[nodiscard]] std::string procs() const { return (path_ / "cgroup.procs").string(); }
    [[nodiscard]] std::string name() const { return path_.filename().string(); }

    // Lowers the limit as far as what is in use lets it, and further as that falls, as a careful administrator does.
    // False if it is not there after a minute.
    bool lower_limit(uint64_t limit_bytes) const;
    bool raise_limit(uint64_t limit_bytes) const;
    [[nodiscard]] uint64_t limit_bytes() const;
    [[nodiscard]] uint64_t used_bytes() const;
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
