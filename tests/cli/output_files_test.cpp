// Output never overwrites an input, and a failed run keeps the output of an earlier one.
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;

class OutputFiles : public testing::Test {
  protected:
    std::string write(const std::string &name, const std::string &content) {
        const std::string path = scratch_ / name;
        std::ofstream(path, std::ios::binary) << content;
        return path;
    }
    // Expects an error of usage that names both flags, and an unchanged file.
    static void refused(const std::vector<std::string> &arguments, const std::string &path,
                        const std::vector<std::string> &flags) {
        const std::string before = contents(path);
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, 2) << result.err;
        for (const std::string &flag : flags) {
            EXPECT_THAT(result.err, HasSubstr(flag));
        }
        EXPECT_THAT(result.err, HasSubstr("use another file"));
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_TRUE(contents(path) == before) << path;
    }
    // The names in the scratch folder, to detect files left behind.
    [[nodiscard]] std::set<std::string> names() const {
        std::set<std::string> names;
        for (const auto &entry : std::filesystem::directory_iterator(scratch_ / "")) {
            names.insert(entry.path().filename());
        }
        return names;
    }

    Scratch scratch_;
    std::string model_ = make_model(scratch_, "m.gguf", "--arch qwen3moe --layers 2 --experts 8 --top-k 2 --vocab 600");
};

TEST_F(OutputFiles, TheModelIsNeverReplaced) {
    std::filesystem::create_symlink("m.gguf", scratch_ / "link.gguf");
    std::filesystem::create_hard_link(model_, scratch_ / "hard.gguf");
    for (const std::string &name : {model_, scratch_ / "link.gguf", scratch_ / "hard.gguf", scratch_ / "./m.gguf"}) {
        refused({"run", "-m", model_, "-p", "a", "--stats", name}, model_, {"--stats", "-m"});
        refused({"run", "-m", name, "-p", "a", "--trace", model_}, model_, {"--trace", "-m"});
    }
    refused({"bench", "-m", model_, "--svg", model_}, model_, {"--svg", "-m"});
    refused({"verify", "-m", model_, "--out", model_}, model_, {"--out", "-m"});
    refused({"tune", "-m", model_, "--profile", model_}, model_, {"--profile", "-m"});
    const std::string other = write("other.gguf", "not read before the check");
    refused({"verify", "-m", model_, "--against", other, "--out", other}, other, {"--out", "--against"});
}

TEST_F(OutputFiles, NoShardIsReplaced) {
    const std::string second = scratch_ / "s-00002-of-00002.gguf";
    make_model(scratch_, "s.gguf", "--arch qwen3moe --layers 4 --experts 8 --top-k 2 --vocab 600 --split 2");
    ASSERT_TRUE(std::filesystem::exists(second));
    refused({"run", "-m", scratch_ / "s-00001-of-00002.gguf", "-p", "a", "--stats", second}, second, {"--stats", "-m"});
}

TEST_F(OutputFiles, NoOtherInputIsReplaced) {
    const std::string text = write("text.txt", "hello");
    const std::string grammar = write("g.gbnf", "root ::= \"a\"");
    refused({"run", "-m", model_, "-f", text, "--stats", text}, text, {"--stats", "-f"});
    refused({"run", "-m", model_, "-p", "a", "--grammar-file", grammar, "--trace", grammar}, grammar,
            {"--trace", "--grammar-file"});
    refused({"bench", "-m", model_, "-f", text, "--svg", text}, text, {"--svg", "-f"});
    refused({"verify", "-m", model_, "-f", text, "--out", text}, text, {"--out", "-f"});
    refused({"tune", "-m", model_, "-f", text, "--profile", text}, text, {"--profile", "-f"});
    refused({"simulate", text, "--svg", text}, text, {"--svg", "TRACE"});
}

