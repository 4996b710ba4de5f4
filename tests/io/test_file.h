// test_file.h — a file on disk whose bytes are SimReader's, aligned memory to read it into, and a view of its page
// cache.
#pragma once

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "io/io.h"
#include "support/sim_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace larder::test {

class TestFile {
  public:
    // Holds what SimReader::byte_at(number, ...) says; nothing of it is left in the page cache.
    explicit TestFile(uint64_t bytes, uint32_t number = 0)
        : path_((std::filesystem::temp_directory_path() / "larder_io_XXXXXX").string()), bytes_(bytes) {
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
    [[nodiscard]] uint64_t cached_bytes() const {
        void *mapping = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_.get(), 0);
        const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
        std::vector<unsigned char> pages((bytes_ + page_bytes - 1) / page_bytes);
        const int failed = ::mincore(mapping, bytes_, pages.data());
        ::munmap(mapping, bytes_);
        EXPECT_EQ(failed, 0);
        return page_bytes * static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(),
                                                                [](unsigned char page) { return (page & 1) != 0; }));
    }

  private:
    std::string path_;
    uint64_t bytes_;
    UniqueFd fd_;
};

// Aligned memory, filled with a byte that no test expects by chance.
class Memory {
  public:
    explicit Memory(uint64_t bytes)
        : data_(static_cast<char *>(std::aligned_alloc(read_alignment, align_up(bytes, read_alignment))), std::free) {
        std::memset(data_.get(), SimReader::unread_byte, bytes);
    }
    [[nodiscard]] char *at(uint64_t offset) const { return data_.get() + offset; }

  private:
    std::unique_ptr<char, void (*)(void *)> data_;
};

// Polls until nothing is in flight, `at_once` results at a time.
inline std::vector<ReadResult> poll_all(Reader &reader, size_t at_once = 16) {
    std::vector<ReadResult> all;
    std::vector<ReadResult> some(at_once);
    while (const size_t count = reader.poll(some, std::chrono::milliseconds::max())) {
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
