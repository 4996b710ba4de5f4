// io.h — asynchronous reads of files into the caller's memory. Handles files and bytes, not experts.
//
// A Reader keeps a list of files open. submit() starts a batch of reads, and poll() returns finished reads in any
// order. There are no callbacks. All memory is allocated when the reader is opened; nothing allocates afterwards.
//
// There are two backends: io_uring, and a pool of threads that call pread(), for kernels that refuse io_uring. With
// direct I/O (O_DIRECT) reads bypass the page cache. Offset, length and memory of a request must then be multiples of
// direct_io_alignment; only DirectIo::off needs no alignment. Some file systems accept O_DIRECT but read through the
// page cache, so open_reader() reads some blocks of each file to check. If pages may stay in the cache,
// POSIX_FADV_DONTNEED follows each read. info() reports what is in use, and the reason if it is not the first choice.
//
// Threads: submit() and poll() from one thread at a time (the caller locks). wake(), identity() and info() from any
// thread at any time. The memory of a request must stay valid until its result was polled. The destructor waits for the
// reads that the kernel has begun, and drops the others.
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
    uint32_t file = 0;         // index into the paths given to open_reader()
    uint64_t offset = 0;       // bytes from the start of the file
    char *into = nullptr;      // `bytes` bytes of memory
    uint64_t bytes = 0;        // may extend past the end of the file
    uint64_t bytes_needed = 0; // at most `bytes`; the read succeeds if at least this many arrive
    uint64_t tag = 0;          // returned in the result
};

struct ReadResult {
    uint64_t tag = 0;
    // 0: at least bytes_needed bytes were read. Otherwise an errno value. ENODATA: the file is shorter than offset +
    // bytes_needed. EIO also if the file is long enough but the file system does not return its bytes.
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
    uint32_t depth = 0;        // maximum of requests in progress in the kernel; others are queued. 0: the default
    uint32_t requests_max = 0; // maximum of requests submitted and not yet polled, 48 bytes each. 0: the default
};

struct ReaderInfo {
    std::string backend;    // "io_uring" or "pread"
    bool direct_io = false; // reads of all files bypass the page cache
    std::string notice;     // empty, or one line: which choice is not the first one, and why
    bool in_memory = false; // a file is in RAM (tmpfs): reads copy memory and use no disk
};

class Reader {
  public:
    virtual ~Reader() = default;
    // Accepts all requests and does not wait for the disk. At most requests_max may be in flight (checked).
    virtual void submit(std::span<const ReadRequest> requests) = 0;
    // Moves up to results.size() finished requests into `results` and returns their number. Does not wait if `at_most`
    // is 0 ms. Otherwise blocks until at least one request has finished, `at_most` has passed, or wake() was called.
    // Returns 0 after a time-out or a wake(), and immediately if nothing is in flight. milliseconds::max() means no
    // time-out. Short and interrupted reads are continued internally.
    virtual size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) = 0;
    // Makes a waiting poll() return, or else the next poll() that would wait. Several calls may count as one.
    virtual void wake() noexcept = 0;
    // Number of requests submitted whose results have not been polled. Only from the thread that polls.
    [[nodiscard]] virtual size_t in_flight() const = 0;
    [[nodiscard]] virtual const ReaderInfo &info() const = 0;
    // The current identity of the file that the reader has open. All zeros if the kernel does not report it.
    [[nodiscard]] virtual FileIdentity identity(uint32_t file) const = 0;
};

// Opens `paths` for reading. Throws Error(io) if a file cannot be opened or a required mode is not available.
std::unique_ptr<Reader> open_reader(const std::vector<std::string> &paths, const ReaderOptions &options);

} // namespace larder