TEST_F(OutputFiles, TwoOutputsAreTwoFiles) {
    const std::string path = scratch_ / "new.json";
    refused({"run", "-m", model_, "-p", "a", "--stats", path, "--trace", scratch_ / "x/../new.json"}, path,
            {"--stats", "--trace"});
    std::filesystem::create_symlink("new.json", scratch_ / "link");
    std::filesystem::create_symlink("link", scratch_ / "link to link");
    refused({"run", "-m", model_, "-p", "a", "--stats", scratch_ / "link to link", "--trace", path}, path,
            {"--stats", "--trace"});
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(
        larder({"run", "-m", model_, "-p", "a", "-n", "1", "--stats", "/dev/null", "--trace", "/dev/null"}).exit_code,
        0);
}

TEST_F(OutputFiles, AStatsFileIsWrittenBesideAndThenRenamed) {
    const std::string neighbour = write("s.json.tmp", "somebody else's");
    const Finished result = larder({"run", "-m", model_, "-p", "a", "-n", "1", "--stats", scratch_ / "s.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(contents(scratch_ / "s.json"), HasSubstr("decode_tokens"));
    EXPECT_EQ(contents(neighbour), "somebody else's");
    EXPECT_EQ(names(), std::set<std::string>({"m.gguf", "s.json", "s.json.tmp"}));
}

TEST_F(OutputFiles, AStatsFileBehindALinkIsWrittenThere) {
    std::filesystem::create_directory(scratch_ / "there");
    std::filesystem::create_symlink("there/s.json", scratch_ / "link");
    for (int i = 0; i < 2; i++) { // first the file does not exist, then it does
        const Finished result = larder({"run", "-m", model_, "-p", "a", "-n", "1", "--stats", scratch_ / "link"});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_TRUE(std::filesystem::is_symlink(scratch_ / "link"));
        EXPECT_THAT(contents(scratch_ / "there/s.json"), HasSubstr("decode_tokens"));
    }
    std::filesystem::create_symlink("loop b", scratch_ / "loop a");
    std::filesystem::create_symlink("loop a", scratch_ / "loop b");
    const Finished refused = larder({"run", "-m", model_, "-p", "a", "--stats", scratch_ / "loop a"});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("Too many levels of symbolic links"));
    EXPECT_TRUE(std::filesystem::is_symlink(scratch_ / "loop a"));
}

TEST_F(OutputFiles, ARunThatFailsLeavesTheStatsOfTheOneBefore) {
    const std::string stats = write("s.json", "{}");
    EXPECT_EQ(larder({"run", "-m", model_, "--ram", "2M", "-p", "x", "--stats", stats}).exit_code, 3);
    EXPECT_EQ(contents(stats), "{}");
    EXPECT_EQ(larder({"verify", "-m", model_, "--ram", "2M", "--out", stats}).exit_code, 3);
    EXPECT_EQ(contents(stats), "{}");
    EXPECT_EQ(names(), std::set<std::string>({"m.gguf", "s.json"}));
}

TEST_F(OutputFiles, WhatCannotBeWrittenIsSaidWithItsFlagBeforeAnythingRuns) {
    const std::string nowhere = scratch_ / "no/such/folder";
    const std::string trace = write("t.jsonl", "{\"tok\":0,\"layers\":[[0,1]]}\n");
    for (const std::vector<std::string> &arguments :
         {std::vector<std::string>{"run", "-m", model_, "-p", "a", "--trace", nowhere},
          {"run", "-m", model_, "-p", "a", "--trace", scratch_ / ""},
          {"simulate", trace, "--slots", "1", "--svg", nowhere},
          {"bench", "-m", model_, "--svg", nowhere}}) {
        const Finished result = larder(arguments);
        EXPECT_EQ(result.exit_code, 1);
        EXPECT_THAT(result.err, HasSubstr(arguments[arguments.size() - 2] + ": cannot write " + arguments.back()));
        EXPECT_THAT(result.err, HasSubstr("; name a file that can be written"));
        EXPECT_EQ(result.out, "");
    }
}

} // namespace
} // namespace larder::test
