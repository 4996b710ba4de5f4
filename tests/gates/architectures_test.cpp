// All architectures of llama.cpp, as tiny models that llama.cpp's own test program makes (tests/tiny_models). With the
// smallest arena larder gives the same logits as stock to the last bit, or refuses the model and gives the reason.
#include "gates/compare.h"
#include "support/process.h"
#include "support/scratch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

struct TinyModel {
    std::string architecture;
    std::string kind; // "moe" or "dense"

    auto operator<=>(const TinyModel &) const = default;
};

void PrintTo(const TinyModel &model, std::ostream *out) { *out << model.architecture << ' ' << model.kind; }

const std::string diffusion = "is a diffusion model, which fills in a whole text at once: larder generates token by "
                              "token; use llama.cpp's llama-diffusion-cli";
const std::string encoder = "is an encoder, which gives embeddings and no next token: larder generates token by token; "
                            "use llama.cpp's llama-embedding";
const std::string encoder_and_decoder =
    "is an encoder with a decoder: larder runs decoders only; use llama.cpp's llama-completion";

// Models that cannot run token by token, in llama.cpp either.
const std::map<TinyModel, std::string> refused = {
    {{"dream", "dense"}, diffusion},        {{"llada", "dense"}, diffusion},         {{"llada-moe", "moe"}, diffusion},
    {{"rnd1", "moe"}, diffusion},           {{"modern-bert", "dense"}, encoder},     {{"neo-bert", "dense"}, encoder},
    {{"eurobert", "dense"}, encoder},       {{"gemma-embedding", "dense"}, encoder}, {{"t5encoder", "dense"}, encoder},
    {{"t5", "dense"}, encoder_and_decoder},
};

// llama.cpp's graph of it omits the experts that its loader requires.
const TinyModel without_routes = {"refact", "moe"};

std::vector<TinyModel> all_models() {
    std::istringstream lines(run({LARDER_TINY_MODELS}).out);
    std::vector<TinyModel> models;
    for (TinyModel model; lines >> model.architecture >> model.kind;) {
        models.push_back(model);
    }
    return models;
}

std::string name_of(const testing::TestParamInfo<TinyModel> &info) {
    std::string name = info.param.architecture + "_" + info.param.kind;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

class Architectures : public testing::TestWithParam<TinyModel> {
  protected:
    Architectures() : path_(scratch_ / "tiny.gguf") {
        const Finished made = run({LARDER_TINY_MODELS, GetParam().architecture, GetParam().kind, path_});
        EXPECT_EQ(made.exit_code, 0) << made.err;
    }

    [[nodiscard]] TestOptions options(Residency residency, uint32_t ubatch) const {
        TestOptions options = options_for(path_, residency, ubatch, 2);
        options.model.context.ctx_tokens = 256; // the training context
        return options;
    }

    void expect_refusal(const std::string &words) {
        for (const Residency residency : {Residency::arena, Residency::stock}) {
            SCOPED_TRACE(to_string(residency));
            try {
                open_as(options(residency, 512));
                ADD_FAILURE() << "was opened";
            } catch (const Error &error) {
                EXPECT_EQ(error.kind(), ErrorKind::model);
                EXPECT_EQ(error.what(), fmt::format("{}: {} {}", path_, GetParam().architecture, words));
            }
        }
        const Finished ran = larder({"run", "-m", path_, "-p", "a", "-q"});
        EXPECT_EQ(ran.exit_code, 1);
        EXPECT_EQ(ran.err, fmt::format("error: {}: {} {}\n", path_, GetParam().architecture, words));
    }

    void compare(uint32_t ubatch, size_t prompt_tokens) {
        SCOPED_TRACE(fmt::format("ubatch {}", ubatch));
        const auto stock = open_as(options(Residency::stock, ubatch));
        const auto larder = open_as(options(Residency::arena, ubatch));
        ASSERT_EQ(larder->plan().arena_bytes, larder->plan().floor_bytes);
        const std::vector<Token> prompt = tokens_of_length(prompt_tokens, larder->n_vocab());
        const Evaluation theirs = evaluate(*stock, prompt);
        const Evaluation ours = evaluate(*larder, prompt);
        ASSERT_GT(theirs.logits.size(), prompt_tokens * larder->n_vocab());
        ASSERT_EQ(ours.logits.size(), theirs.logits.size());
        EXPECT_EQ(ours.decoded, theirs.decoded);
        EXPECT_EQ(first_different_row(theirs, ours, larder->n_vocab()), SIZE_MAX);
        if (!larder->layout().expert_tensors.empty()) {
            EXPECT_LT(larder->plan().arena_bytes, larder->layout().routed_bytes / 2);
            evictions_ += larder->figures().store.evictions;
        }
    }

    Scratch scratch_;
    std::string path_;
    uint64_t evictions_ = 0;
};

TEST_P(Architectures, GiveStocksLogitsOrATrueRefusal) {
    const auto refusal = refused.find(GetParam());
    if (refusal != refused.end()) {
        expect_refusal(refusal->second);
        return;
    }
    compare(1, 7);
    compare(512, 130);
    if (!open_layout(path_).expert_tensors.empty()) {
        EXPECT_EQ(evictions_ > 0, GetParam() != without_routes) << evictions_;
    }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Architectures, testing::ValuesIn(all_models()), name_of);

// Otherwise a tool that lists nothing would pass.
TEST(TinyModels, AreThereForEveryArchitectureThatIsNamedHere) {
    const std::vector<TinyModel> models = all_models();
    EXPECT_THAT(models, testing::Contains(without_routes));
    for (const auto &[model, words] : refused) {
        EXPECT_THAT(models, testing::Contains(model));
    }
    EXPECT_GT(std::ranges::count(models, "moe", &TinyModel::kind), 50);
}

} // namespace
} // namespace larder::test
