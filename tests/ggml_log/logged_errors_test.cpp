// Error lines are collected for the thread that logged them, complete, joined and bounded.
#include "ggml_log/ggml_log.h"

#include <ggml.h>
#include <gguf.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>

namespace larder {
namespace {

// Logs as ggml and llama.cpp do.
void log(ggml_log_level level, const std::string &text) {
    ggml_log_callback callback = nullptr;
    void *data = nullptr;
    ggml_log_get(&callback, &data);
    callback(level, text.c_str(), data);
}
void log_error(const std::string &text) { log(GGML_LOG_LEVEL_ERROR, text); }

TEST(LoggedErrors, AreNoneAtFirst) {
    const LoggedErrors errors;
    EXPECT_EQ(errors.first(), "");
    EXPECT_EQ(errors.all(), "");
}

TEST(LoggedErrors, AreTheErrorLinesAndNoOthers) {
    const LoggedErrors errors;
    log(GGML_LOG_LEVEL_INFO, "loading\n");
    log_error("cause\n");
    log(GGML_LOG_LEVEL_WARN, "odd\n");
    log_error("consequence \n");
    log_error("\n");
    log_error("  \n");
    EXPECT_EQ(errors.first(), "cause");
    EXPECT_EQ(errors.all(), "cause; consequence");
}

TEST(LoggedErrors, AreWholeWhenTheyComeInPieces) {
    const LoggedErrors errors;
    log_error("tensor 'a' ");
    log(GGML_LOG_LEVEL_CONT, "has no");
    log(GGML_LOG_LEVEL_CONT, " data\n");
    log(GGML_LOG_LEVEL_CONT, "."); // no error line to continue
    log(GGML_LOG_LEVEL_INFO, "progress ");
    log(GGML_LOG_LEVEL_CONT, "...\n");
    log_error("one");
    log_error("two"); // a line of its own, although the previous one had no newline
    EXPECT_EQ(errors.first(), "tensor 'a' has no data");
    EXPECT_EQ(errors.all(), "tensor 'a' has no data; one; two");
}

TEST(LoggedErrors, CanBeReadWhileTheirFirstLineIsOpen) {
    const LoggedErrors errors;
    log_error("cause");
    EXPECT_EQ(errors.first(), "cause");
    log_error("consequence\n");
    EXPECT_EQ(errors.first(), "cause");
}

TEST(LoggedErrors, GoToTheInnermostObject) {
    const LoggedErrors outer;
    log_error("before\n");
    {
        const LoggedErrors inner;
        log_error("inside\n");
        EXPECT_EQ(inner.all(), "inside");
    }
    log_error("after\n");
    EXPECT_EQ(outer.all(), "before; after");
}

TEST(LoggedErrors, AreForgottenWhereNobodyCollects) {
    log_error("nobody\n");
    const LoggedErrors errors;
    EXPECT_EQ(errors.all(), "");
}

TEST(LoggedErrors, AreBoundedAndEndInAWholeCharacter) {
    const LoggedErrors errors;
    log_error("cause\n");
    for (int i = 0; i < 1000; i++) {
        log_error("größer\n");
    }
    const std::string all = errors.all();
    EXPECT_LE(all.size(), LoggedErrors::bytes_max);
    EXPECT_GT(all.size(), LoggedErrors::bytes_max - 8);
    EXPECT_THAT(all, testing::EndsWith("…"));
    EXPECT_EQ(errors.first(), "cause");
    {
        const LoggedErrors one_line;
        log_error(std::string(100'000, 'x'));
        EXPECT_LE(one_line.first().size(), LoggedErrors::bytes_max);
        EXPECT_EQ(one_line.first(), one_line.all());
    }
    for (size_t shift = 0; shift < 3; shift++) { // the bound falls on each byte of a character in turn
        const LoggedErrors multibyte;
        std::string text(shift, 'x');
        for (size_t i = 0; i < LoggedErrors::bytes_max; i++) {
            text += "€";
        }
        log_error(text);
        const std::string shown = multibyte.all();
        EXPECT_EQ((shown.size() - shift) % 3, 0U) << shown;
    }
}

TEST(LoggedErrors, DoNothingToATerminal) {
    const LoggedErrors errors;
    log_error("key '\x1b[31m\t\nname'\n");
    EXPECT_EQ(errors.all(), "key '?[31m??name'");
}

// Both threads fail at the same time, many times. Each sees its own path and never the other's.
TEST(LoggedErrors, OfTwoThreadsThatFailAtOnceAreTheirOwn) {
    constexpr int rounds = 200;
    std::barrier together(2);
    std::array<int, 2> own{};
    const auto fail = [&](size_t thread) {
        for (int round = 0; round < rounds; round++) {
            const std::string path = "/nonexistent/" + std::to_string(thread) + "/" + std::to_string(round) + ".gguf";
            together.arrive_and_wait();
            const LoggedErrors errors;
            const gguf_context *context = gguf_init_from_file(path.c_str(), {true, nullptr});
            const std::string reason = errors.all();
            own.at(thread) += context == nullptr && reason.find(path) != std::string::npos &&
                                      reason.find(path) == reason.rfind("/nonexistent/")
                                  ? 1
                                  : 0;
        }
    };
    std::thread other(fail, 1);
    fail(0);
    other.join();
    EXPECT_EQ(own[0], rounds);
    EXPECT_EQ(own[1], rounds);
}

TEST(Log, IsShownOnlyOnDemand) {
    take_over_ggml_log();
    testing::internal::CaptureStderr();
    log_error("hidden\n");
    show_ggml_log(true);
    log(GGML_LOG_LEVEL_INFO, "shown\n");
    log(GGML_LOG_LEVEL_INFO, "repack: repack tensor blk.0 with q4_K_8x8\n");
    show_ggml_log(false);
    log_error("hidden again\n");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "shown\n");
}

} // namespace
} // namespace larder
