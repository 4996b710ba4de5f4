#include "plan/proc_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace larder {

namespace {

std::optional<uint64_t> to_number(const std::string &text) {
    uint64_t number = 0;
    const char *const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, number);
    if (code != std::errc() || stopped != end) {
        return std::nullopt;
    }
    return number;
}

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) {
        parts.push_back(part);
    }
    return parts;
}

bool contains(const std::vector<std::string> &list, const std::string &item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

// mountinfo writes space, tab, newline and backslash as "\" and three octal digits.
std::string unescape(const std::string &text) {
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
    std::string point; // where
};

// Lines of mountinfo: id parent device root point options [optional fields] - type source options-of-the-hierarchy
std::optional<Mount> find_mount(const std::string &root, CgroupVersion version) {
    std::ifstream file(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        const std::vector<std::string> fields = split(line, ' ');
        const auto dash = std::find(fields.begin(), fields.end(), "-");
        if (dash - fields.begin() < 5 || fields.end() - dash < 4) {
            continue;
        }
        const bool found = version == CgroupVersion::v2
                               ? dash[1] == "cgroup2"
                               : dash[1] == "cgroup" && contains(split(dash[3], ','), "memory");
        if (found) {
            return Mount{unescape(fields[3]), unescape(fields[4])};
        }
    }
    return std::nullopt;
}

// Lines of /proc/self/cgroup: id:controllers:path. Version 2 has id 0 and no controllers.
std::optional<std::string> find_path(const std::string &root, CgroupVersion version) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool found =
            version == CgroupVersion::v2 ? line.substr(0, second) == "0:" : contains(split(controllers, ','), "memory");
        if (found) {
            return line.substr(second + 1);
        }
    }
    return std::nullopt;
}

// The part of `path` below what is mounted: "" or "/a/b". A container may see its own cgroup as the mount's root, and a
// path outside of that (or one with ".." from another namespace) leads nowhere: then the mount itself is all there is.
std::string below(const std::string &mount_root, const std::string &path) {
    const std::string prefix = mount_root == "/" ? "" : mount_root;
    const bool inside = path.compare(0, prefix.size(), prefix) == 0 &&
                        (path.size() == prefix.size() || path[prefix.size()] == '/') &&
                        path.find("/..") == std::string::npos;
    const std::string rest = inside ? path.substr(prefix.size()) : "";
    return rest == "/" ? "" : rest;
}

} // namespace

KeyedFile::KeyedFile(const std::string &path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string key;
        std::string value;
        words >> key >> value;
        if (!key.empty() && key.back() == ':') {
            key.pop_back();
        }
        if (const auto number = to_number(value)) {
            values_[key] = *number;
        }
    }
}

std::optional<uint64_t> KeyedFile::find(const std::string &key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> read_number(const std::string &path) {
    std::ifstream file(path);
    std::string word;
    file >> word;
    return to_number(word);
}

std::vector<Cgroup> memory_cgroups(const std::string &root, CgroupVersion version) {
    const auto mount = find_mount(root, version);
    const auto path = find_path(root, version);
    if (!mount || !path) {
        return {};
    }
    const std::string rest = below(mount->root, *path);
    const std::string top = mount->root == "/" ? "" : mount->root;
    std::vector<Cgroup> groups;
    const auto add = [&](const std::string &part) {
        const std::string name = top + part;
        groups.push_back({name.empty() ? "/" : name, root + mount->point + part});
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

} // namespace larder
