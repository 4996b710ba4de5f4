// Planned against measured memory, for each architecture: graphs, caches and embeddings differ most between them. The
// plan includes the text process; the measured memory is that of this process alone.
#include "base/bytes.h"
#include "support/process.h"
#include "support/scratch.h"
#include "text/text_process.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

// The stats of a run that continues the text.
nlohmann::json stats_of(const Scratch &scratch, const std::string &model, const std::string &text,
                        const std::vector<std::string> &more) {
    std::ofstream(scratch / "prompt.txt") << text;
    std::vector<std::string> arguments = {
        "run",    "-m", model, "--raw", "-f",      scratch / "prompt.txt", "--ignore-eos",
        "--temp", "0",  "-t",  "2",     "--stats", scratch / "stats.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished result = larder(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(contents(scratch / "stats.json"), nullptr, result.exit_code == 0);
}

class PlanOf : public testing::TestWithParam<const char *> {
  protected:
    // A run that fills its context and all slots.
    static nlohmann::json full_run(const std::string &architecture, const std::string &kernels) {
        const Scratch scratch;
        std::string prompt;
        for (int i = 1; i < 1000; i++) {
            prompt += static_cast<char>('!' + i * i % 97 % 94);
        }
        return stats_of(scratch, make_model(scratch, "m.gguf", "--arch " + architecture), prompt,
                        {"--ram", "400M", "-c", "1024", "-ub", "256", "--kernels", kernels, "-n", "24"});
    }
};

TEST_P(PlanOf, CoversTheProcessByNoMoreThanItsUncertainty) {
    for (const char *kernels : {"plain", "mixed"}) {
        const nlohmann::json stats = full_run(GetParam(), kernels);
        const auto planned = stats.at("planned_bytes").get<uint64_t>();
        const auto peak = stats.at("peak_rss_bytes").get<uint64_t>();
        EXPECT_LE(peak, planned) << kernels << stats.dump(2);
        EXPECT_GE(peak, planned - text_process_bytes - planned / 50 - 3 * MiB) << kernels << stats.dump(2);
    }
}

INSTANTIATE_TEST_SUITE_P(Architectures, PlanOf,
                         testing::Values("qwen3moe", "qwen35moe", "smallthinker", "gemma4", "gpt-oss", "deepseek2",
                                         "glm4moe", "llama", "olmoe", "qwen2moe", "qwen3"),
                         [](const auto &tested) {
                             std::string name = tested.param;
                             std::erase(name, '-');
                             return name;
                         });

// The file's metadata, which contain the texts of all tokens, are freed before the arena is full.
TEST(PlanOfALargeVocabulary, DoesNotHoldItTwice) {
    const Scratch scratch;
    const std::string model = make_model(scratch, "m.gguf",
                                         "--arch qwen3moe --layers 4 --experts 64 --top-k 4 --embd 256 --ff 256 "
                                         "--vocab 150000");
    const nlohmann::json stats = stats_of(scratch, model, std::string(1900, '7'), // two characters per token
                                          {"--ram", "230M", "-c", "1024", "-n", "24"});
    EXPECT_GE(stats.at("prompt_tokens"), 900);
    const auto planned = stats.at("planned_bytes").get<uint64_t>();
    const auto peak = stats.at("peak_rss_bytes").get<uint64_t>();
    EXPECT_LE(peak, planned) << stats.dump(2);
    const uint64_t sampler = 150000 * 40; // an upper bound; not every sampler sorts all candidates
    EXPECT_GE(peak, planned - text_process_bytes - planned / 50 - sampler - 3 * MiB) << stats.dump(2);
}

// Their activations are converted to 2 bytes per element, those of quantised experts to about 1.
TEST(PlanOfFloatExperts, CoversTheirActivations) {
    const Scratch scratch;
    for (const char *quant : {"f16", "bf16"}) {
        const std::string model = make_model(
            scratch, "m.gguf",
            std::string("--arch qwen3moe --layers 2 --experts 8 --top-k 4 --embd 512 --ff 4096 --quant ") + quant);
        const nlohmann::json stats =
            stats_of(scratch, model, std::string(1900, '7'),
                     {"--ram", "400M", "-c", "2048", "-ub", "512", "-n", "2", "--kernels", "plain"});
        EXPECT_GE(stats.at("prompt_tokens"), 900);
        const auto planned = stats.at("planned_bytes").get<uint64_t>();
        const auto peak = stats.at("peak_rss_bytes").get<uint64_t>();
        EXPECT_LE(peak, planned) << quant << stats.dump(2);
    }
}

// gemma's embedding is also its output matrix. llama.cpp makes two tensors of it in one buffer.
TEST(PlanOfTiedEmbedding, HoldsItOnceForEachOfItsLayouts) {
    const Scratch scratch;
    const std::string model = make_model(scratch, "m.gguf", "--arch gemma4 --quant q4_0 --vocab 40000 --embd 512");
    const uint64_t embedding = 40000 * 512 * 18 / 32;
    for (const auto &[kernels, layouts] : {std::pair{"plain", 1U}, std::pair{"mixed", 2U}}) {
        const Finished result = larder({"run", "-m", model, "--ram", "400M", "-c", "512", "--kernels", kernels, "-p",
                                        "a", "-n", "2", "--stats", scratch / "stats.json"});
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const auto stats = nlohmann::json::parse(contents(scratch / "stats.json"));
        EXPECT_LT(stats.at("resident_bytes"), embedding * layouts + 10 * MiB) << kernels;
        EXPECT_GT(stats.at("resident_bytes"), embedding * layouts) << kernels;
        EXPECT_LE(stats.at("peak_rss_bytes"), stats.at("planned_bytes")) << kernels;
    }
}

} // namespace
} // namespace larder::test
