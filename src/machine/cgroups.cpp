#include "machine/cgroups.h"

#include "machine/proc_files.h"

#include <algorithm>

namespace larder {

namespace {

// Version 1 writes "no limit" as the largest multiple of a page below 2^63, version 2 as "max". No machine has an
// exbibyte of memory.
constexpr uint64_t unlimited_bytes = uint64_t{1} << 60;

bool lists(std::string_view comma_separated, std::string_view item) {
    while (!comma_separated.empty()) {
        const std::string_view part = comma_separated.substr(0, comma_separated.find(','));
        if (part == item) {
            return true;
        }
        comma_separated.remove_prefix(std::min(comma_separated.size(), part.size() + 1));
    }
    return false;
}

// mountinfo writes space, tab, newline and backslash as "\" and three octal digits.
std::string unescape(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); i++) {
        const auto is_octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
        if (text[i] == '\\' && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
            plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

struct Mount {
    std::string root;  // the path inside the cgroup hierarchy that is mounted
    std::string point; // the mount point
};

// Fields of a mountinfo line: id, parent, device, root, mount point, options, [optional fields], "-", type, source,
// options of the hierarchy. An empty `controller` selects version 2.
std::optional<Mount> find_mount(const std::string &root, std::string_view controller) {
    const std::string text = read_text(root + "/proc/self/mountinfo");
    std::optional<Mount> mount;
    for_each_line(text, [&](std::string_view line) {
        const std::vector<std::string_view> fields = words_of(line);
        const auto dash = std::ranges::find(fields, "-");
        if (mount || dash - fields.begin() < 5 || fields.end() - dash < 4) {
            return;
        }
        if (controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && lists(dash[3], controller)) {
            mount = Mount{unescape(fields[3]), unescape(fields[4])};
        }
    });
    return mount;
}

// Format of a line of /proc/PID/cgroup: id:controllers:path. Version 2 has id 0 and no controllers.
std::optional<std::string> find_path(const std::string &root, const std::string &pid, std::string_view controller) {
    const std::string text = read_text(root + "/proc/" + pid + "/cgroup");
    std::optional<std::string> path;
    for_each_line(text, [&](std::string_view line) {
        const size_t first = line.find(':');
        const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (path || second == std::string_view::npos) {
            return;
        }
        if (controller.empty() ? line.substr(0, second) == "0:"
                               : lists(line.substr(first + 1, second - first - 1), controller)) {
            path = line.substr(second + 1);
        }
    });
    return path;
}

// The part of `path` below the mounted root: "" or "/a/b". Inside a container the mount's root may be the container's
// own cgroup. A path outside of it, or one with ".." from another namespace, cannot be resolved; then only the mount
// itself is used.
std::string below(const std::string &mount_root, const std::string &path) {
    const std::string prefix = mount_root == "/" ? "" : mount_root;
    const bool inside = path.compare(0, prefix.size(), prefix) == 0 &&
                        (path.size() == prefix.size() || path[prefix.size()] == '/') &&
                        path.find("/..") == std::string::npos;
    const std::string rest = inside ? path.substr(prefix.size()) : "";
    return rest == "/" ? "" : rest;
}

std::vector<Cgroup> cgroups(const std::string &root, std::string_view controller) {
    const auto mount = find_mount(root, controller);
    const auto path = find_path(root, "self", controller);
    if (!mount || !path) {
        return {};
    }
    const CgroupVersion version = controller.empty() ? CgroupVersion::v2 : CgroupVersion::v1;
    const std::string rest = below(mount->root, *path);
    const std::string top = mount->root == "/" ? "" : mount->root;
    std::vector<Cgroup> groups;
    const auto add = [&](const std::string &part) {
        const std::string name = top + part;
        groups.push_back({name.empty() ? "/" : name, root + mount->point + part, version});
    };
    add("");
    for (size_t slash = rest.find('/', 1); slash != std::string::npos; slash = rest.find('/', slash + 1)) {
        add(rest.substr(0, slash));
    }
    if (!rest.empty()) {
        add(rest);
    }
    return groups;
}

} // namespace

std::vector<Cgroup> cgroups_v1(const std::string &root, std::string_view controller) {
    return cgroups(root, controller);
}

std::vector<Cgroup> cgroups_v2(const std::string &root) { return cgroups(root, {}); }

std::vector<Cgroup> memory_cgroups(const std::string &root) {
    std::vector<Cgroup> groups = cgroups_v1(root, "memory");
    for (Cgroup &group : cgroups_v2(root)) {
        groups.push_back(std::move(group));
    }
    return groups;
}

std::vector<CgroupLimit> memory_limits(const Cgroup &group) {
    const std::vector<const char *> files = group.version == CgroupVersion::v1
                                                ? std::vector{"memory.limit_in_bytes"}
                                                : std::vector{"memory.max", "memory.high"};
    std::vector<CgroupLimit> limits;
    for (const char *file : files) {
        const auto bytes = read_number(group.directory + "/" + file);
        if (bytes && *bytes < unlimited_bytes) {
            limits.push_back({file, *bytes});
        }
    }
    return limits;
}

std::string memory_usage_path(const Cgroup &group) {
    return group.directory + (group.version == CgroupVersion::v1 ? "/memory.usage_in_bytes" : "/memory.current");
}

bool is_member(const std::string &root, uint64_t pid, const Cgroup &group) {
    const auto path = find_path(root, std::to_string(pid), group.version == CgroupVersion::v1 ? "memory" : "");
    return path && (group.path == "/" || *path == group.path || path->starts_with(group.path + "/"));
}

} // namespace larder
