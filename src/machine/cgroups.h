// cgroups.h — the cgroups of this process and their memory limits.
//
// Units: bytes. Threads: any. `root` is prepended to /proc and /sys, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

enum class CgroupVersion { v1, v2 };

struct Cgroup {
    std::string path;      // as shown to the user: "/user.slice/larder"
    std::string directory; // where its control files are
    CgroupVersion version = CgroupVersion::v2;
};

// The version-1 cgroup of this process for this controller ("memory", "cpu"), or its version-2 cgroup, preceded by all
// visible ancestors, outermost first. Of several groups with the same limit, the outermost is named, because the others
// only inherit it. Empty if that version is not mounted.
std::vector<Cgroup> cgroups_v1(const std::string &root, std::string_view controller);
std::vector<Cgroup> cgroups_v2(const std::string &root);
// The groups of both versions.
std::vector<Cgroup> memory_cgroups(const std::string &root);

// One memory limit of a group: the name of its control file and its value. Only limits that are set are returned.
struct CgroupLimit {
    const char *file = "";
    uint64_t bytes = 0;
};
std::vector<CgroupLimit> memory_limits(const Cgroup &group);

// The path of the control file that reports the group's memory usage.
std::string memory_usage_path(const Cgroup &group);

// Whether process `pid` is in this group or in a descendant of it.
bool is_member(const std::string &root, uint64_t pid, const Cgroup &group);

} // namespace larder
