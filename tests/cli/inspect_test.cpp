// larder inspect: the account as text and as JSON, with the model's own strings escaped.
#include "support/process.h"
#include "support/rewritten_gguf.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Inspect : public testing::Test {
  protected:
    static Finished shown(const std::vector<std::string> &arguments) {
        std::vector<std::string> command = {"inspect"};
        command.insert(command.end(), arguments.begin(), arguments.end());
        Finished result = larder(command);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.err, "");
        return result;
    }
    Scratch scratch_;
};

TEST_F(Inspect, SaysTheSameToPeopleAndToPrograms) {
    const std::string model =
        make_model(scratch_, "m.gguf", "--arch qwen3moe --layers 3 --experts 8 --top-k 2 --vocab 600 --quant q8_0");
    const std::string text = shown({model}).out;
    const auto account = nlohmann::json::parse(shown({model, "--json"}).out);
    EXPECT_THAT(text, HasSubstr("3, of which 3 have 8 experts each; 2 are used for a token"));
    EXPECT_EQ(account.at("n_layer"), 3);
    EXPECT_EQ(account.at("n_expert"), 8);
    EXPECT_EQ(account.at("n_expert_used"), 2);
    for (const char *key : {"total_bytes", "routed_bytes", "resident_bytes", "file_bytes"}) {
        EXPECT_THAT(text, HasSubstr(account.at(key).dump() + " B")) << key;
    }
    EXPECT_EQ(account.at("slices").size(), 3U);
    EXPECT_EQ(account.at("routed_bytes").get<uint64_t>() + account.at("resident_bytes").get<uint64_t>(),
              account.at("total_bytes").get<uint64_t>());
}

TEST_F(Inspect, CountsAllShards) {
    make_model(scratch_, "m.gguf", "--arch qwen3moe --layers 2 --experts 8 --top-k 2 --vocab 600 --split 3");
    const std::string shard = scratch_ / "m-00002-of-00003.gguf";
    EXPECT_THAT(shown({shard}).out, HasSubstr("m-00001-of-00003.gguf and 2 more shards\n"));
    EXPECT_EQ(nlohmann::json::parse(shown({"--json", shard}).out).at("files").size(), 3U);
}

TEST_F(Inspect, SaysThatADenseModelHasNoExperts) {
    const std::string model = make_model(scratch_, "d.gguf", "--arch qwen3 --layers 2 --vocab 600");
    const std::string text = shown({model}).out;
    EXPECT_THAT(text, HasSubstr("2, none with routed experts: all weights stay in RAM"));
    EXPECT_THAT(text, Not(HasSubstr("one expert")));
    EXPECT_EQ(nlohmann::json::parse(shown({model, "--json"}).out).at("routed_bytes"), 0);
}

TEST_F(Inspect, CutsAndCleansTheModelsOwnTexts) {
    const std::string model = make_model(scratch_, "m.gguf", "--arch qwen3 --layers 1 --vocab 600");
    const std::string name = "\x1b[31m\n" + std::string(100'000, 'x');
    const std::string path = RewrittenGguf(model).set("general.name", name.c_str()).write(scratch_ / "named.gguf");
    const std::string text = shown({path}).out;
    EXPECT_THAT(text, HasSubstr("qwen3, ?[31m?xxxx"));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_LT(text.size(), 3000U);
    EXPECT_LT(shown({path, "--json"}).out.size(), 10'000U);
}

} // namespace
} // namespace larder::test
