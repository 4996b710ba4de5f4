#include "layout/metadata_source.h"

#include "base/bytes.h"
#include "layout/refusal.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace larder {

MetadataSource::MetadataSource(const std::string &path) : path_(path), buffer_(256 * KiB) {
    // Without O_NONBLOCK, open() would block on a pipe without a writer.
    fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status = {};
    const auto identity = fd_.valid() && ::fstat(fd_.get(), &status) == 0 ? identity_of(fd_.get()) : std::nullopt;
    if (!identity) {
        throw cannot_open(path, errno);
    }
    if (S_ISDIR(status.st_mode)) {
        throw refusal(path, "is a directory", "give the .gguf file in it");
    }
    if (!S_ISREG(status.st_mode)) {
        throw refusal(path, "is not a regular file", "give a .gguf file");
    }
    if (identity->bytes == 0) {
        throw refusal(path, "is empty", "download it again");
    }
    identity_ = *identity;
}

size_t MetadataSource::read(void *output, uint64_t offset, size_t length) {
    size_t done = 0;
    while (done < length) {
        const uint64_t at = offset + done;
        if ((at < buffer_offset_ || at >= buffer_offset_ + buffer_filled_) && !fill(at)) {
            break;
        }
        const auto skip = static_cast<size_t>(at - buffer_offset_);
        const size_t part = std::min(length - done, buffer_filled_ - skip);
        std::memcpy(static_cast<char *>(output) + done, buffer_.data() + skip, part);
        done += part;
    }
    return done;
}

bool MetadataSource::fill(uint64_t offset) {
    buffer_offset_ = offset;
    buffer_filled_ = 0;
    ssize_t got = 0;
    do {
        got = ::pread(fd_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        read_errno_ = errno;
        return false;
    }
    buffer_filled_ = static_cast<size_t>(got);
    return got > 0;
}

void MetadataSource::check_unchanged() const {
    const std::optional<FileIdentity> now = identity_of(fd_.get());
    if (!now) {
        throw Error::from_errno(errno, fmt::format("cannot read {}", path_));
    }
    if (*now != identity_) {
        throw Error(ErrorKind::io, fmt::format("{}: changed while its metadata was read", path_),
                    "wait until it is complete, then try again");
    }
}

} // namespace larder
