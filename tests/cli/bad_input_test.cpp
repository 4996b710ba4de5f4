// Bad input gives one clear error line, a remedy and an exit code, and loses no data.
#include "base/bytes.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace larder::test {
namespace {

using testing::HasSubstr;

constexpr const char *small_model = "--arch qwen3moe --quant q8_0";

class BadInput : public testing::Test {
  protected:
    // Runs larder and expects it to fail with one line on standard error that contains `text`.
    void refused(const std::vector<std::string> &arguments, int exit_code, const std::string &text) {
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(text));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_EQ(result.out, "");
    }
    std::string write(const std::string &name, const std::string &content) {
        const std::string path = scratch_ / name;
        std::ofstream(path, std::ios::binary) << content;
        return path;
    }

    Scratch scratch_;
};

TEST_F(BadInput, AFileThatIsNotAModelIsNamed) {
    refused({"run", "-m", write("notes.txt", "dear diary"), "-p", "x"}, 1, "notes.txt");
    refused({"run", "-m", write("empty.gguf", ""), "-p", "x"}, 1, "empty.gguf");
    refused({"run", "-m", scratch_ / "absent.gguf", "-p", "x"}, 1, "absent.gguf");
    refused({"inspect", scratch_ / "absent.gguf"}, 1, "No such file");
}

TEST_F(BadInput, AModelCutAnywhereIsRefusedBeforeItRuns) {
    const std::string whole = contents(make_model(scratch_, "whole.gguf", small_model));
    for (const size_t length : {size_t{10}, size_t{2000}, whole.size() / 2, whole.size() - 1}) {
        refused({"run", "-m", write("cut.gguf", whole.substr(0, length)), "-p", "x"}, 1, "cut.gguf");
    }
}

TEST_F(BadInput, AWrongVersionIsSaid) {
    std::string bytes = contents(make_model(scratch_, "whole.gguf", small_model));
    bytes[4] = 99;
    refused({"run", "-m", write("future.gguf", bytes), "-p", "x"}, 1, "version");
}

TEST_F(BadInput, ABudgetWithATypoIsRefusedAndExplained) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    refused({"run", "-m", model, "--ram", "8GG", "-p", "x"}, 2, "--ram: '8GG' is not a size");
    refused({"verify", "-m", model, "--ram", "many"}, 2, "--ram: 'many' is not a size");
}

TEST_F(BadInput, ABudgetBelowTheFloorNamesTheSmallestThatWorks) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    const Finished result = larder({"run", "-m", model, "--ram", "20M", "-p", "x", "-t", "2"});
    EXPECT_EQ(result.exit_code, 3);
    const size_t at = result.err.find("use --ram ");
    ASSERT_NE(at, std::string::npos) << result.err;
    const uint64_t named = std::stoull(result.err.substr(at + 10));
    for (int again = 0; again < 10; again++) { // retried, because the pages of a run vary slightly
        EXPECT_EQ(larder({"run", "-m", model, "--ram", std::to_string(named) + "M", "-p", "x", "-n", "1", "-t", "2"})
                      .exit_code,
                  0);
    }
    EXPECT_EQ(larder({"run", "-m", model, "--ram", std::to_string(named - 6) + "M", "-p", "x", "-n", "1", "-t", "2"})
                  .exit_code,
              3);
}

TEST_F(BadInput, WrongFlagsExitWithTwo) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    refused({"run", "-m", model, "--no-such-flag"}, 2, "--no-such-flag");
    refused({"run", "-p", "x"}, 2, "see larder run --help");
    refused({"fly"}, 2, "'fly' is not a command");
    refused({"run", "-m", model, "--promt", "x"}, 2, "did you mean --prompt?");
    refused({"run", "-m", model, "--temperature", "1"}, 2, "did you mean --temp?");
    refused({"run", "-m", model, "--xyzzy"}, 2, "--xyzzy: larder run has no such flag; see larder run --help");
    refused({"rum", "-m", model}, 2, "did you mean run?");
    // Must not be parsed as -n kvo.
    refused({"run", "-m", model, "-nkvo", "99"}, 2, "-nkvo: larder run has no such flag");
    refused({"run", "-m", model, "--ram", "8"}, 2, "give the unit, like 8G");
    refused({"run", "-m", model, "-p", ""}, 2, "the prompt is empty");
    refused({"run", "-m", model, "-p", "x", "-f", "y"}, 2, "--file");
    refused({"run", "-m", model, "--cache-type-k", "q3_9", "-p", "x"}, 2, "--cache-type-k");
    refused({"run", "-m", model, "--kernels", "quick", "-p", "x"}, 2, "--kernels");
    refused({"run", "-m", model, "-f", scratch_ / "absent.txt"}, 1, "absent.txt");
}

