// The model that ships with larder: the claims of its card, and larder on it and on its K-quant versions.
#include "gates/compare.h"
#include "support/process.h"
#include "support/scratch.h"

#include "llama.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace larder::test {
namespace {

const std::string shipped = std::string(LARDER_SOURCE_DIR) + "/models/kjv-moe-32x4.q8_0.gguf";

TEST(TrainedModel, IsTheOneThatItsChecksumNamesAndSmall) {
    const Finished sum =
        run({"/bin/sh", "-c", "cd '" + std::string(LARDER_SOURCE_DIR) + "/models' && sha256sum --check SHA256SUMS"});
    EXPECT_EQ(sum.exit_code, 0) << sum.out << sum.err;
    EXPECT_LT(std::filesystem::file_size(shipped), 10'000'000U);
}

struct Version {
    const char *name;
    llama_ftype type;
};

class TrainedModelVersions : public testing::TestWithParam<Version> {};

// The down matrices have rows of 32, so they keep a type with blocks of 32. Each version has slices of two types.
TEST_P(TrainedModelVersions, LogitsAreStocksToTheLastBitWithACacheOfOneTokensExperts) {
    const Scratch scratch;
    std::string model = shipped;
    if (GetParam().type != LLAMA_FTYPE_MOSTLY_Q8_0) {
        model = scratch / "version.gguf";
        llama_model_quantize_params params = llama_model_quantize_default_params();
        params.ftype = GetParam().type;
        params.allow_requantize = true;
        params.nthread = 2;
        ASSERT_EQ(llama_model_quantize(shipped.c_str(), model.c_str(), &params), 0U);
    }
    compare_at(model, 1, 1, Kernels::plain, {7, 40});
    compare_at(model, 512, 2, Kernels::plain, {7, 300});
    compare_at(model, 32, 2, Kernels::repacked, {7, 130});
    compare_at(model, 32, 2, Kernels::mixed, {7, 130});
}

INSTANTIATE_TEST_SUITE_P(All, TrainedModelVersions,
                         testing::Values(Version{"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
                                         Version{"q6_k", LLAMA_FTYPE_MOSTLY_Q6_K},
                                         Version{"q5_k_m", LLAMA_FTYPE_MOSTLY_Q5_K_M},
                                         Version{"q4_k_m", LLAMA_FTYPE_MOSTLY_Q4_K_M},
                                         Version{"q2_k", LLAMA_FTYPE_MOSTLY_Q2_K}),
                         [](const auto &tested) { return tested.param.name; });

// Training made tokens reuse experts of the previous token, so the hit rate of an arena for a third of the experts is
// above a third, which is the rate by chance.
TEST(TrainedModel, RoutesSoThatACacheIsWorthwhileAndSimulateReadsItsTrace) {
    const Scratch scratch;
    const Finished ran = larder({"run", "-m", shipped, "--raw", "-p", "And the king said unto", "-n", "200", "--temp",
                                 "0.6", "--seed", "7", "--ignore-eos", "-c", "512", "--trace", scratch / "kjv.jsonl"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    // Of 256 experts.
    const Finished simulated = larder({"simulate", scratch / "kjv.jsonl", "--slots", "85", "-o", "json"});
    ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
    const auto report = nlohmann::json::parse(simulated.out);
    EXPECT_GT(report.at("traces").at(0).at("rows").at(0).at("hit_rate").at("lfru"), 0.4);
}

} // namespace
} // namespace larder::test
