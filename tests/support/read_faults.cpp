#include "support/read_faults.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace larder::test {

namespace {

class FailingReader final : public Reader {
  public:
    explicit FailingReader(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) { failed_.reserve(4096); }

    void submit(std::span<const ReadRequest> requests) override {
        for (const ReadRequest &request : requests) {
            ReadFaults &faults = read_faults();
            const uint64_t number = faults.seen.fetch_add(1);
            if (faults.fails && faults.fails(request, number)) {
                faults.failed++;
                failed_.push_back({request.tag, faults.error, 0});
            } else if (faults.hangs && faults.hangs(request, number)) {
                n_hung_++;
                (void)std::fputs("this read never finishes\n", stderr); // a test waits for this line
            } else {
                reader_->submit({&request, 1});
            }
        }
    }
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds at_most) override {
        const size_t n = std::min(results.size(), failed_.size());
        if (n == 0 && n_hung_ > 0 && reader_->in_flight() == 0) {
            wait_for_wake(at_most);
            return 0;
        }
        if (n == 0) {
            return reader_->poll(results, at_most);
        }
        std::copy_n(failed_.begin(), n, results.begin());
        failed_.erase(failed_.begin(), failed_.begin() + static_cast<std::ptrdiff_t>(n));
        return n;
    }
    void wake() noexcept override {
        {
            const std::lock_guard lock(mutex_);
            woken_ = true;
        }
        waked_.notify_all();
        reader_->wake();
    }
    [[nodiscard]] size_t in_flight() const override { return reader_->in_flight() + failed_.size() + n_hung_; }
    [[nodiscard]] FileIdentity identity(uint32_t file) const override { return reader_->identity(file); }
    [[nodiscard]] const ReaderInfo &info() const override { return reader_->info(); }

  private:
    void wait_for_wake(std::chrono::milliseconds at_most) {
        std::unique_lock lock(mutex_);
        const auto woken = [this] { return woken_; };
        if (at_most == std::chrono::milliseconds::max()) {
            waked_.wait(lock, woken);
        } else {
            waked_.wait_for(lock, at_most, woken);
        }
        woken_ = false;
    }

    std::unique_ptr<Reader> reader_;
    std::vector<ReadResult> failed_;
    size_t n_hung_ = 0;
    std::mutex mutex_;
    std::condition_variable waked_;
    bool woken_ = false; // guarded by mutex_
};

} // namespace

ReadFaults &read_faults() {
    static ReadFaults faults;
    return faults;
}

void read_faults_from_environment() {
    if (const char *number = std::getenv("LARDER_HANG_READ")) {
        read_faults().hangs = [n = std::stoull(number)](const ReadRequest & /*request*/, uint64_t i) { return i == n; };
    }
    if (const char *number = std::getenv("LARDER_FAIL_READ")) {
        read_faults().fails = [n = std::stoull(number)](const ReadRequest & /*request*/, uint64_t i) { return i == n; };
    }
}

// With --wrap, calls of open_reader() reach the second function. It calls the real one under the name of the first.
std::unique_ptr<Reader> real_open_reader(const std::vector<std::string> &paths,
                                         const ReaderOptions &options) __asm__("__real_" LARDER_OPEN_READER_SYMBOL);
std::unique_ptr<Reader> failing_open_reader(const std::vector<std::string> &paths,
                                            const ReaderOptions &options) __asm__("__wrap_" LARDER_OPEN_READER_SYMBOL);
std::unique_ptr<Reader> failing_open_reader(const std::vector<std::string> &paths, const ReaderOptions &options) {
    return std::make_unique<FailingReader>(real_open_reader(paths, options));
}

} // namespace larder::test
