#include "text/own_stack.h"

#include "base/bytes.h"
#include "base/error.h"

#include <fmt/format.h>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <vector>

namespace larder {

namespace {

// glibc keeps the thread's descriptor and its thread-local variables at the end of the stack.
constexpr uint64_t thread_descriptor_bytes = 64 * KiB;

class Stack {
  public:
    explicit Stack(uint64_t bytes)
        : page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
          bytes_(align_up(bytes + thread_descriptor_bytes, page_bytes_)) {
        // Untouched pages take no memory, so the mapping may be larger than the free memory.
        mapping_ = mmap(nullptr, bytes_ + page_bytes_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (mapping_ == MAP_FAILED) {
            throw failed();
        }
        if (mprotect(begin(), bytes_, PROT_READ | PROT_WRITE) != 0) { // the page below stays a guard page
            const Error error = failed();
            munmap(mapping_, bytes_ + page_bytes_);
            throw error;
        }
        madvise(begin(), bytes_, MADV_NOHUGEPAGE); // with huge pages, more than the needed pages would be touched
    }
    ~Stack() { munmap(mapping_, bytes_ + page_bytes_); }
    Stack(const Stack &) = delete;
    Stack &operator=(const Stack &) = delete;

    [[nodiscard]] void *begin() const { return static_cast<char *>(mapping_) + page_bytes_; }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }

    [[nodiscard]] uint64_t touched_bytes() const {
        std::vector<unsigned char> pages(bytes_ / page_bytes_);
        if (mincore(begin(), bytes_, pages.data()) != 0) {
            return bytes_;
        }
        const auto touched = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1U; });
        return static_cast<uint64_t>(touched) * page_bytes_;
    }

  private:
    [[nodiscard]] Error failed() const {
        return Error::from_errno(errno, fmt::format("cannot map a stack of {}", format_bytes(bytes_)),
                                 "shorten the text, or allow more addresses (ulimit -v)");
    }

    uint64_t page_bytes_;
    uint64_t bytes_;
    void *mapping_ = nullptr;
};

struct Work {
    const std::function<void()> &function;
    std::exception_ptr thrown;
};

void *run(void *argument) {
    auto *work = static_cast<Work *>(argument);
    try {
        work->function();
    } catch (...) {
        work->thrown = std::current_exception();
    }
    return nullptr;
}

void run_on(const Stack &stack, const std::function<void()> &work) {
    Work job{work, nullptr};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack.begin(), stack.bytes());
    pthread_t thread{};
    const int code = pthread_create(&thread, &attributes, run, &job);
    pthread_attr_destroy(&attributes);
    if (code != 0) {
        throw Error::from_errno(code, "cannot start a thread",
                                "allow more threads (ulimit -u, pids.max of the cgroup)");
    }
    pthread_join(thread, nullptr);
    if (job.thrown) {
        std::rethrow_exception(job.thrown);
    }
}

} // namespace

void run_on_own_stack(uint64_t stack_bytes, const std::function<void()> &work) { run_on(Stack(stack_bytes), work); }

uint64_t stack_touched_by(uint64_t stack_bytes, const std::function<void()> &work) {
    const Stack stack(stack_bytes);
    run_on(stack, work);
    return stack.touched_bytes();
}

} // namespace larder
