// The n-th read of the process fails, for each n and on both backends. larder reports an error that names the file,
// prints no wrong token, and answers the next request.
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int n_read_max = 400; // more than the commands below make; a test that reaches it fails

class FailedReads : public testing::TestWithParam<const char *> {
  protected:
    // Uses the smallest arena, so that the answer needs many reads.
    [[nodiscard]] std::vector<std::string> command(const std::vector<std::string> &more) const {
        std::vector<std::string> all = {LARDER_WITH_FAILING_READS, more.front()};
        all.insert(all.end(), {"-m", model(), "--arena", "432K", "-t", "1", "-c", "256", "--kernels", "plain"});
        all.insert(all.end(), {"--io", GetParam()});
        all.insert(all.end(), more.begin() + 1, more.end());
        return all;
    }
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path =
            make_model(scratch, "m.gguf", "--arch qwen3moe --quant q8_0 --layers 2 --experts 4 --top-k 1 --vocab 600");
        return path;
    }
    // Runs the command with its n-th read failing; no read fails if n is negative.
    static Finished with_failure(int n, const std::vector<std::string> &command, const std::string &input = {}) {
        if (n >= 0) {
            setenv("LARDER_FAIL_READ", std::to_string(n).c_str(), 1);
        }
        Process process(command);
        unsetenv("LARDER_FAIL_READ");
        process.type(input);
        return process.wait();
    }
    static void expect_named(const Finished &failed) {
        EXPECT_EQ(failed.exit_code, 1) << failed.err;
        EXPECT_THAT(failed.err, AllOf(HasSubstr("error: "), HasSubstr("Input/output error"), HasSubstr(model())));
    }

    int last_ = -1; // the last read whose failure caused an error
};

TEST_P(FailedReads, OfRunAreNamedAndGiveNoWrongToken) {
    const std::vector<std::string> run = command({"run", "-p", "a b", "-n", "6", "--temp", "0", "-q"});
    const Finished whole = with_failure(-1, run);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    int in_answer = 0; // number of failures after the answer had begun
    for (int n = 0; n < n_read_max && n <= last_ + 40; n++) {
        SCOPED_TRACE(n);
        const Finished failed = with_failure(n, run);
        if (failed.exit_code == 0) { // the slice was read ahead and not used, or there is no read n
            EXPECT_EQ(failed.out, whole.out);
            continue;
        }
        last_ = n;
        expect_named(failed);
        EXPECT_THAT(whole.out, StartsWith(failed.out));
        in_answer += failed.out.empty() ? 0 : 1;
    }
    EXPECT_GT(in_answer, 4);
    EXPECT_LT(last_, n_read_max - 40);
}

TEST_P(FailedReads, OfChatFailOneAnswerAndNotTheNext) {
    const std::vector<std::string> chat = command({"run", "-n", "4", "--temp", "0", "-q"});
    const Finished whole = with_failure(-1, chat, "a b\n/clear\na b\n");
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const std::string answer = whole.out.substr(0, whole.out.find('\n') + 1);
    ASSERT_EQ(whole.out, answer + answer);
    int next_worked = 0;
    for (int n = 0; n < n_read_max && n <= last_ + 40; n += 3) {
        SCOPED_TRACE(n);
        const Finished failed = with_failure(n, chat, "a b\n/clear\na b\n");
        if (failed.exit_code == 0) {
            EXPECT_EQ(failed.out, whole.out);
            continue;
        }
        last_ = n;
        expect_named(failed);
        // Part of the first answer and the complete second one, or the first answer and part of the second.
        const bool second_is_whole =
            failed.out.ends_with(answer) && answer.starts_with(failed.out.substr(0, failed.out.size() - answer.size()));
        const bool first_is_whole = whole.out.starts_with(failed.out);
        EXPECT_TRUE(second_is_whole || first_is_whole) << failed.out;
        next_worked += second_is_whole ? 1 : 0;
    }
    EXPECT_GT(next_worked, 2);
    EXPECT_LT(last_, n_read_max - 40);
}

TEST_P(FailedReads, OfVerifyAreErrorsAndNoDifferences) {
    const std::vector<std::string> verify = command({"verify", "-p", "a b", "-n", "4", "--out", ""});
    ASSERT_EQ(with_failure(-1, verify).exit_code, 0);
    for (int n = 0; n < n_read_max && n <= last_ + 40; n += 7) {
        SCOPED_TRACE(n);
        const Finished failed = with_failure(n, verify);
        if (failed.exit_code == 0) {
            continue;
        }
        last_ = n;
        expect_named(failed);
        EXPECT_THAT(failed.err, testing::Not(HasSubstr("differ")));
    }
    EXPECT_GT(last_, 0);
    EXPECT_LT(last_, n_read_max - 40);
}

// The first number is a read of resident weights, the second one is in the middle of an answer.
TEST_P(FailedReads, ThatNeverFinishAreErrorsAfterTheTimeOut) {
    for (const char *number : {"0", "30"}) {
        setenv("LARDER_HANG_READ", number, 1);
        const Finished hung =
            with_failure(-1, command({"run", "-p", "a b", "-n", "6", "--temp", "0", "-q", "--io-timeout", "1"}));
        unsetenv("LARDER_HANG_READ");
        EXPECT_EQ(hung.exit_code, 1) << hung.err;
        EXPECT_THAT(hung.err, AllOf(HasSubstr("error: "), HasSubstr(model()), HasSubstr("1 s")));
    }
}

// Without a time-out: the reader waits for the disk for ever, although the first signal stops the answer.
TEST_P(FailedReads, ThatNeverFinishDoNotOutliveTheSecondSignal) {
    setenv("LARDER_HANG_READ", "30", 1);
    Process hung(command({"run", "-n", "6", "--temp", "0", "--io-timeout", "0"}));
    unsetenv("LARDER_HANG_READ");
    hung.type("a b\n");
    ASSERT_TRUE(hung.wait_for_error("this read never finishes"));
    hung.signal(SIGTERM);
    ASSERT_TRUE(hung.wait_for_output_lines(1)); // the answer has ended
    hung.signal(SIGTERM);
    EXPECT_EQ(hung.wait_with_open_input().exit_code, 130);
}

INSTANTIATE_TEST_SUITE_P(Backends, FailedReads, testing::Values("io_uring", "pread"),
                         [](const auto &backend) { return std::string(backend.param); });

} // namespace
} // namespace larder::test
