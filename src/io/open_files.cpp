#include "io/open_files.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "io/direct_check.h"
#include "io/file_system.h"
#include "io/page_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <limits>
#include <system_error>

namespace larder {

namespace {

constexpr const char *another_file_system =
    "keep the model uncompressed on a disk's file system such as ext4 or xfs, or allow buffered reads";

// Opening a pipe would block. Opening a directory would look like a file system without direct I/O.
void check_is_file(const std::string &path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        throw cannot_open(path, errno);
    }
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
        throw Error(ErrorKind::io, path + " is not a file", "check the path");
    }
}

UniqueFd open_retrying(const std::string &path, int flags) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    UniqueFd opened(fd);
    if (opened.valid()) {
        // Reads are large and in an order that read-ahead cannot predict. Also set with O_DIRECT, which may be a
        // buffered read in fact. Failure is harmless.
        (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    }
    return opened;
}

UniqueFd open_buffered(const std::string &path) {
    UniqueFd fd = open_retrying(path, 0);
    if (!fd.valid()) {
        throw cannot_open(path, errno);
    }
    return fd;
}

// The errno value of a read of the first block; 0 if it succeeds.
int read_first_block(int fd) {
    alignas(direct_io_alignment) std::array<char, direct_io_alignment> block;
    ssize_t returned = 0;
    do {
        returned = ::pread(fd, block.data(), block.size(), 0);
    } while (returned < 0 && errno == EINTR);
    return returned < 0 ? errno : 0;
}

// Opens `path` with O_DIRECT. Returns an invalid descriptor with errno set if the file system refuses O_DIRECT; it may
// do so at open() or at the first read.
UniqueFd open_direct(const std::string &path) {
    UniqueFd fd = open_retrying(path, O_DIRECT);
    const int error = fd.valid() ? read_first_block(fd.get()) : errno;
    if (error == 0) {
        return fd;
    }
    if (error != EINVAL && error != EOPNOTSUPP) {
        throw fd.valid() ? Error::from_errno(error, "cannot read " + path, "check the disk (dmesg)")
                         : cannot_open(path, error);
    }
    fd = UniqueFd();
    errno = error;
    return fd;
}

uint64_t size_of(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return std::numeric_limits<uint64_t>::max();
    }
    // st_size is 0 for a block device.
    const off_t bytes = S_ISBLK(status.st_mode) ? ::lseek(fd, 0, SEEK_END) : status.st_size;
    return bytes >= 0 ? static_cast<uint64_t>(bytes) : std::numeric_limits<uint64_t>::max();
}

// Text that explains why reads do not bypass the page cache. Empty if they do, as far as the kernel reports.
using Obstacle = std::string;

// Opens all files with O_DIRECT, or none if the file system of one refuses it.
Obstacle open_all_direct(OpenFiles &files, const std::vector<std::string> &paths) {
    for (const std::string &path : paths) {
        UniqueFd fd = open_direct(path);
        if (!fd.valid()) {
            const std::string cause = std::generic_category().message(errno);
            files.fds.clear();
            return fmt::format("{}: the file system refuses direct I/O (O_DIRECT: {})", path, cause);
        }
        files.fds.push_back(std::move(fd));
    }
    files.o_direct = true;
    return {};
}

Obstacle find_in_memory(const OpenFiles &files, const std::vector<std::string> &paths) {
    const auto found = std::ranges::find_if(files.fds, lies_in_memory, &UniqueFd::get);
    return found == files.fds.end() ? Obstacle()
                                    : paths[static_cast<size_t>(found - files.fds.begin())] +
                                          " lies in memory (tmpfs): the file itself takes RAM outside of the budget";
}

// Tests reads with O_DIRECT. Sets `certain` to false if the kernel gives no answer for a file.
Obstacle find_cached(const OpenFiles &files, const std::vector<std::string> &paths, bool &certain) {
    for (size_t i = 0; i < paths.size(); i++) {
        const int fd = files.fds[i].get();
        if (reads_through_arc(fd)) {
            return paths[i] +
                   ": this ZFS accepts direct I/O (O_DIRECT), but reads through its cache (ARC), which takes "
                   "RAM outside of the budget";
        }
        const CacheUse use = cache_use_of_direct_reads(block_access(fd), size_of(fd));
        if (use == CacheUse::filled) {
            return paths[i] + ": the file system accepts direct I/O (O_DIRECT), but reads through the page cache";
        }
        certain = certain && use == CacheUse::bypassed;
    }
    return {};
}

} // namespace

void OpenFiles::check(const ReadRequest &request) const {
    LARDER_CHECK(request.file < fds.size());
    LARDER_CHECK(request.into != nullptr);
    LARDER_CHECK(request.bytes_needed <= request.bytes);
    if (o_direct) {
        LARDER_CHECK(request.offset % direct_io_alignment == 0);
        LARDER_CHECK(request.bytes % direct_io_alignment == 0);
        LARDER_CHECK(reinterpret_cast<uintptr_t>(request.into) % direct_io_alignment == 0);
    }
}

void OpenFiles::drop_behind(const ReadRequest &request) const {
    if (drops_behind) { // the kernel drops whole pages only
        const uint64_t begin = align_down(request.offset, direct_io_alignment);
        drop_cached(fds[request.file].get(), begin,
                    align_up(request.offset + request.bytes, direct_io_alignment) + drops_past - begin);
    }
}

uint64_t OpenFiles::bytes_now(uint32_t file) const { return size_of(fds[file].get()); }

FileIdentity OpenFiles::identity(uint32_t file) const {
    LARDER_CHECK(file < fds.size());
    return identity_of(fds[file].get()).value_or(FileIdentity{});
}

OpenFiles open_files(const std::vector<std::string> &paths, DirectIo direct) {
    std::ranges::for_each(paths, check_is_file);
    OpenFiles files;
    Obstacle obstacle;
    if (direct != DirectIo::off) {
        obstacle = open_all_direct(files, paths);
    }
    if (!files.o_direct) {
        std::ranges::transform(paths, std::back_inserter(files.fds), open_buffered);
    }
    const Obstacle in_memory = find_in_memory(files, paths);
    bool certain = true;
    if (files.o_direct && in_memory.empty()) {
        obstacle = find_cached(files, paths, certain);
    }
    if (direct == DirectIo::required && !(obstacle.empty() && in_memory.empty())) {
        throw Error(ErrorKind::io, in_memory.empty() ? obstacle : in_memory, another_file_system);
    }
    files.in_memory = !in_memory.empty();
    files.bypasses_cache = files.o_direct && obstacle.empty() && in_memory.empty();
    // Pages of files in memory cannot be dropped.
    files.drops_behind =
        !(files.bypasses_cache && certain) && !std::ranges::all_of(files.fds, lies_in_memory, &UniqueFd::get);
    for (const UniqueFd &fd : files.fds) {
        files.drops_past = std::max(files.drops_past, cached_past_reads(fd.get()));
    }
    files.notice = in_memory;
    if (!obstacle.empty()) {
        files.notice += (in_memory.empty() ? "" : "; ") + obstacle +
                        (files.drops_behind ? "; pages are dropped from the cache behind each read" : "");
    }
    return files;
}

} // namespace larder
