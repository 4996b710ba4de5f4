// cgroups.h — the control groups that this process is in, and their memory limits.
//
// Units: bytes. Threads: any. `root` stands before /proc and /sys, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

enum class CgroupVersion { v1, v2 };

struct Cgroup {
    std::string path;      // as the user knows it: "/user.slice/larder"
    std::string directory; // where its files are
    CgroupVersion version = CgroupVersion::v2;
};

// The group of this process that has this version-1 controller ("memory", "cpu"), or its
// version-2 group, after all ancestors that can be seen, outermost first: of equal limits the one that was set comes
// before those that repeat it. Empty where that version is not mounted.
std::vector<Cgroup> cgroups_v1(const std::string &root, std::string_view controller);
std::vector<Cgroup> cgroups_v2(const std::string &root);
// Both.
std::vector<Cgroup> memory_cgroups(const std::string &root);

// What limits the memory of a group: the file's name and its value, only those that are set.
struct CgroupLimit {
    const char *file = "";
    uint64_t bytes = 0;
};
std::vector<CgroupLimit> memory_limits(const Cgroup &group);

// The path of the file with the memory in use.
std::string memory_usage_path(const Cgroup &group);

// Whether process `pid` is in this group or in one below it.
bool is_member(const std::string &root, uint64_t pid, const Cgroup &group);

} // namespace larder
