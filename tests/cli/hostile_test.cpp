// Malicious input and environments: one error line, an exit code, no crash, and no memory beyond the budget.
#include "base/bytes.h"
#include "support/cgroup.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace larder::test {
namespace {

using testing::HasSubstr;

class Hostile : public testing::Test {
  protected:
    // A copy of the small model with four bytes of a metadata value replaced.
    std::string patched(const std::string &key, const void *value) {
        std::string bytes = contents(model_);
        const size_t at = bytes.find(key) + key.size() + 4; // the value is after its type
        std::memcpy(&bytes[at], value, 4);
        std::ofstream(scratch_ / "patched.gguf", std::ios::binary) << bytes;
        return scratch_ / "patched.gguf";
    }
    // Changes bytes of the model, whose mtime stays as it was.
    void write_and_set_time_back() const {
        struct stat before = {};
        ASSERT_EQ(stat(model_.c_str(), &before), 0);
        std::fstream(model_, std::ios::binary | std::ios::in | std::ios::out).seekp(100000).write("xxxx", 4);
        const std::array<timespec, 2> times = {before.st_atim, before.st_mtim};
        ASSERT_EQ(utimensat(AT_FDCWD, model_.c_str(), times.data(), 0), 0);
    }
    // Runs a shell command in which $L is larder and $M is the model.
    Finished shell(const std::string &line) {
        return run({"/bin/sh", "-c", "L=" + std::string(LARDER_PROGRAM) + "; M=" + model_ + "; " + line});
    }

    Scratch scratch_;
    std::string model_ = make_model(scratch_, "m.gguf", "--arch qwen3moe --layers 2 --experts 8 --top-k 2 --vocab 600");
};

TEST_F(Hostile, AContextTooLongToMeasureIsRefusedWithoutTakingTheMemory) {
    const Cgroup cgroup(200 * MiB);
    const Finished result = larder({"run", "-m", model_, "--ram", "200M", "-p", "hi", "-c", "10000000"},
                                   cgroup.made() ? cgroup.procs() : "");
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("lower -c"));
}

TEST_F(Hostile, ATextTooLongForTheContextIsRefusedBeforeItIsTokenised) {
    std::ofstream(scratch_ / "long.txt") << std::string(8 * MiB, 'x');
    const Cgroup cgroup(100 * MiB);
    const Finished result = larder({"run", "-m", model_, "--ram", "100M", "-q", "-f", scratch_ / "long.txt"},
                                   cgroup.made() ? cgroup.procs() : "");
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("raise -c"));
    EXPECT_EQ(larder({"run", "-m", model_, "--ram", "100M", "-q", "-f", "/dev/zero"}).exit_code, 2);
}

TEST_F(Hostile, MetadataThatMakesLlamaCppStopEndsInOneLine) {
    const float negative = -1;
    const Finished result = larder(
        {"run", "-m", patched("qwen3moe.attention.layer_norm_rms_epsilon", &negative), "-p", "hi", "-n", "1", "-q"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("error: llama.cpp stopped at an impossible state"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(Hostile, MetadataThatContradictsTheTensorsIsRefused) {
    const uint32_t wrong = 24;
    const Finished result = larder({"run", "-m", patched("qwen3moe.attention.key_length", &wrong), "-p", "hi"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("does not accept the model"));
}

TEST_F(Hostile, StandardStreamsThatAreClosedOrFullDoNotCrashIt) {
    EXPECT_EQ(shell("$L run -m $M -p hi -n 2 -q 2>&-").exit_code, 0);
    EXPECT_EQ(shell("$L run -m $M -p hi -n 2 2>/dev/full").exit_code, 0);
    EXPECT_EQ(shell("$L run -m absent 2>/dev/full").exit_code, 1);
    EXPECT_EQ(shell("$L run -m $M -q <&-").exit_code, 0); // a chat that ends at once
    EXPECT_EQ(shell("$L inspect $M >/dev/full").exit_code, 1);
}

TEST_F(Hostile, ATextThatIsNotUtf8FailsOneAnswerAndNotTheNext) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "2", "--temp", "0", "-q"});
    chat.type("\xf4\x90\x80\x80\nhello\n");
    const Finished result = chat.wait();
    EXPECT_THAT(result.err, HasSubstr("not valid UTF-8"));
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST_F(Hostile, AModelThatIsWrittenToWhileInUseIsAnError) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "2", "--temp", "0", "-q"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    std::fstream(model_, std::ios::binary | std::ios::in | std::ios::out).seekp(100000).write("xxxx", 4);
    chat.type("hello\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("was replaced or written to"));
}

TEST_F(Hostile, AModelIsAnErrorThatIsWrittenToAndHasItsTimeSetBack) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "2", "--temp", "0", "-q"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    write_and_set_time_back();
    chat.type("hello\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << "no token of the second answer";
    EXPECT_THAT(result.err, HasSubstr("was replaced or written to"));
}

// Removing a hard link changes the ctime too, which hides the write from the times of the file.
TEST_F(Hostile, AModelIsAnErrorThatIsWrittenToAndThenRemoved) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "2", "--temp", "0", "-q"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    write_and_set_time_back();
    std::filesystem::remove(model_);
    chat.type("hello\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("was replaced or written to"));
}

TEST_F(Hostile, ControlCharactersOfAnArgumentDoNotReachTheTerminal) {
    const Finished result = larder({"run", "-m", model_, "--ram", "8\x1b[31m\nX"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

TEST_F(Hostile, AnAbsurdNumberOfThreadsIsRefused) {
    EXPECT_EQ(larder({"run", "-m", model_, "-p", "hi", "-tb", "100000"}).exit_code, 2);
}

} // namespace
} // namespace larder::test
