// io.h — asynchronous reads of files into the caller's memory. Knows files and bytes, not experts.
//
// A Reader holds a list of files open. submit() starts a batch of reads, poll() returns those that have finished, in
// any order. There are no callbacks. All memory is allocated when the reader is opened; nothing allocates afterwards.
//
// There are two backends: io_uring, and a pool of threads that call pread() where the kernel refuses io_uring. With
// direct I/O (O_DIRECT) reads bypass the page cache. Offset, length and memory of a request must be multiples of
// direct_io_alignment, unless the reader was opened with DirectIo::off. A file system may accept O_DIRECT and read
// through the page cache all the same: open_reader() reads some blocks of each file to find out. Where pages may stay
// in the cache, each read is followed by POSIX_FADV_DONTNEED. info() says what is in use, and why if it is not the
// first choice.
//
// Threads: submit() and poll() from one thread at a time (the caller locks). wake(), identity() and info() from any
// thread at any time. Memory of a request must stay until its result was polled; the destructor waits for the reads
// that the kernel is at work on, and drops those it has not begun.
// Errors: a failed request is a ReadResult, not an exception. open_reader() throws Error(io).
#pragma once

#include "base/bytes.h"
#include "base/file_identity.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace larder {

struct ReadRequest {
    uint32_t file = 0;         // index into the paths given to open_reader
    uint64_t offset = 0;       // bytes from the start of the file
    char *into = nullptr;      // `bytes` bytes of memory
    uint64_t bytes = 0;        // may reach past the end of the file
    uint64_t bytes_needed = 0; // at most `bytes`; the read succeeds if at least so many arrive
    uint64_t tag = 0;          // returned in the result
};

struct ReadResult {
    uint64_t tag = 0;
    // 0: at least bytes_needed bytes are in memory. Otherwise an errno value. ENODATA: the file is shorter than
    // offset + bytes_needed. EIO also if the file is long enough and the file system does not return its bytes.
    int error = 0;
    uint64_t bytes_read = 0;
};

enum class IoBackend { automatic, uring, pread };
enum class DirectIo { automatic, required, off };

inline constexpr uint32_t default_read_depth = 64;
inline constexpr uint32_t default_requests_max = 1024;

struct ReaderOptions {
    IoBackend backend = IoBackend::automatic;
    DirectIo direct = DirectIo::automatic;
    uint32_t depth = 0;        // most requests the kernel works on at once; the others queue. 0: the default
    uint32_t requests_max = 0; // most requests submitted and not yet polled, 48 bytes each. 0: the default
};

struct ReaderInfo {
    std::string backend;    // "io_uring" or "pread"
    bool direct_io = false; // reads bypass the page cache, of all files
    std::string notice;     // empty, or one line: what is not the first choice, and why
    bool in_memory = false; // a file lies in RAM (tmpfs): reads copy memory, and there is no disk
};

class Reader {
  public:
    virtual ~Reader() = default;
    // Takes all requests. Does not wait for the disk. With those in flight they are at most requests_max (checked).
    virtual void submit(std::span<const ReadRequest> requests) = 0;
    // Moves up to results.size() finished requests into `results` and returns how many. 0 ms does not wait; otherwise
    // blocks until at least one request has finished, `at_most` has passed, or wake() was called. Returns 0 after a
    // time-out or a wake, and at once when nothing is in flight. milliseconds::max() is no time-out. Short and
    // interrupted reads are continued inside.
    virtual size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) = 0;
    // Makes a poll() that waits return, or the next one that would wait. Several calls may count as one.
    virtual void wake() noexcept = 0;
    // Requests submitted whose results have not been polled. From the thread that polls.
    [[nodiscard]] virtual size_t in_flight() const = 0;
    [[nodiscard]] virtual const ReaderInfo &info() const = 0;
    // What the reader's own descriptor of the file leads to now. All zeros if the kernel does not say.
    [[nodiscard]] virtual FileIdentity identity(uint32_t file) const = 0;
};

// Opens `paths` for reading. Throws Error(io) if one cannot be opened, or if a required mode cannot be had.
std::unique_ptr<Reader> open_reader(const std::vector<std::string> &paths, const ReaderOptions &options);

} // namespace larder
