#include "cli/probe/target.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace larder {

namespace {

constexpr uint64_t chunk_bytes = MiB;

bool begins_as_gguf(const std::string &path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4> magic{};
    return ::read(fd.get(), magic.data(), magic.size()) == 4 && std::string_view(magic.data(), 4) == "GGUF";
}

uint64_t free_bytes(const std::string &directory) {
    struct statvfs info = {};
    if (::statvfs(directory.c_str(), &info) != 0) {
        throw Error::from_errno(errno, "cannot read the free space of " + directory, "check the path");
    }
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

// Random numbers, which no disk or file system can compress.
void fill(std::vector<uint64_t> &words, uint64_t &state) {
    for (uint64_t &word : words) {
        state += 0x9e3779b97f4a7c15ULL; // SplitMix64
        uint64_t value = state;
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
        value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
        word = value ^ (value >> 31);
    }
}

void write_content(int fd, uint64_t bytes, const std::string &directory) {
    const auto fail = [&directory] {
        return Error::from_errno(errno, "cannot write a temporary file in " + directory,
                                 "free some space, lower --size or name another directory");
    };
    std::vector<uint64_t> words(chunk_bytes / sizeof(uint64_t));
    uint64_t state = 1;
    for (uint64_t done = 0; done < bytes;) {
        fill(words, state);
        const uint64_t wanted = std::min(chunk_bytes, bytes - done);
        const ssize_t n = ::write(fd, words.data(), wanted);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            throw fail();
        }
        done += static_cast<uint64_t>(n);
    }
    if (::fdatasync(fd) != 0) {
        throw fail();
    }
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

UniqueFd nameless_file(const std::string &directory) {
    std::string name = directory + "/.larder-probe-XXXXXX";
    UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd.valid()) {
        throw Error::from_errno(errno, "cannot write a temporary file in " + directory,
                                "name a directory that can be written to");
    }
    ::unlink(name.c_str());
    return fd;
}

void open_directory(ProbeTarget &target, const TemporarySize &size) {
    const uint64_t free = free_bytes(target.name);
    if (size.wanted_bytes < size.least_bytes) {
        throw Error(ErrorKind::usage,
                    fmt::format("--size: a file of {} in {} is too small for a read of {}",
                                format_bytes(size.wanted_bytes), target.name, format_bytes(size.least_bytes)),
                    fmt::format("give {}K or more", size.least_bytes / KiB));
    }
    if (size.demanded && size.wanted_bytes > free) {
        throw Error(ErrorKind::usage,
                    fmt::format("--size: {} is more than the {} that {} has free", format_bytes(size.wanted_bytes),
                                format_bytes(free), target.name),
                    "lower it or name another directory");
    }
    target.bytes = align_down(std::min(size.wanted_bytes, free / 2), direct_io_alignment);
    if (target.bytes < size.least_bytes) {
        throw Error(ErrorKind::io,
                    fmt::format("{} has {} free; half of that is too small for a read of {}", target.name,
                                format_bytes(free), format_bytes(size.least_bytes)),
                    "free some space or name another directory");
    }
    if (target.bytes < align_down(size.wanted_bytes, direct_io_alignment)) {
        target.notices.push_back(fmt::format("{} has little free space: the temporary file has only {}", target.name,
                                             format_bytes(target.bytes)));
    }
    target.temporary = nameless_file(target.name);
    write_content(target.temporary.get(), target.bytes, target.name);
    target.paths = {fmt::format("/proc/self/fd/{}", target.temporary.get())};
}

void open_file(ProbeTarget &target) {
    target.paths = {target.name};
    if (begins_as_gguf(target.name)) {
        try {
            target.layout = open_layout(target.name);
            target.paths = target.layout->files;
        } catch (const Error &error) {
            target.notices.push_back(fmt::format("measured as a plain file, not as a model: {}", error.message()));
        }
    }
    for (const std::string &path : target.paths) {
        struct stat status = {};
        if (::stat(path.c_str(), &status) == 0) {
            target.bytes += static_cast<uint64_t>(status.st_size);
        }
    }
}

} // namespace

std::string with_names(const ProbeTarget &target, std::string text) {
    if (target.temporary.valid()) {
        const std::string &path = target.paths.front();
        const std::string name = "the temporary file in " + target.name;
        for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + name.size())) {
            text.replace(at, path.size(), name);
        }
    }
    return text;
}

ProbeTarget open_probe_target(const std::string &path, const TemporarySize &size) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
        throw cannot_open(path, errno);
    }
    ProbeTarget target;
    target.name = path;
    if (S_ISDIR(status.st_mode)) {
        open_directory(target, size);
    } else if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) {
        open_file(target);
    } else {
        throw Error(ErrorKind::io, path + " is not a file", "name a model, another file or a directory");
    }
    return target;
}

} // namespace larder
