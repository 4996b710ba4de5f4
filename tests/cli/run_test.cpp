// larder run as a user runs it.
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Run : public testing::Test {
  protected:
    Scratch scratch_;
    std::string model_ = make_model(scratch_, "m.gguf", "--arch qwen3moe --quant q4_k_m");
    [[nodiscard]] nlohmann::json stats() const { return nlohmann::json::parse(contents(scratch_ / "s.json")); }
};

TEST_F(Run, TheSameSeedAndKernelsGiveTheSameAnswerWhateverTheArena) {
    for (const std::string kernels : {"plain", "mixed", "repacked", "fast"}) {
        const std::vector<std::string> base = {"run", "-m", model_, "-p", "a b c",     "-n",
                                               "12",  "-s", "7",    "-q", "--kernels", kernels};
        std::vector<std::string> small = base;
        small.insert(small.end(), {"--arena", "3M"});
        const Finished large_run = larder(base);
        const Finished small_run = larder(small);
        EXPECT_EQ(large_run.exit_code, 0) << large_run.err;
        EXPECT_GT(large_run.out.size(), 12U);
        EXPECT_EQ(large_run.out, small_run.out) << kernels;
    }
}

TEST_F(Run, SaysWhichKernelsItChose) {
    for (const auto &[arena, kernels] : {std::pair{"1G", "repacked"}, std::pair{"3M", "mixed"}}) {
        const Finished result = larder({"run", "-m", model_, "--arena", arena, "-p", "a", "-n", "1", "--temp", "0",
                                        "--stats", scratch_ / "s.json"});
        ASSERT_EQ(result.exit_code, 0) << result.err;
        EXPECT_THAT(result.err, HasSubstr(std::string("kernels: ") + kernels));
        EXPECT_EQ(stats().at("kernels"), kernels);
    }
}

TEST_F(Run, BothIoBackendsGiveTheSameAnswerAndSayWhichTheyAre) {
    std::vector<std::string> outputs;
    for (const std::string backend : {"io_uring", "pread"}) {
        for (const std::string direct : {"auto", "off"}) {
            const Finished result =
                larder({"run", "-m", model_, "--arena", "3M", "-p", "a b c", "-n", "12", "--temp", "0", "-q", "--io",
                        backend, "--direct-io", direct, "--stats", scratch_ / "s.json"});
            ASSERT_EQ(result.exit_code, 0) << result.err;
            EXPECT_EQ(stats().at("io_backend"), backend);
            if (direct == "off") {
                EXPECT_EQ(stats().at("direct_io"), false);
            }
            outputs.push_back(result.out);
        }
    }
    EXPECT_THAT(outputs, testing::Each(outputs.front()));
}

