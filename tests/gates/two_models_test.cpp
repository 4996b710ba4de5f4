// A target and a draft model in one process: one budget, both stream experts, both give exact logits.
#include "base/bytes.h"
#include "gates/compare.h"
#include "support/cgroup.h"
#include "support/greedy_walk.h"
#include "support/model_fixture.h"
#include "support/process.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace larder::test {
namespace {

constexpr size_t n_prompt = 100;
constexpr size_t n_decode = 24;

uint64_t stock_digest(const std::string &path) {
    TestOptions options;
    options.model.path = path;
    options.model.kernels = Kernels::plain;
    options.model.context.ctx_tokens = 256;
    options.model.context.ubatch_tokens = 32;
    options.model.context.batch_tokens = 32;
    options.model.context.threads = 2;
    options.residency = Residency::stock;
    const std::unique_ptr<OpenModel> stock = open_as(options);
    GreedyWalk walk(stock->host().context());
    walk.prefill(n_prompt);
    for (size_t i = 0; i < n_decode; i++) {
        walk.decode();
    }
    return walk.digest();
}

TEST(TwoModels, InOneProcessStayInsideTheBudgetAndBothHaveStocksBits) {
    const Scratch scratch;
    const std::string target =
        make_model(scratch, "target.gguf", "--arch qwen3moe --quant q8_0 --layers 8 --experts 64 --embd 512 --ff 512");
    const std::string draft =
        make_model(scratch, "draft.gguf", "--arch qwen35moe --quant q4_k_m --layers 4 --experts 32 --embd 256");
    const uint64_t target_digest = stock_digest(target);
    const uint64_t draft_digest = stock_digest(draft);

    constexpr uint64_t budget = 160 * MiB;
    const Cgroup cgroup(budget);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    const Finished result = run(
        {LARDER_TWO_MODELS, target, draft, std::to_string(budget), std::to_string(n_prompt), std::to_string(n_decode)},
        cgroup.procs());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(cgroup.kills(), 0U);
    EXPECT_LE(cgroup.peak_bytes(), budget);
    const auto found = nlohmann::json::parse(result.out);
    EXPECT_EQ(found.at("target").at("logits"), target_digest);
    EXPECT_EQ(found.at("draft").at("logits"), draft_digest);
    for (const char *model : {"target", "draft"}) {
        EXPECT_GT(found.at(model).at("evictions"), 0) << model << " streams";
        EXPECT_GT(found.at(model).at("misses"), 0) << model;
        EXPECT_LT(found.at(model).at("arena_bytes"), found.at(model).at("routed_bytes")) << model;
    }
    EXPECT_LE(found.at("peak_rss_bytes"), budget);
    EXPECT_LE(found.at("peak_rss_bytes"), found.at("planned_bytes")) << "each counts what the other takes";
}

} // namespace
} // namespace larder::test
