// Waits of both real backends end by a result, a time-out or a wake. The reads here complete only when the test allows
// it.
#include "io/pread_reader.h"
#include "io/seccomp.h"
#include "io/test_file.h"
#include "io/uring_reader.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace larder::test {

namespace {

using std::chrono::milliseconds;

constexpr ReaderLimits limits = {4, 4};

// A reader of one file whose reads complete one by one, when the test allows it.
class HeldReader {
  public:
    virtual ~HeldReader() = default;
    [[nodiscard]] virtual Reader *reader() = 0; // null if not supported
    virtual void let() = 0;                     // completes one read, of 4 KiB
};

// io_uring reads from a pipe as from a file, and waits for a writer.
class HeldUring final : public HeldReader {
  public:
    HeldUring() {
        std::array<int, 2> ends{};
        OpenFiles files;
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            return;
        }
        files.fds.emplace_back(ends[0]);
        writer_ = UniqueFd(ends[1]);
        try {
            reader_ = std::make_unique<UringReader>(std::move(files), limits, ReaderInfo{});
        } catch (const Error &) {
            return; // no io_uring here
        }
    }
    [[nodiscard]] Reader *reader() override { return reader_.get(); }
    void let() override {
        const std::array<char, 4 * KiB> bytes{};
        EXPECT_EQ(::write(writer_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }

  private:
    UniqueFd writer_;
    std::unique_ptr<Reader> reader_;
};

// The system calls of the pread threads wait for permission.
class HeldPread final : public HeldReader {
  public:
    HeldPread()
        : file_(16 * KiB), calls_(SYS_pread64, [this] {
              OpenFiles files;
              files.fds.emplace_back(::open(file_.path().c_str(), O_RDONLY | O_CLOEXEC));
              reader_ = std::make_unique<PreadReader>(std::move(files), limits, ReaderInfo{});
          }) {}
    [[nodiscard]] Reader *reader() override { return reader_.get(); }
    void let() override { EXPECT_TRUE(calls_.let()); }

  private:
    TestFile file_;
    std::unique_ptr<Reader> reader_;
    HeldCalls calls_;
};

class WaitTest : public testing::TestWithParam<IoBackend> {
  protected:
    WaitTest() : held_(make()), reader_(held_->reader()) {}
    ~WaitTest() override {
        while (reader_ != nullptr && reader_->in_flight() > 0) { // otherwise the destructor would wait for ever
            held_->let();
            (void)reader_->poll(results_, for_ever);
        }
    }

    void submit(uint64_t n) {
        for (uint64_t i = 0; i < n; i++) {
            const ReadRequest request{0, 0, memory_.at(i * 4 * KiB), 4 * KiB, 4 * KiB, i};
            reader_->submit({&request, 1});
        }
    }

    Memory memory_{16 * KiB};
    std::array<ReadResult, 4> results_{};
    std::unique_ptr<HeldReader> held_;
    Reader *reader_;

  private:
    static std::unique_ptr<HeldReader> make() {
        if (GetParam() == IoBackend::uring) {
            return std::make_unique<HeldUring>();
        }
        return std::make_unique<HeldPread>();
    }
};

} // namespace

#define SKIP_WITHOUT_READER()                                                                                          \
    if (reader_ == nullptr) {                                                                                          \
        GTEST_SKIP() << "reads cannot be held back here";                                                              \
    }

TEST_P(WaitTest, EndsWhenTheTimeIsOverAndTheReadGoesOn) {
    SKIP_WITHOUT_READER();
    submit(1);
    EXPECT_EQ(reader_->poll(results_, at_once), 0U);
    EXPECT_EQ(reader_->poll(results_, milliseconds(1)), 0U);
    EXPECT_EQ(reader_->poll(results_, milliseconds(5)), 0U);
    EXPECT_EQ(reader_->in_flight(), 1U);
    held_->let();
    ASSERT_EQ(reader_->poll(results_, for_ever), 1U);
    EXPECT_EQ(results_[0].error, 0);
    EXPECT_EQ(results_[0].bytes_read, 4 * KiB);
    EXPECT_EQ(reader_->in_flight(), 0U);
}

TEST_P(WaitTest, EndsWhenAnotherThreadWakesIt) {
    SKIP_WITHOUT_READER();
    submit(2);
    for (int round = 0; round < 3; round++) {
        std::thread other([&] {
            // Usually the poll is waiting by then; it must end in any case.
            std::this_thread::sleep_for(milliseconds(2));
            reader_->wake();
        });
        EXPECT_EQ(reader_->poll(results_, for_ever), 0U);
        other.join();
        EXPECT_EQ(reader_->in_flight(), 2U);
    }
    held_->let();
    EXPECT_EQ(reader_->poll(results_, for_ever), 1U);
}

TEST_P(WaitTest, IsEndedByAWakeBeforeIt) {
    SKIP_WITHOUT_READER();
    submit(1);
    reader_->wake();
    reader_->wake();
    EXPECT_EQ(reader_->poll(results_, at_once), 0U) << "does not wait, and takes no wake";
    EXPECT_EQ(reader_->poll(results_, for_ever), 0U);
    EXPECT_EQ(reader_->poll(results_, milliseconds(1)), 0U) << "by its time: two wakes may count as one";
    held_->let();
    EXPECT_EQ(reader_->poll(results_, for_ever), 1U);
    reader_->wake();
    EXPECT_EQ(reader_->poll(results_, for_ever), 0U) << "nothing is in flight";
}

TEST_P(WaitTest, IsWokenByEachReadThatEnds) {
    SKIP_WITHOUT_READER();
    submit(3);
    for (size_t left = 3; left > 0; left--) {
        std::thread other([&] { held_->let(); });
        EXPECT_EQ(reader_->poll(results_, for_ever), 1U);
        other.join();
        EXPECT_EQ(reader_->in_flight(), left - 1);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, WaitTest, testing::Values(IoBackend::uring, IoBackend::pread),
                         [](const auto &of) { return std::string(of.param == IoBackend::uring ? "Uring" : "Pread"); });

// The kernel answers that it is short of memory. The reads begin later, and no wait hangs.
TEST(UringReader, KeepsRequestsThatTheKernelDoesNotTakeYet) {
    const TestFile file(64 * KiB);
    std::unique_ptr<Reader> reader;
    try {
        reader = open_reader({file.path()}, {IoBackend::uring, DirectIo::automatic, 2});
    } catch (const Error &) {
        GTEST_SKIP() << "no io_uring here";
    }
    const Memory memory(64 * KiB);
    std::array<ReadResult, 4> results{};
    const bool ran = under_refusal(SYS_io_uring_enter, EAGAIN, 0, [&] {
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < 4; i++) {
            requests.push_back({0, i * 16 * KiB, memory.at(i * 16 * KiB), 16 * KiB, 16 * KiB, i});
        }
        reader->submit(requests);
        EXPECT_EQ(reader->poll(results, at_once), 0U);
        EXPECT_EQ(reader->poll(results, milliseconds(5)), 0U);
        reader->wake();
        EXPECT_EQ(reader->poll(results, for_ever), 0U);
    });
    if (!ran) {
        GTEST_SKIP() << "seccomp filters are not to be had here";
    }
    EXPECT_EQ(poll_all(*reader).size(), 4U);
    EXPECT_TRUE(SimReader::matches(0, 0, memory.at(0), 64 * KiB));
}

} // namespace larder::test
