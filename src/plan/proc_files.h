// proc_files.h — the small text files of /proc and /sys that say what memory there is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace larder {

// A file of lines "key value" or "key: value unit" with whole numbers; other lines are passed over. Empty if the file
// cannot be read.
class KeyedFile {
  public:
    explicit KeyedFile(const std::string &path);
    [[nodiscard]] std::optional<uint64_t> find(const std::string &key) const;

  private:
    std::map<std::string, uint64_t> values_;
};

// The one number in a file; none if there is no file or it says something else ("max").
std::optional<uint64_t> read_number(const std::string &path);

enum class CgroupVersion { v1, v2 };

struct Cgroup {
    std::string path;      // as the user knows it: "/user.slice/larder"
    std::string directory; // where its files are
};

// The cgroup of this process that accounts memory, after all of its ancestors that can be seen, outermost first: so
// that of equal limits the one that was set wins over those that repeat it. Empty where that version is not mounted.
std::vector<Cgroup> memory_cgroups(const std::string &root, CgroupVersion version);

} // namespace larder
