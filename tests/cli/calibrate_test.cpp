// larder calibrate: all figures exist and add up. Their values depend on the machine.
#include "base/bytes.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace larder::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Calibrate : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path =
            make_model(scratch, "m.gguf", "--arch qwen3moe --quant q8_0 --layers 4 --experts 32 --embd 256 --ff 512");
        return path;
    }
    static Finished calibrate(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"calibrate", "-m", model(), "-t", "1", "-c", "512"});
        return larder(arguments);
    }
};

TEST_F(Calibrate, RunsTheModelWithEachReserve) {
    const Finished result = calibrate({"--ram", "80M", "--reserves", "16M,4M,8M", "-o", "json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json j = json::parse(result.out);
    ASSERT_EQ(j.at("reserves").size(), 3U);
    uint64_t arena_before = UINT64_MAX;
    for (size_t i = 0; i < 3; i++) {
        const json &row = j.at("reserves").at(i);
        EXPECT_EQ(row.at("asked_bytes"), (4 << i) * MiB) << "in order";
        EXPECT_EQ(row.at("reserve_bytes"), row.at("asked_bytes"));
        const auto arena = row.at("arena_bytes").get<uint64_t>();
        EXPECT_LT(arena, arena_before) << "what is not kept free is arena";
        arena_before = arena;
        EXPECT_GT(row.at("slots"), 0);
        EXPECT_GT(row.at("peak_anonymous_bytes"), arena) << "all of it was touched";
        EXPECT_LE(row.at("peak_anonymous_bytes"), row.at("peak_rss_bytes"));
        EXPECT_EQ(row.at("room_left_bytes").get<int64_t>(),
                  static_cast<int64_t>(80 * MiB) - row.at("peak_rss_bytes").get<int64_t>());
        EXPECT_EQ(row.at("within_budget"), row.at("room_left_bytes") >= 0);
        EXPECT_LE(row.at("overhead_measured_bytes"), row.at("overhead_bytes").get<int64_t>() + int64_t{4 * MiB});
    }
    EXPECT_FALSE(j.at("smallest_reserve_bytes").is_null());
}

TEST_F(Calibrate, PrintsATableWithTheReservesThatWereRefused) {
    const Finished result = calibrate({"--ram", "80M", "--reserves", "5M,70M"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char *text : {"|  asked for |    reserve |", "peak anon.", "within the budget", "|    5.0 MiB |",
                             "yes, ", " left", "|   70.0 MiB |", "no: a budget of 80 MiB", "--reserve 5120K"}) {
        EXPECT_THAT(result.out, HasSubstr(text));
    }
}

TEST_F(Calibrate, ShowsTheReserveThatWasInForceBesideTheOneAskedFor) {
    const std::vector<std::string> flags = {"--ram", "80M", "-c", "4096", "--reserves", "0,4K"};
    std::vector<std::string> as_json = flags;
    as_json.insert(as_json.end(), {"-o", "json"});
    const Finished result = calibrate(as_json);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json j = json::parse(result.out);
    for (size_t i = 0; i < 2; i++) {
        const json &row = j.at("reserves").at(i);
        EXPECT_EQ(row.at("asked_bytes"), i * 4 * KiB);
        EXPECT_GT(row.at("transient_bytes").get<uint64_t>(), 4 * KiB);
        EXPECT_EQ(row.at("reserve_bytes").get<uint64_t>(), row.at("transient_bytes").get<uint64_t>() + i * KiB);
    }
    EXPECT_EQ(j.at("smallest_asked_bytes"), 0);
    EXPECT_EQ(j.at("smallest_reserve_bytes"), j.at("reserves").at(0).at("reserve_bytes"));
    const std::string table = calibrate(flags).out;
    EXPECT_THAT(table, HasSubstr("MiB, raised from --reserve 0"));
    EXPECT_THAT(table, HasSubstr("a reserve is raised if "));
}

TEST_F(Calibrate, FailsIfNoReserveStaysWithinTheBudget) {
    const Finished result = calibrate({"--ram", "20M"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.out, HasSubstr("no reserve keeps the process within the budget"));
    EXPECT_THAT(result.err, HasSubstr("no reserve keeps the process within 20 MiB"));
}

TEST_F(Calibrate, WrongUseIsExplained) {
    EXPECT_EQ(calibrate({"--ram", "80M", "--reserves", "much"}).exit_code, 2);
    const Finished one = calibrate({"--ram", "80M", "--reserve", "2M"});
    EXPECT_EQ(one.exit_code, 2);
    EXPECT_EQ(one.err, "error: --reserve: calibrate takes a list of reserves; use --reserves, like --reserves 2M\n");
    EXPECT_EQ(calibrate({"--ram", "80M", "--reserves", "1M", "--reserve", "2M"}).exit_code, 2);
    EXPECT_EQ(calibrate({"-m", "/nowhere.gguf"}).exit_code, 1);
    const std::string help = larder({"calibrate", "--help"}).out;
    EXPECT_THAT(help, HasSubstr("--reserves "));
    EXPECT_THAT(help, Not(HasSubstr("--reserve ")));
}

} // namespace
} // namespace larder::test
