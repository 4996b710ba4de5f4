// The help text, and the messages for llama.cpp's flags.
#include "support/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string help_of(const std::string &command) {
    const Finished help = larder({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    return help.out;
}

void refused(const std::vector<std::string> &arguments, const std::string &text) {
    const Finished result = larder(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.err, "error: " + text + "\n");
    EXPECT_EQ(result.out, "");
}

TEST(Help, ShowsLlamaCppsShortNamesInTheColumnOfFlags) {
    const std::string run = help_of("run");
    for (const char *names :
         {"-np,--parallel", "-ub,--ubatch-size", "-fa,--flash-attn", "-tb,--threads-batch", "-ctk,--cache-type-k,--ctk",
          "-ctv,--cache-type-v,--ctv", "-no-cnv,--raw", "-sys,--system-prompt"}) {
        EXPECT_THAT(run, HasSubstr(names));
    }
    EXPECT_THAT(help_of("bench"), HasSubstr("-pg,--n-prompt-gen"));
}

TEST(Help, DescribesCommandsInLowerCase) {
    const std::string help = larder({"--help"}).out;
    EXPECT_THAT(help, HasSubstr(" show the sizes of a model's weights"));
    EXPECT_THAT(help, HasSubstr(" replay routing traces"));
}

TEST(Help, SaysWhatABudgetMayBeAndIsWithoutBeingNamed) {
    for (const char *command : {"run", "verify", "tune", "bench", "plan", "calibrate"}) {
        const std::string help = help_of(command);
        EXPECT_THAT(help, HasSubstr("50% of what")) << command;
        EXPECT_THAT(help, HasSubstr("all of it")) << command;
    }
}

TEST(Help, SaysThatAReserveIsRaisedForALongText) {
    for (const char *command : {"run", "plan"}) {
        EXPECT_THAT(help_of(command), HasSubstr("raised if")) << command;
    }
}

TEST(Help, TheModelIsAnArgumentOrAFlag) {
    for (const char *command : {"run", "inspect", "verify", "bench", "tune", "plan", "calibrate"}) {
        refused({command}, std::string("no model is named: give MODEL or -m MODEL; see larder ") + command + " --help");
        EXPECT_THAT(help_of(command), Not(HasSubstr("REQUIRED"))) << command;
        EXPECT_THAT(help_of(command), HasSubstr("MODEL or -m MODEL")) << command;
    }
}

TEST(Help, NumbersOutOfRangeAreRefusedShortly) {
    for (const char *flag : {"--parallel", "--batch-size", "--io-depth"}) {
        const Finished result = larder({"run", "m.gguf", flag, "0"});
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.err, HasSubstr("is not in the range 1 to"));
        EXPECT_LT(result.err.size(), 100U) << result.err;
    }
    EXPECT_THAT(larder({"run", "m.gguf", "-np", "0"}).err, HasSubstr("0 is not in the range 1 to 256"));
}

TEST(Help, FlagsOfLlamaCppThatLarderCannotHaveAreExplained) {
    for (const std::string flag : {"-hf", "--hf-repo"}) {
        refused({"run", flag, "Qwen/Qwen3-30B-A3B-GGUF"},
                flag + ": larder cannot download models; download the GGUF first (e.g. with hf download), then use -m");
    }
    for (const std::string flag : {"-ngl", "--n-gpu-layers", "--gpu-layers"}) {
        refused({"run", "-m", "m.gguf", flag, "99"}, flag + ": larder computes on the CPU only; remove " + flag);
    }
    refused({"run", "-m", "m.gguf", "--n-gpu-layers=99"},
            "--n-gpu-layers: larder computes on the CPU only; remove --n-gpu-layers");
}

// Truncated output must be an error.
TEST(Help, ThatCannotBeWrittenIsAnError) {
    for (const std::string flag : {"--help", "--version", "run --help"}) {
        const Finished full = run({"/bin/sh", "-c", std::string(LARDER_PROGRAM) + " " + flag + " >/dev/full"});
        EXPECT_EQ(full.exit_code, 1) << flag;
        EXPECT_THAT(full.err, HasSubstr("cannot write to standard output: No space left on device; free some space"));
        const Finished closed = run({"/bin/sh", "-c", std::string(LARDER_PROGRAM) + " " + flag + " >&-"});
        EXPECT_EQ(closed.exit_code, 1) << flag;
        EXPECT_THAT(closed.err, HasSubstr("cannot write to standard output: Bad file descriptor; "));
        EXPECT_THAT(closed.err, Not(HasSubstr("space")));
    }
}

TEST(Help, AThreadThatCannotBeStartedIsNamed) {
    const std::string model = std::string(LARDER_SOURCE_DIR) + "/models/kjv-moe-32x4.q8_0.gguf";
    const Finished result = larder_without_threads({"run", "-m", model, "-t", "3", "-p", "a", "-n", "2"});
    if (result.exit_code >= 126) {
        GTEST_SKIP() << "cannot run as another user: " << result.err;
    }
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("error: cannot start a thread: "));
    EXPECT_THAT(result.err, HasSubstr("(ulimit -u"));
}

TEST(Help, ValuesThatLookLikeFlagsAreValues) {
    const std::string model = std::string(LARDER_SOURCE_DIR) + "/models/kjv-moe-32x4.q8_0.gguf";
    for (const char *prompt : {"-Some list item", "-np", "-ngl"}) {
        const Finished result = larder({"run", "-m", model, "-c", "256", "-ub", "8", "--raw", "-n", "2", "-p", prompt});
        EXPECT_EQ(result.exit_code, 0) << prompt << ": " << result.err;
        EXPECT_THAT(result.err, HasSubstr("(ubatch 8)")) << prompt;
    }
}

} // namespace
} // namespace larder::test