TEST_F(BadInput, APromptLongerThanTheContextIsRefused) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    std::string prompt;
    for (int i = 0; i < 400; i++) {
        prompt += "word ";
    }
    const Finished result = larder({"run", "-m", model, "-c", "64", "-p", prompt, "-q"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("raise -c"));
}

TEST_F(BadInput, AFileOfAPromptLongerThanTheContextIsRefused) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    std::ofstream(scratch_ / "long.txt") << "a";
    std::filesystem::resize_file(scratch_ / "long.txt", 1024 * GiB); // sparse
    refused({"run", "-m", model, "-q", "-c", "1024", "-f", scratch_ / "long.txt"}, 2,
            "-f: " + (scratch_ / "long.txt") + " is larger than 24 KiB; shorten it or raise -c");
    std::ofstream(scratch_ / "empty.txt").close();
    refused({"run", "-m", model, "-f", scratch_ / "empty.txt"}, 2, "the prompt is empty");
    refused({"run", "-m", model, "-f", scratch_ / "."}, 1, "Is a directory");
    std::ofstream(scratch_ / "line.txt") << '\n';
    refused({"run", "-m", model, "-q", "-f", scratch_ / "line.txt"}, 2, "the prompt is empty");
}

TEST_F(BadInput, ADenseModelRunsAndSaysThereIsNothingToStream) {
    const std::string model = make_model(scratch_, "dense.gguf", "--arch qwen3 --quant q8_0");
    const Finished result = larder({"run", "-m", model, "-p", "x", "-n", "2", "--temp", "0"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("it has no routed experts"));
}

TEST_F(BadInput, AFullDiskForTheStatsIsAnErrorButTheAnswerIsGiven) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    const Finished result =
        larder({"run", "-m", model, "-p", "x", "-n", "3", "--temp", "0", "-q", "--stats", "/dev/full"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("--stats: cannot write /dev/full: No space left on device"));
    EXPECT_GT(result.out.size(), 1U);
    refused({"run", "-m", model, "-p", "x", "--stats", scratch_ / "no/such/folder/s.json"}, 1, "--stats: cannot write");
}

TEST_F(BadInput, ALimitOfFileSizesIsAnErrorButTheAnswerIsGiven) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    const Finished result = run({"/bin/sh", "-c", R"(ulimit -f 0; exec "$@")", "sh", LARDER_PROGRAM, "run", "-m", model,
                                 "-p", "x", "-n", "3", "--temp", "0", "-q", "--stats", scratch_ / "s.json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("s.json: File too large; raise the limit of file sizes (ulimit -f)"));
    EXPECT_GT(result.out.size(), 1U);
}

TEST_F(BadInput, AnAnswerThatCannotBeWrittenIsAnError) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    const Finished result =
        run({"/bin/sh", "-c", std::string(LARDER_PROGRAM) + " run -m " + model + " -p x -n 3 -q >/dev/full"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output: No space left on device"));
}

// Chat lines before the cut are answered. Then answers fail with the cause, also after the file has its old size again:
// larder knows only that it was written to.
TEST_F(BadInput, AFileThatShrinksWhileRunningFailsTheAnswersFromThenOn) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    const std::string whole = contents(model);
    Process chat({LARDER_PROGRAM, "run", "-m", model, "--arena", "4M", "-n", "4", "--temp", "0"});
    chat.type("first\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    std::filesystem::resize_file(model, whole.size() / 4);
    chat.type("second\n");
    ASSERT_TRUE(chat.wait_for_error("ended early"));
    std::ofstream(model, std::ios::binary | std::ios::in) << whole;
    ASSERT_EQ(contents(model), whole);
    chat.type("third\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 1); // an answer failed
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(model + " was replaced or written to"));
}

TEST_F(BadInput, AFileThatIsDeletedWhileRunningIsReadToTheEnd) {
    const std::string model = make_model(scratch_, "m.gguf", small_model);
    Process chat({LARDER_PROGRAM, "run", "-m", model, "--arena", "4M", "-n", "4", "--temp", "0"});
    chat.type("first\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    std::filesystem::remove(model); // the open file keeps its bytes until larder ends
    chat.type("second\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
}

} // namespace
} // namespace larder::test