TEST_F(Run, TheStatsFileHasEveryFigureThatIsPromised) {
    const Finished result = larder({"run", "-m", model_, "--ram", "200M", "-p", "hello there", "-n", "5", "--temp", "0",
                                    "--ignore-eos", "--stats", scratch_ / "s.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json json = stats();
    for (const char *name :
         {"prompt_tokens",  "decode_tokens",  "prompt_tok_s", "decode_tok_s",  "ttft_ms",      "load_ms",
          "expert_hits",    "expert_misses",  "hit_rate",     "evictions",     "bytes_read",   "stall_ms",
          "arena_bytes",    "resident_bytes", "kv_bytes",     "compute_bytes", "budget_bytes", "budget_source",
          "peak_rss_bytes", "vm_swap_bytes",  "io_backend",   "direct_io"}) {
        EXPECT_TRUE(json.contains(name)) << name;
    }
    EXPECT_EQ(json.at("budget_source"), "--ram");
    EXPECT_EQ(json.at("decode_tokens"), 4); // the last printed token is not evaluated
    EXPECT_GT(json.at("expert_misses"), 0);
    EXPECT_GT(json.at("bytes_read"), 0);
    EXPECT_GT(json.at("decode_tok_s"), 0);
    EXPECT_GT(json.at("peak_rss_bytes"), json.at("resident_bytes"));
    EXPECT_THAT(result.err, HasSubstr("tok/s"));
    EXPECT_THAT(result.err, HasSubstr("hit rate"));
}

TEST_F(Run, APromptIsShownBeforeItsAnswerUnlessItIsRefused) {
    const std::string prompt = "once upon a time there was a small cat";
    const Finished answered = larder({"run", "-m", model_, "-p", prompt, "-n", "1", "--raw"});
    EXPECT_EQ(answered.exit_code, 0) << answered.err;
    EXPECT_THAT(answered.out, testing::StartsWith(prompt));
    const std::string long_prompt(400, '7'); // one token per character
    const Finished refused = larder({"run", "-m", model_, "-p", long_prompt, "-n", "1", "--raw", "-c", "256"});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("tokens, the context 256; shorten it or raise -c"));
    EXPECT_EQ(refused.out, "");
}

TEST_F(Run, WhatWasNotEvaluatedHasNoRate) {
    const Finished result = larder({"run", "-m", model_, "-p", "a", "-n", "1"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("decode 0 tokens, - tok/s"));
}

TEST_F(Run, MlockLocksWhatTheBudgetHolds) {
    const Finished result = larder({"run", "-m", model_, "--ram", "200M", "--mlock", "-p", "hello there", "-n", "5",
                                    "--temp", "0", "--stats", scratch_ / "s.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json json = stats();
    EXPECT_GT(json.at("locked_bytes").get<uint64_t>(),
              json.at("arena_bytes").get<uint64_t>() + json.at("resident_bytes").get<uint64_t>());
    EXPECT_LT(json.at("peak_rss_bytes"), json.at("budget_bytes"));
}

TEST_F(Run, MlockIsRefusedWithTheLimitThatForbidsItAndPlanSaysSoToo) {
    for (const char *command : {" run -p a -m ", " plan -m "}) {
        const Finished result = run({"/bin/sh", "-c",
                                     "ulimit -l 1024 && exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock " +
                                         std::string(LARDER_PROGRAM) + command + model_ + " --ram 200M --mlock"});
        EXPECT_EQ(result.exit_code, 3) << result.err;
        EXPECT_THAT(result.err, HasSubstr("may lock 1 MiB"));
        EXPECT_THAT(result.err, HasSubstr("ulimit -l"));
        EXPECT_THAT(result.out, Not(HasSubstr("smallest budget"))) << "none would help";
    }
}

TEST_F(Run, Sigusr2WritesTheStatsWhileItRuns) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "3", "--temp", "0", "--stats", scratch_ / "s.json"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    EXPECT_EQ(contents(scratch_ / "s.json"), "");
    chat.signal(SIGUSR2);
    for (int i = 0; i < 500 && contents(scratch_ / "s.json").empty(); i++) {
        usleep(10'000);
    }
    const int first = stats().at("prompt_tokens");
    EXPECT_GT(first, 0);
    chat.type("hello\n");
    EXPECT_EQ(chat.wait().exit_code, 0);
    EXPECT_GT(stats().at("prompt_tokens"), first);
}

TEST_F(Run, TheChatTemplateIsAppliedUnlessRaw) {
    const auto prompt_tokens = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"run", "-m", model_, "-p",      "hello",
                                              "-n",  "1",  "-q",   "--stats", scratch_ / "s.json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        EXPECT_EQ(larder(arguments).exit_code, 0);
        return stats().at("prompt_tokens").get<int>();
    };
    const int templated = prompt_tokens({});
    EXPECT_GT(templated, prompt_tokens({"--raw"}));
    EXPECT_GT(prompt_tokens({"-sys", "You are a cook."}), templated);
}

TEST_F(Run, AChatKeepsItsContextAndEvaluatesOnlyWhatIsNew) {
    const Finished one = [&] {
        Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "4", "--temp", "0", "--stats", scratch_ / "s.json"});
        chat.type("hello\n");
        return chat.wait();
    }();
    EXPECT_EQ(one.exit_code, 0) << one.err;
    const int first = stats().at("prompt_tokens");
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "4", "--temp", "0", "--stats", scratch_ / "s.json"});
    chat.type("hello\nhello\n");
    EXPECT_EQ(chat.wait().exit_code, 0);
    const int both = stats().at("prompt_tokens");
    EXPECT_GT(both, first);
    EXPECT_LT(both, 3 * first); // the second prompt contains the first one and its answer; both are cached
}

TEST_F(Run, AChatCanBeClearedAndLeft) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "4", "--temp", "0", "-q"});
    chat.type("hello\nand you\n/clear\nhello\n/exit\nnot read\n");
    const Finished result = chat.wait_with_open_input();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> answers;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
        answers.push_back(line);
    }
    ASSERT_EQ(answers.size(), 3U) << result.out;
    EXPECT_EQ(answers[0], answers[2]); // after /clear the chat equals a new one
}

