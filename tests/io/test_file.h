// test_file.h — a file on disk with the contents of SimReader's files, aligned memory to read it into, and functions
// that look at its page cache.
#pragma once

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "io/io.h"
#include "support/sim_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace larder::test {

// Bytes of the file in the page cache.
inline uint64_t cached_bytes_of(const std::string &path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const uint64_t bytes = std::filesystem::file_size(path);
    void *mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
    const int failed = ::mincore(mapping, bytes, pages.data());
    ::munmap(mapping, bytes);
    EXPECT_EQ(failed, 0);
    return page_bytes *
           static_cast<uint64_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

class TestFile {
  public:
    // Creates a file with the contents SimReader::byte_at(number, ...). None of it is in the page cache.
    explicit TestFile(uint64_t bytes, uint32_t number = 0,
                      const std::filesystem::path &folder = std::filesystem::temp_directory_path())
        : path_((folder / "larder_io_XXXXXX").string()), bytes_(bytes) {
        fd_ = UniqueFd(::mkstemp(path_.data()));
        std::vector<char> data(bytes);
        SimReader::fill(number, 0, data.data(), bytes);
        if (!fd_.valid() || ::write(fd_.get(), data.data(), bytes) != static_cast<ssize_t>(bytes)) {
            throw std::runtime_error("cannot write " + path_);
        }
        drop_cache();
    }
    ~TestFile() { ::unlink(path_.c_str()); }
    TestFile(const TestFile &) = delete;
    TestFile &operator=(const TestFile &) = delete;

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    void truncate(uint64_t bytes) const { ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0); }

    void drop_cache() const {
        ::fsync(fd_.get());
        ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    [[nodiscard]] uint64_t cached_bytes() const { return cached_bytes_of(path_); }
    // Whether the file system is in RAM, where pages are never dropped.
    [[nodiscard]] bool in_memory() const {
        struct statfs info = {};
        return ::fstatfs(fd_.get(), &info) == 0 && info.f_type == 0x01021994; // TMPFS_MAGIC
    }
    [[nodiscard]] bool takes_direct_reads() const {
        return UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)).valid();
    }

  private:
    std::string path_;
    uint64_t bytes_;
    UniqueFd fd_;
};

// Aligned memory, filled with a byte that no test expects.
class Memory {
  public:
    explicit Memory(uint64_t bytes)
        : data_(static_cast<char *>(std::aligned_alloc(direct_io_alignment, align_up(bytes, direct_io_alignment))),
                std::free) {
        std::memset(data_.get(), SimReader::unread_byte, bytes);
    }
    [[nodiscard]] char *at(uint64_t offset) const { return data_.get() + offset; }

  private:
    std::unique_ptr<char, void (*)(void *)> data_;
};

// Time-outs of poll().
inline constexpr std::chrono::milliseconds at_once{0};
inline constexpr std::chrono::milliseconds for_ever = std::chrono::milliseconds::max();

// Polls until nothing is in flight, with at most `n` results per call.
inline std::vector<ReadResult> poll_all(Reader &reader, size_t n = 16) {
    std::vector<ReadResult> all;
    std::vector<ReadResult> some(n);
    while (reader.in_flight() > 0) {
        const size_t count = reader.poll(some, for_ever);
        all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return all;
}

// Submits one request and waits for it.
inline ReadResult read_one(Reader &reader, const ReadRequest &request) {
    reader.submit({&request, 1});
    const std::vector<ReadResult> results = poll_all(reader);
    EXPECT_EQ(results.size(), 1U);
    return results.empty() ? ReadResult{} : results.front();
}

} // namespace larder::test
