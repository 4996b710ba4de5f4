#include "lab/pager/file_mapping.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace larder {

FileMapping::FileMapping(const std::vector<std::string> &paths)
    : page_bytes_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))) {
    try {
        for (const std::string &path : paths) {
            files_.push_back({path, UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), nullptr, 0});
            File &file = files_.back();
            struct stat status = {};
            if (!file.fd.valid() || ::fstat(file.fd.get(), &status) != 0) {
                throw Error::from_errno(errno, "cannot open " + path, "check the path and its permissions");
            }
            file.bytes = static_cast<uint64_t>(status.st_size);
            // No MAP_POPULATE and no madvise(): the kernel reads the pages that are touched, with its usual read-ahead.
            void *begin =
                file.bytes == 0 ? nullptr : ::mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, file.fd.get(), 0);
            if (begin == MAP_FAILED) {
                throw Error::from_errno(errno, "cannot map " + path, "raise 'ulimit -v', or use --residency arena");
            }
            file.begin = static_cast<char *>(begin);
        }
    } catch (...) {
        unmap();
        throw;
    }
}

FileMapping::~FileMapping() { unmap(); }

void FileMapping::unmap() {
    for (const File &file : files_) {
        if (file.begin != nullptr) {
            ::munmap(file.begin, file.bytes);
        }
    }
}

const char *FileMapping::address_of(const Extent &extent) const {
    const File &file = files_[extent.file];
    // open_layout() refuses tensors beyond the end of their file.
    LARDER_CHECK(extent.offset <= file.bytes && extent.bytes <= file.bytes - extent.offset);
    return file.begin + extent.offset;
}

uint64_t FileMapping::bytes() const {
    uint64_t sum = 0;
    for (const File &file : files_) {
        sum += file.bytes;
    }
    return sum;
}

uint64_t FileMapping::drop(const Extent &extent, const void *data, PageEvict how) const {
    const File &file = files_[extent.file];
    if (data != address_of(extent)) {
        throw Error(ErrorKind::engine,
                    fmt::format("weights of {} at offset {} are not read from the mapping of the file: dropped, they "
                                "would come back as zeros",
                                file.path, extent.offset),
                    "use --kernels plain or mixed, or --residency arena");
    }
    const uint64_t begin = align_up(extent.offset, page_bytes_);
    const uint64_t end = align_down(extent.offset + extent.bytes, page_bytes_);
    if (begin >= end || how == PageEvict::none) {
        return 0;
    }
    // The process's mapping first: the page cache keeps mapped pages.
    if (how != PageEvict::fadvise && ::madvise(file.begin + begin, end - begin, MADV_DONTNEED) != 0) {
        throw Error::from_errno(errno, fmt::format("{}: cannot drop pages of the mapping", file.path),
                                "use --page-evict fadvise or none, or --residency arena");
    }
    if (how != PageEvict::madvise) {
        const int error = ::posix_fadvise(file.fd.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                                          POSIX_FADV_DONTNEED);
        if (error != 0) {
            throw Error::from_errno(error, fmt::format("{}: cannot drop pages of the page cache", file.path),
                                    "use --page-evict madvise or none, or --residency arena");
        }
    }
    return end - begin;
}

} // namespace larder
