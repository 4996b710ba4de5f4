// file_mapping.h — maps a model's files, and drops parts of them from memory (private to pager).
#pragma once

#include "base/unique_fd.h"
#include "lab/pager/pager.h"
#include "layout/layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

class FileMapping {
  public:
    // Throws Error(io). The files must not become shorter while the object exists: reading beyond their end kills the
    // process.
    explicit FileMapping(const std::vector<std::string> &paths);
    ~FileMapping();
    FileMapping(const FileMapping &) = delete;
    FileMapping &operator=(const FileMapping &) = delete;

    [[nodiscard]] const char *address_of(const Extent &extent) const;
    [[nodiscard]] uint64_t bytes() const;

    // Drops the whole pages inside `extent`, whose reader uses the address `data`. Returns their bytes. Throws
    // Error(engine), and drops nothing, if `data` is not the address of the extent in this mapping; Error(io) if the
    // kernel refuses.
    uint64_t drop(const Extent &extent, const void *data, PageEvict how) const;

  private:
    struct File {
        std::string path;
        UniqueFd fd;
        char *begin = nullptr; // null: empty, or not mapped yet
        uint64_t bytes = 0;
    };
    void unmap();

    std::vector<File> files_;
    uint64_t page_bytes_;
};

} // namespace larder
