#include "io/open_files.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace larder {

namespace {

Error cannot_open(const std::string &path, int error) {
    std::string remedy = "check the path";
    if (error == EACCES || error == EPERM) {
        remedy = "check the file's permissions";
    } else if (error == EMFILE || error == ENFILE) {
        remedy = "raise the limit of open files (ulimit -n)";
    } else if (error == EIO) {
        remedy = "check the disk (dmesg)";
    }
    return Error::from_errno(error, "cannot open " + path, remedy);
}

// Opening a pipe would block and a directory would look like a file system without direct I/O: both are told apart
// here.
void check_is_file(const std::string &path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        throw cannot_open(path, errno);
    }
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
        throw Error(ErrorKind::io, path + " is not a file", "check the path");
    }
}

int open_retrying(const std::string &path, int flags) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

// The errno value of reading the first block, or 0.
int read_first_block(int fd) {
    alignas(read_alignment) std::array<char, read_alignment> block;
    ssize_t returned = 0;
    do {
        returned = ::pread(fd, block.data(), block.size(), 0);
    } while (returned < 0 && errno == EINTR);
    return returned < 0 ? errno : 0;
}

bool refuses_direct(int error) { return error == EINVAL || error == EOPNOTSUPP; }

// Opens `path` with O_DIRECT. An invalid descriptor: the file system does not take it, errno says how it put that.
UniqueFd open_direct(const std::string &path) {
    UniqueFd fd(open_retrying(path, O_DIRECT));
    int error = fd.valid() ? read_first_block(fd.get()) : errno;
    if (error == 0) {
        return fd;
    }
    if (!refuses_direct(error)) {
        throw fd.valid() ? Error::from_errno(error, "cannot read " + path, "check the disk (dmesg)")
                         : cannot_open(path, error);
    }
    fd = UniqueFd();
    errno = error;
    return fd;
}

UniqueFd open_buffered(const std::string &path) {
    UniqueFd fd(open_retrying(path, 0));
    if (!fd.valid()) {
        throw cannot_open(path, errno);
    }
    // Windows are read whole and in no order that read-ahead could guess. Only advice: a failure changes nothing.
    (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
    return fd;
}

} // namespace

void OpenFiles::check(const ReadRequest &request) const {
    LARDER_CHECK(request.file < fds.size());
    LARDER_CHECK(request.into != nullptr);
    LARDER_CHECK(request.bytes_needed <= request.bytes);
    if (direct) {
        LARDER_CHECK(request.offset % read_alignment == 0);
        LARDER_CHECK(request.bytes % read_alignment == 0);
        LARDER_CHECK(reinterpret_cast<uintptr_t>(request.into) % read_alignment == 0);
    }
}

void OpenFiles::drop_cached(const ReadRequest &request) const {
    if (direct) {
        return;
    }
    // The kernel drops whole pages only.
    const uint64_t begin = align_down(request.offset, read_alignment);
    const uint64_t end = align_up(request.offset + request.bytes, read_alignment);
    (void)::posix_fadvise(fds[request.file].get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                          POSIX_FADV_DONTNEED);
}

OpenFiles open_files(const std::vector<std::string> &paths, DirectIo direct) {
    OpenFiles files;
    for (const std::string &path : paths) {
        check_is_file(path);
    }
    if (direct != DirectIo::off) {
        files.direct = true;
        for (const std::string &path : paths) {
            UniqueFd fd = open_direct(path);
            if (fd.valid()) {
                files.fds.push_back(std::move(fd));
                continue;
            }
            const std::string cause =
                path + ": the file system refuses direct I/O (O_DIRECT: " + std::generic_category().message(errno) +
                ")";
            if (direct == DirectIo::required) {
                throw Error(ErrorKind::io, cause,
                            "keep the model on a disk's file system such as ext4 or xfs, or allow buffered reads");
            }
            files.direct = false;
            files.notice = cause + "; reading through the page cache and dropping it behind";
            break;
        }
    }
    if (!files.direct) {
        files.fds.clear();
        for (const std::string &path : paths) {
            files.fds.push_back(open_buffered(path));
        }
    }
    return files;
}

} // namespace larder