TEST_F(Run, LlamaCppsShortFlagsMeanWhatTheyMeanThere) {
    const Finished result =
        larder({"run",  model_, "-p",  "a", "-n", "9",  "-n", "2",  "-ub",     "64", "-fa",     "off",
                "-ctk", "q8_0", "-tb", "1", "-t", "-1", "-s", "-1", "-no-cnv", "-q", "--stats", scratch_ / "s.json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(stats().at("decode_tokens"), 1); // the last -n applies
    EXPECT_EQ(stats().at("ubatch_tokens"), 64);
}

TEST_F(Run, SaysWhichUbatchThePlanChose) {
    for (const bool little : {false, true}) {
        const Finished result = larder({"run", "-m", model_, "--ram", little ? "50M" : "1G", "-p", "a", "-n", "1", "-t",
                                        "1", "-c", "4096", "--stats", scratch_ / "s.json"});
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const uint32_t ubatch = stats().at("ubatch_tokens");
        EXPECT_EQ(ubatch < 512, little) << ubatch;
        EXPECT_THAT(result.err, HasSubstr("(ubatch " + std::to_string(ubatch) + "), overhead"));
    }
    EXPECT_THAT(larder({"run", "--help"}).out, HasSubstr("chosen by the plan, at most 512"));
}

TEST_F(Run, CtrlCStopsTheAnswerAndThenTheProgram) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "--ignore-eos", "--temp", "0", "-c", "100000", "--stats",
                  scratch_ / "s.json"});
    ASSERT_TRUE(chat.wait_for_error("arena"));
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_bytes(20));
    chat.signal(SIGINT);
    ASSERT_TRUE(chat.wait_for_output_lines(1)); // the answer was far from the end of its context
    chat.signal(SIGINT);
    const Finished result = chat.wait_with_open_input();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LT(stats().at("decode_tokens"), 50'000);
    EXPECT_THAT(result.err, HasSubstr("tok/s"));
}

TEST_F(Run, SigtermInAnAnswerEndsTheChatWithTheCodeOfASignal) {
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "--ignore-eos", "--temp", "0", "-c", "100000"});
    chat.type("hello\n");
    ASSERT_TRUE(chat.wait_for_output_bytes(20));
    chat.signal(SIGTERM);
    EXPECT_EQ(chat.wait_with_open_input().exit_code, 130);
}

// The part of a prompt that was evaluated stays cached.
TEST_F(Run, CtrlCInAPromptKeepsWhatWasComputed) {
    std::string prompt;
    for (int i = 0; i < 1200; i++) {
        prompt += "ab ";
    }
    Process chat({LARDER_PROGRAM, "run", "-m", model_, "-n", "1", "--temp", "0", "-c", "8192", "-t", "1", "-b", "256",
                  "-ub", "256", "--raw", "--stats", scratch_ / "s.json"});
    chat.type(prompt + "\n");
    ASSERT_TRUE(chat.wait_for_error("kernels: "));
    uint64_t computed = 0;
    while (computed < 256) {
        chat.signal(SIGUSR2);
        usleep(20'000);
        const nlohmann::json now = nlohmann::json::parse(contents(scratch_ / "s.json"), nullptr, false);
        computed = now.is_object() ? now.at("prompt_tokens").get<uint64_t>() : 0;
    }
    chat.signal(SIGINT);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    chat.type(prompt + "\n");
    const Finished result = chat.wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json without = [&] {
        Process once({LARDER_PROGRAM, "run", "-m", model_, "-n", "1", "--temp", "0", "-c", "8192", "-b", "256", "-ub",
                      "256", "--raw", "--stats", scratch_ / "s1.json"});
        once.type(prompt + "\n");
        once.wait();
        return nlohmann::json::parse(contents(scratch_ / "s1.json"));
    }();
    EXPECT_LT(stats().at("prompt_tokens").get<uint64_t>(), 2 * without.at("prompt_tokens").get<uint64_t>());
}

TEST_F(Run, HelpNamesTheFlagsAndVersionNamesLlamaCpp) {
    const Finished help = larder({"run", "--help"});
    EXPECT_EQ(help.exit_code, 0);
    for (const char *flag :
         {"--model", "--ram", "--prompt", "--ctx-size", "--threads", "--stats", "--temp", "--top-k", "--raw"}) {
        EXPECT_THAT(help.out, HasSubstr(flag));
    }
    EXPECT_THAT(help.out, Not(HasSubstr("verify-side")));
    const Finished version = larder({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_THAT(version.out, HasSubstr("larder 0."));
    EXPECT_THAT(version.out, HasSubstr("llama.cpp 0.5.0"));
}

} // namespace
} // namespace larder::test
