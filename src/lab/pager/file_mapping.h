// file_mapping.h — a model's files in the address space, and parts of them dropped from memory (private to pager).
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
    // Throws Error(io). The files must not become shorter while this lives: who reads behind their end is killed.
    explicit FileMapping(const std::vector<std::string> &paths);
    ~FileMapping();
    FileMapping(const FileMapping &) = delete;
    FileMapping &operator=(const FileMapping &) = delete;

    [[nodiscard]] const char *address_of(const Extent &extent) const;
    [[nodiscard]] uint64_t bytes() const;

    // Drops the whole pages inside `extent`, which somebody reads at `data`. Returns their bytes. Throws Error(engine),
    // and has dropped nothing, if `data` is not where this mapping has the extent; Error(io) if the kernel refuses.
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
