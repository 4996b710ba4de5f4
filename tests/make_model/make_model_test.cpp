// Models written by larder-make-model, as llama.cpp reads them.
#include "stock_model.h"

#include <ggml-cpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

namespace larder::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t token_count = 40;

std::vector<llama_token> varied_tokens(size_t vocab_size) {
    std::vector<llama_token> tokens(token_count);
    for (size_t i = 0; i < token_count; ++i) {
        tokens[i] = static_cast<llama_token>((i * 97 + 5) % vocab_size);
    }
    return tokens;
}

std::string contents(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A temporary folder for each test.
class MakeModel : public testing::Test {
  protected:
    MakeModel() {
        std::string pattern = (fs::temp_directory_path() / "make-model-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
    }
    ~MakeModel() override { fs::remove_all(folder_); }

    // Runs the tool and returns its exit code. printed() has its output. `before`: shell commands that run first.
    int run(const std::string &arguments, const std::string &before = {}) {
        const std::string command =
            before + LARDER_MAKE_MODEL + " " + arguments + " >" + (folder_ / "printed").string() + " 2>&1";
        return WEXITSTATUS(std::system(command.c_str()));
    }
    [[nodiscard]] std::string printed() const { return contents(folder_ / "printed"); }

    fs::path make(const std::string &name, const std::string &arguments) {
        const fs::path path = folder_ / name;
        EXPECT_EQ(run(arguments + " --out " + path.string()), 0) << printed();
        return path;
    }

    fs::path folder_;
};

void expect_sound(const std::vector<float> &logits, size_t vocab_size) {
    ASSERT_EQ(logits.size(), token_count * vocab_size);
    EXPECT_TRUE(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
    std::set<ptrdiff_t> best;
    for (size_t i = 0; i < token_count; ++i) {
        const auto row = std::span(logits).subspan(i * vocab_size, vocab_size);
        const auto [low, high] = std::ranges::minmax_element(row);
        EXPECT_GT(*high - *low, 1.0F) << "position " << i << " prefers nothing";
        best.insert(std::distance(row.begin(), high));
    }
    EXPECT_GT(best.size(), token_count / 4);
}

void expect_varied(const StockModel::Routing &routing, size_t moe_layers) {
    EXPECT_EQ(routing.size(), moe_layers);
    for (const auto &[layer, chosen] : routing) {
        const std::set<std::set<int32_t>> different(chosen.begin(), chosen.end());
        EXPECT_GT(different.size(), chosen.size() / 4) << layer;
    }
}

struct Family {
    const char *name;
    size_t moe_layers;

    friend void PrintTo(const Family &family, std::ostream *out) { *out << family.name; }
};

class EveryArchitecture : public MakeModel, public testing::WithParamInterface<Family> {};

TEST_P(EveryArchitecture, LoadsDecodesAndRoutesByToken) {
    const auto [name, moe_layers] = GetParam();
    StockModel model(make("model.gguf", std::string("--arch ") + name));
    const auto logits = model.decode(varied_tokens(model.vocab_size()));
    expect_sound(logits, model.vocab_size());
    expect_varied(model.routing(), moe_layers);
}

INSTANTIATE_TEST_SUITE_P(MakeModel, EveryArchitecture,
                         testing::Values(Family{"qwen3moe", 4}, Family{"qwen35moe", 8}, Family{"smallthinker", 4},
                                         Family{"gemma4", 5}, Family{"gpt-oss", 4}, Family{"deepseek2", 3},
                                         Family{"glm4moe", 3}, Family{"llama", 4}, Family{"olmoe", 4},
                                         Family{"qwen2moe", 4}, Family{"qwen3", 0}),
                         [](const auto &test) {
                             std::string name = test.param.name;
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

class EveryQuant : public MakeModel, public testing::WithParamInterface<const char *> {};

TEST_P(EveryQuant, LoadsAndDecodes) {
    StockModel model(make("model.gguf", std::string("--arch qwen3moe --layers 2 --experts 8 --quant ") + GetParam()));
    const auto logits = model.decode(varied_tokens(model.vocab_size()));
    expect_sound(logits, model.vocab_size());
    expect_varied(model.routing(), 2);
}

INSTANTIATE_TEST_SUITE_P(MakeModel, EveryQuant,
                         testing::Values("f32", "f16", "bf16", "q8_0", "q4_0", "q2_k", "q4_k_m", "q5_k_m", "q6_k",
                                         "mxfp4", "iq4_nl", "iq4_xs", "iq3_s", "iq2_xs"),
                         [](const auto &test) { return std::string(test.param); });

TEST_F(MakeModel, EqualSeedsGiveEqualBytes) {
    const std::string shape = "--arch qwen3moe --layers 2 --experts 8 --seed ";
    const std::string first = contents(make("first.gguf", shape + "7"));
    EXPECT_EQ(first, contents(make("second.gguf", shape + "7")));
    EXPECT_NE(first, contents(make("third.gguf", shape + "8")));
}

TEST_F(MakeModel, EveryExpertDiffersFromEveryOther) {
    const fs::path path = make("model.gguf", "--arch qwen3moe --layers 2 --experts 32");
    const gguf_context_ptr file(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
    const std::string bytes = contents(path);
    std::set<std::string_view> slices;
    size_t slice_count = 0;
    for (int64_t id = 0; id < gguf_get_n_tensors(file.get()); ++id) {
        if (!std::string_view(gguf_get_tensor_name(file.get(), id)).ends_with("_exps.weight")) {
            continue;
        }
        const size_t slice_bytes = gguf_get_tensor_size(file.get(), id) / 32;
        const size_t begin = gguf_get_data_offset(file.get()) + gguf_get_tensor_offset(file.get(), id);
        for (size_t expert = 0; expert < 32; ++expert) {
            slices.insert(std::string_view(bytes).substr(begin + expert * slice_bytes, slice_bytes));
            ++slice_count;
        }
    }
    EXPECT_EQ(slice_count, 2U * 3U * 32U);
    EXPECT_EQ(slices.size(), slice_count);
}

TEST_F(MakeModel, ShardsHoldTheSameModel) {
    const std::string shape = "--arch qwen35moe --layers 4 --experts 8";
    StockModel whole(make("whole.gguf", shape));
    make("parts.gguf", shape + " --split 3");
    EXPECT_FALSE(fs::exists(folder_ / "parts.gguf"));
    EXPECT_TRUE(fs::exists(folder_ / "parts-00003-of-00003.gguf"));
    StockModel parts(folder_ / "parts-00001-of-00003.gguf");
    const auto tokens = varied_tokens(whole.vocab_size());
    EXPECT_EQ(whole.decode(tokens), parts.decode(tokens));
}

TEST_F(MakeModel, EveryTensorMayBeAShard) {
    const std::string shape = "--arch qwen3 --layers 1 --embd 64 --ff 64 --vocab 300";
    EXPECT_EQ(run(shape + " --split 1000 --out " + (folder_ / "parts.gguf").string()), 2);
    make("parts.gguf", shape + " --split 13");
    StockModel parts(folder_ / "parts-00001-of-00013.gguf");
    expect_sound(parts.decode(varied_tokens(parts.vocab_size())), parts.vocab_size());
}

TEST_F(MakeModel, TextGoesThroughTheVocabularyUnchanged) {
    const StockModel model(make("model.gguf", "--arch qwen3moe --layers 1 --experts 2 --top-k 1"));
    EXPECT_EQ(model.vocab_size(), 2048U);
    const std::string text = "The larder holds 42 jars;\n\tnaïve Größe, 日本語 and 🦀 too.";
    const auto tokens = model.tokenize(text);
    EXPECT_LT(tokens.size(), text.size());
    EXPECT_EQ(model.detokenize(tokens), text);
}

TEST_F(MakeModel, ChatTokensEndTheAnswer) {
    const StockModel model(make("model.gguf", "--arch qwen3moe --layers 1 --experts 2 --top-k 1 --vocab 512"));
    const auto end = model.tokenize("<|im_end|>");
    ASSERT_EQ(end.size(), 1U);
    EXPECT_TRUE(llama_vocab_is_eog(model.vocab(), end[0]));
    EXPECT_TRUE(llama_vocab_is_control(model.vocab(), end[0]));
    EXPECT_EQ(llama_vocab_eos(model.vocab()), end[0]);
    EXPECT_EQ(model.tokenize("<|im_start|>user\n").front(), end[0] - 1);
    EXPECT_NE(llama_model_chat_template(model.model(), nullptr), nullptr);
}

TEST_F(MakeModel, WrongArgumentsAreUsageErrors) {
    const std::string out = " --out " + (folder_ / "model.gguf").string();
    EXPECT_EQ(run("--arch nonesuch" + out), 2);
    EXPECT_NE(printed().find("qwen35moe"), std::string::npos);
    EXPECT_EQ(run("--arch qwen3moe --quant q9" + out), 2);
    EXPECT_NE(printed().find("iq4_xs"), std::string::npos);
    EXPECT_EQ(run("--arch qwen3moe --experts 4 --top-k 5" + out), 2);
    EXPECT_EQ(run("--arch qwen3 --experts 4" + out), 2);
    EXPECT_EQ(run("--arch qwen3moe --embd 250" + out), 2);
    EXPECT_EQ(run("--arch qwen3moe --vocab 100" + out), 2);
    EXPECT_EQ(run("--arch qwen3moe"), 2);
    EXPECT_EQ(run("--nonesuch"), 2);
    EXPECT_FALSE(fs::exists(folder_ / "model.gguf"));
}

TEST_F(MakeModel, LeavesNothingBehindWhenItCannotWrite) {
    EXPECT_EQ(run("--arch qwen3 --out " + (folder_ / "missing" / "model.gguf").string()), 1);

    // The limit of 1 MiB is less than the model.
    const fs::path cut = folder_ / "cut.gguf";
    EXPECT_EQ(run("--arch qwen3 --out " + cut.string(), "ulimit -f 1024; trap '' XFSZ; "), 1);
    EXPECT_NE(printed().find("writing"), std::string::npos) << printed();
    EXPECT_FALSE(fs::exists(cut));
    EXPECT_FALSE(fs::exists(folder_ / "cut.gguf.tmp"));
}

TEST_F(MakeModel, ReplacesNothingButFiles) {
    const fs::path taken = folder_ / "taken.gguf";
    fs::create_directory(taken);
    EXPECT_EQ(run("--arch qwen3 --out " + taken.string()), 1);
    EXPECT_TRUE(fs::is_directory(taken));
    EXPECT_FALSE(fs::exists(folder_ / "taken.gguf.tmp"));
}

} // namespace
} // namespace larder::test
