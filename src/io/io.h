// io.h — asynchronous reads of files into caller's memory. Knows files and bytes, not experts.
//
// A Reader holds the files open and reads windows of them, many at a time. submit() hands over a batch; poll() returns
// what has finished, in any order. Completions are polled, never pushed: nothing calls back.
//
// Two real backends: io_uring, and a pool of threads with pread() where the kernel refuses io_uring. With direct I/O
// (O_DIRECT) the page cache is neither used nor filled; offset, length and memory of a request must then be multiples
// of read_alignment. Without it every read is followed by POSIX_FADV_DONTNEED. Which of both is in use is never silent:
// info() says it, with the reason where it is not the first choice.
//
// Threads: submit() and poll() from one thread at a time (the caller locks). Memory of a request must stay until its
// result was polled; the destructor waits for requests in flight.
// Errors: a failed request is a ReadResult, not an exception. Opening throws Error(io).
#pragma once

#include "base/file_identity.h"
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace larder {

// What direct I/O wants of offset, length and memory. The block of every disk in use divides it.
inline constexpr uint64_t read_alignment = 4096;

struct ReadRequest {
    uint32_t file = 0;         // index into the paths given to open_reader
    uint64_t offset = 0;       // bytes from the start of the file
    char *into = nullptr;      // `bytes` bytes of memory
    uint64_t bytes = 0;        // whole window
    uint64_t bytes_needed = 0; // success means at least so many arrived; a window may reach past the end of the file
    uint64_t tag = 0;          // comes back in the result
};

struct ReadResult {
    uint64_t tag = 0;
    int error = 0; // 0: at least bytes_needed are there. An errno value otherwise; ENODATA: the file ended before
    uint64_t bytes_read = 0;
};

enum class IoBackend { automatic, uring, pread };
enum class DirectIo { automatic, required, off };

inline constexpr uint32_t default_read_depth = 64;

struct ReaderOptions {
    IoBackend backend = IoBackend::automatic;
    DirectIo direct = DirectIo::automatic;
    uint32_t depth = 0; // requests under way in the kernel at once; more may be submitted, they queue. 0: the default
};

struct ReaderInfo {
    std::string backend; // "io_uring" or "pread"
    bool direct_io = false;
    std::string notice; // empty, or one line: what fell back and why
};

class Reader {
  public:
    virtual ~Reader() = default;
    // Takes all requests. Does not block on the disk; uses one system call a batch where the backend can.
    virtual void submit(std::span<const ReadRequest> requests) = 0;
    // Moves up to results.size() finished requests into `results` and returns how many. 0 ms does not wait; otherwise
    // blocks until at least one request has finished, `at_most` has passed, or wake() was called. Returns 0 after a
    // time-out or a wake, and at once when nothing is in flight. milliseconds::max() is no time-out. Short and
    // interrupted reads are continued inside.
    virtual size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) = 0;
    // Makes a poll() that waits return, or the next one that would wait. Several calls may count as one. Any thread.
    virtual void wake() noexcept = 0;
    // Requests submitted whose results have not been polled.
    [[nodiscard]] virtual size_t in_flight() const = 0;
    [[nodiscard]] virtual FileIdentity identity(uint32_t) const { return {}; }
    [[nodiscard]] virtual const ReaderInfo &info() const = 0;
};

// Opens `paths` for reading. Throws Error(io) if one cannot be opened, or if a required mode cannot be had.
std::unique_ptr<Reader> open_reader(const std::vector<std::string> &paths, const ReaderOptions &options);

} // namespace larder
