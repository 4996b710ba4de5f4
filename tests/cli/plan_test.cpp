// larder plan: what its report says of a budget, and that larder run agrees.
#include "base/bytes.h"
#include "lab/trace/trace.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace larder::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char *attention = "--arch qwen3moe --quant q4_k_m --layers 4 --experts 32 --embd 256 --ff 1024";
constexpr uint32_t n_layer = 4;
constexpr uint32_t n_expert = 32;

class Plan : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path = make_model(scratch, "m.gguf", attention);
        return path;
    }
    static Finished plan(std::vector<std::string> arguments, const std::string &path = model()) {
        arguments.insert(arguments.begin(), {"plan", "-m", path, "-t", "1"});
        return larder(arguments);
    }
    static json plan_json(std::vector<std::string> arguments, int exit_code = 0, const std::string &path = model()) {
        arguments.insert(arguments.end(), {"-o", "json"});
        const Finished result = plan(arguments, path);
        EXPECT_EQ(result.exit_code, exit_code) << result.err;
        return json::parse(result.out);
    }
    static uint64_t bytes(const json &object, const char *name) { return object.at(name).get<uint64_t>(); }
    static std::string mib(uint64_t bytes) { return std::to_string(bytes / MiB) + "M"; }
    // The smallest budget of the model with 4096 tokens.
    static uint64_t smallest() {
        static const uint64_t known = bytes(plan_json({"--ram", "20M", "-c", "4096"}, 3), "smallest_budget_bytes");
        return known;
    }
    // A routing trace of the model's shape, as larder run --trace writes it.
    std::string trace(uint32_t experts = n_expert) {
        const RoutingTrace made =
            synthesise_trace({.n_layer = n_layer, .n_expert = experts, .top_k = top_k(), .n_token = 50, .skew = 1.2});
        const std::string path = scratch_ / "routes.jsonl";
        TraceWriter writer(path, "qwen3moe", experts, top_k(), std::vector<uint32_t>{0, 1, 2, 3});
        for (const TraceToken &token : made.tokens) {
            writer.write(token);
        }
        writer.close();
        return path;
    }
    static uint32_t top_k() {
        static const uint32_t known =
            json::parse(larder({"inspect", model(), "--json"}).out).at("n_expert_used").get<uint32_t>();
        return known;
    }

    Scratch scratch_;
};

TEST_F(Plan, NamesEveryPartAndTheirSums) {
    const json j = plan_json({"--ram", mib(smallest() + 8 * MiB), "-c", "4096"});
    EXPECT_EQ(j.at("feasible"), true);
    EXPECT_EQ(j.at("budget_source"), "--ram");
    const uint64_t lower = bytes(j, "resident_bytes") + bytes(j, "arena_bytes") + bytes(j, "kv_bytes");
    EXPECT_EQ(bytes(j, "lower_bound_bytes"), lower);
    EXPECT_EQ(bytes(j, "footprint_bytes"), lower + bytes(j, "compute_bytes") + bytes(j, "overhead_bytes"));
    EXPECT_EQ(bytes(j, "budget_bytes"),
              bytes(j, "footprint_bytes") + bytes(j, "reserve_bytes") + bytes(j, "spare_bytes"));
    EXPECT_GE(bytes(j, "arena_bytes"), bytes(j, "floor_bytes"));
    uint64_t arena = 0;
    for (const json &size_class : j.at("slots")) {
        arena += bytes(size_class, "slots") * bytes(size_class, "slot_bytes");
        EXPECT_LE(j.at("cached_share"),
                  size_class.at("slots").get<double>() / size_class.at("n_slices").get<double>() + 1e-9);
    }
    EXPECT_EQ(arena, bytes(j, "arena_bytes"));
    const Finished table = plan({"--ram", mib(smallest() + 8 * MiB), "-c", "4096"});
    for (const char *text : {"C  resident", "E  arena", "K  KV and recurrent state", "L  = C + E + K", "F  = L + O",
                             "reserve", "spare", "floor", "ubatch ", "kernels mixed",
                             "expected hit rate: ", "synthetic", "not this model's own", "verdict: feasible"}) {
        EXPECT_THAT(table.out, HasSubstr(text));
    }
    EXPECT_EQ(table.err, "");
}

TEST_F(Plan, IsWhatTheRunThenHas) {
    for (const uint64_t budget : {smallest() + 4 * MiB, smallest() + 200 * MiB}) {
        const std::vector<std::string> flags = {"--ram", mib(budget), "-c", "1000", "-ctk", "q8_0", "-np", "2"};
        const json planned = plan_json(flags);
        std::vector<std::string> run = {
            "run", "-m", model(), "-t", "1", "-p", "a", "-n", "1", "--temp", "0", "--stats", scratch_ / "s.json"};
        run.insert(run.end(), flags.begin(), flags.end());
        const Finished result = larder(run);
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const json had = json::parse(contents(scratch_ / "s.json"));
        for (const char *name : {"resident_bytes", "kv_bytes", "compute_bytes", "reserve_bytes", "ubatch_tokens",
                                 "kernels", "floor_bytes", "budget_bytes"}) {
            EXPECT_EQ(planned.at(name), had.at(name)) << name;
        }
        EXPECT_NEAR(planned.at("arena_bytes").get<double>(), had.at("arena_bytes").get<double>(), 2 * MiB);
    }
}

TEST_F(Plan, ReadsNoWeight) {
    // The file has only the header; the weights are a hole of the right size.
    const std::string whole = contents(model());
    const std::string hollow = scratch_ / "hollow.gguf";
    std::ofstream(hollow, std::ios::binary) << whole.substr(0, MiB);
    std::filesystem::resize_file(hollow, whole.size());
    EXPECT_EQ(plan_json({"-c", "256"}, 0, hollow).at("resident_bytes"), plan_json({"-c", "256"}).at("resident_bytes"));
}

TEST_F(Plan, ARefusalNamesTheSmallestBudgetAndItWorks) {
    const json refused = plan_json({"--ram", "20M", "-c", "4096"}, 3);
    EXPECT_EQ(refused.at("feasible"), false);
    EXPECT_THAT(refused.at("reason").get<std::string>(), HasSubstr("a budget of 20 MiB (--ram) is too small"));
    const uint64_t named = bytes(refused, "smallest_budget_bytes");
    EXPECT_EQ(plan({"--ram", mib(named), "-c", "4096"}).exit_code, 0);
    EXPECT_EQ(plan({"--ram", mib(named - 6 * MiB), "-c", "4096"}).exit_code, 3) << "three MiB less, and two of noise";
    const Finished table = plan({"--ram", "20M", "-c", "4096"});
    EXPECT_THAT(table.out, AllOf(HasSubstr("verdict: refused"), HasSubstr("smallest budget for 4096 tokens: ")));
    EXPECT_THAT(table.err, AllOf(HasSubstr("error: a budget of 20 MiB"), HasSubstr("use --ram ")));
    // Also if larder itself is larger than the budget.
    const uint64_t of_tiny = bytes(plan_json({"--ram", "2M", "-c", "4096"}, 3), "smallest_budget_bytes");
    EXPECT_LE(std::max(of_tiny, named) - std::min(of_tiny, named), 2 * MiB);
}

TEST_F(Plan, ARefusalNamesTheLargestContextThatFits) {
    const std::vector<std::string> budget = {"--ram", mib(smallest() + 4 * MiB)};
    const auto with_context = [&](uint64_t tokens) {
        std::vector<std::string> arguments = budget;
        arguments.insert(arguments.end(), {"-c", std::to_string(tokens)});
        return arguments;
    };
    for (const uint64_t asked : {100'000U, 1'000'000'000U}) { // the second context is too long to be measured
        std::vector<std::string> arguments = with_context(asked);
        arguments.insert(arguments.end(), {"-o", "json"});
        const Finished result = plan(arguments);
        ASSERT_EQ(result.exit_code, 3);
        const uint64_t largest = bytes(json::parse(result.out), "ctx_tokens_max");
        EXPECT_GT(largest, 4096U);
        EXPECT_THAT(result.err, HasSubstr("lower -c to " + std::to_string(largest)));
        EXPECT_EQ(plan(with_context(largest)).exit_code, 0) << largest;
        EXPECT_EQ(plan(with_context(largest + 2048)).exit_code, 3) << largest;
    }
    EXPECT_EQ(plan_json({"--ram", "20M", "-c", "4096"}, 3).at("ctx_tokens_max"), nullptr) << "none fits";
    const std::string none = plan({"--ram", "20M", "-c", "4096"}).err;
    EXPECT_THAT(none, testing::EndsWith("M or more\n"));
    EXPECT_THAT(none, testing::Not(HasSubstr("lower -c")));
}

TEST_F(Plan, ARefusalNamesNoContextWhereTheContextIsNotTheReason) {
    const std::string roomy = mib(smallest() + 100 * MiB);
    for (const std::vector<std::string> &flags : {std::vector<std::string>{"--cache", "0.5"}, {"--arena", "1K"}}) {
        std::vector<std::string> arguments = {"--ram", roomy, "-c", "1024"};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        const Finished refused = plan(arguments);
        EXPECT_EQ(refused.exit_code, 3) << flags.front();
        EXPECT_THAT(refused.out, AllOf(HasSubstr("verdict: refused"), Not(HasSubstr("context in"))));
        EXPECT_THAT(refused.err, AllOf(HasSubstr("use " + flags.front()), Not(HasSubstr("context"))));
    }
}

TEST_F(Plan, AContextTooLongToBeMeasuredIsRefusedWithWhatFits) {
    const auto refusal = [](const std::string &ram) {
        const Finished refused = plan({"--ram", ram, "-c", "4000000000"});
        EXPECT_EQ(refused.exit_code, 3);
        EXPECT_THAT(refused.err, AllOf(HasSubstr("a context of 4000000000 tokens"), Not(HasSubstr("larder plan"))));
        return refused.err;
    };
    EXPECT_THAT(refusal(mib(smallest() + 4 * MiB)), HasSubstr("lower -c to "));
    const std::string none = refusal("20M");
    const std::string before = "lower -c and raise --ram: 256 tokens take ";
    ASSERT_THAT(none, HasSubstr(before));
    const std::string named = std::to_string(std::stoull(none.substr(none.find(before) + before.size()))) + "M";
    EXPECT_EQ(plan({"--ram", named, "-c", "256"}).exit_code, 0) << named;
    EXPECT_THAT(plan({"--all", "-c", "4000000000"}).err, Not(HasSubstr("larder plan")));
}

TEST_F(Plan, ABudgetAboveTheMachineIsRefusedWithThePlanOfWhatItGives) {
    const uint64_t given = bytes(plan_json({"-c", "4096"}), "machine_bytes");
    const std::string more = mib(10 * given);
    const json j = plan_json({"--ram", more, "-c", "4096"}, 3);
    EXPECT_THAT(j.at("reason").get<std::string>(), HasSubstr("that this process may use"));
    EXPECT_GE(bytes(j, "ctx_tokens_max"), 4096U) << "the context fits";
    EXPECT_EQ(j.at("planned_budget_bytes"), j.at("machine_bytes"));
    EXPECT_LT(bytes(j, "smallest_budget_bytes"), bytes(j, "planned_budget_bytes"));
    const json same = plan_json({"--ram", mib(bytes(j, "machine_bytes") / 2), "-c", "4096"});
    EXPECT_EQ(j.at("arena_bytes"), same.at("arena_bytes")) << "all experts fit";
    EXPECT_NEAR(j.at("overhead_bytes").get<double>(), same.at("overhead_bytes").get<double>(), 2 * MiB);
    const Finished table = plan({"--ram", more, "-c", "4096"});
    EXPECT_THAT(table.out, AllOf(HasSubstr("that this process may use ("), HasSubstr(") would be divided like this"),
                                 HasSubstr("largest context in the "), HasSubstr(" tokens, the model's\n"),
                                 Not(HasSubstr(": none"))));
    EXPECT_THAT(table.err, AllOf(HasSubstr("M or less, or accept the risk with --overcommit"), Not(HasSubstr("-c "))));
    EXPECT_THAT(plan({"--ram", more, "--all", "-c", "512"}).out, HasSubstr(", less than --ram)"));
}

TEST_F(Plan, SaysThatAReserveIsRaisedToHoldTransientMemory) {
    const std::string budget = mib(smallest() + 20 * MiB);
    const json j = plan_json({"--ram", budget, "-c", "4096", "--reserve", "4K"});
    EXPECT_EQ(bytes(j, "reserve_bytes"), bytes(j, "transient_bytes") + KiB);
    EXPECT_THAT(plan({"--ram", budget, "-c", "4096", "--reserve", "4K"}).out,
                HasSubstr("--reserve 4 KiB is raised to "));
    EXPECT_THAT(plan({"--ram", budget, "-c", "4096", "--reserve", "15M"}).out, Not(HasSubstr("raised")));
    EXPECT_THAT(plan({"--ram", budget, "-c", "4096"}).out, Not(HasSubstr("raised")));
}

TEST_F(Plan, SaysThatLlamaCppRoundsAContextUp) {
    const json j = plan_json({"-c", "64"});
    EXPECT_EQ(j.at("ctx_tokens"), 256);
    EXPECT_EQ(j.at("ctx_asked_tokens"), 64);
    EXPECT_EQ(j.at("kv_bytes"), plan_json({"-c", "256"}).at("kv_bytes"));
    const char *note = "note: -c 64 becomes 256: llama.cpp's contexts are multiples of 256 tokens\n";
    EXPECT_THAT(plan({"-c", "64"}).out, HasSubstr(note));
    EXPECT_THAT(plan({"-c", "512"}).out, Not(HasSubstr("becomes")));
    EXPECT_EQ(plan_json({"-c", "512"}).at("ctx_asked_tokens"), 512);
    EXPECT_EQ(plan_json({}).at("ctx_asked_tokens"), nullptr);
    EXPECT_EQ(plan_json({"--all", "-c", "64"}).at("cells").at(0).at("ctx_tokens"), 256);
    const std::vector<std::string> run = {"run", "-m", model(), "-t", "1", "-p", "a", "-n", "1", "-c"};
    const auto said = [&](const char *tokens) {
        std::vector<std::string> arguments = run;
        arguments.emplace_back(tokens);
        return larder(arguments).err;
    };
    EXPECT_THAT(said("64"), HasSubstr(note));
    EXPECT_THAT(said("256"), Not(HasSubstr("becomes")));
}

TEST_F(Plan, TypesOfTheCacheMayBeNamedWithTwoDashes) {
    const json whole = plan_json({"-c", "4096"});
    for (const char *dashes : {"-", "--"}) {
        const json quantised =
            plan_json({"-c", "4096", dashes + std::string("ctk"), "q8_0", dashes + std::string("ctv"), "q8_0"});
        EXPECT_LT(bytes(quantised, "kv_bytes"), bytes(whole, "kv_bytes") * 6 / 10) << dashes;
    }
}

TEST_F(Plan, SequencesShareTheContextButEachHasItsRecurrentState) {
    const std::string recurrent = make_model(scratch_, "r.gguf", "--arch qwen35moe --quant q4_k_m");
    const auto kv_of = [&](const std::string &path, const char *sequences) {
        return bytes(plan_json({"-c", "1024", "-np", sequences}, 0, path), "kv_bytes");
    };
    EXPECT_EQ(kv_of(model(), "1"), kv_of(model(), "4"));
    const uint64_t one = kv_of(recurrent, "1");
    const uint64_t state = kv_of(recurrent, "2") - one;
    EXPECT_GT(state, 0U);
    EXPECT_EQ(kv_of(recurrent, "4"), one + 3 * state);
    EXPECT_EQ(plan({"-np", "0"}).exit_code, 2);
    EXPECT_EQ(plan({"-np", "100000"}).exit_code, 2);
}

TEST_F(Plan, TheSmallestCacheIsNamedInTenthsOfAPercent) {
    const double least = 100.0 * top_k() / n_expert;
    const Finished refused = plan({"--cache", "1", "-c", "1024"});
    EXPECT_EQ(refused.exit_code, 3);
    const size_t at = refused.err.find("use --cache ");
    ASSERT_NE(at, std::string::npos) << refused.err;
    const double named = std::stod(refused.err.substr(at + std::string("use --cache ").size()));
    EXPECT_GE(named, least);
    EXPECT_LT(named, least + 0.2);
    EXPECT_EQ(plan({"--cache", std::to_string(named), "-c", "1024"}).exit_code, 0);
}

TEST_F(Plan, ACacheIsThatShareOfTheExpertsAndNamesItsBudget) {
    // Both with the same ubatch: a smaller ubatch needs so much less memory that all experts may fit into the budget
    // for half of them.
    const json half = plan_json({"--cache", "50", "-c", "1024", "-ub", "512"});
    EXPECT_EQ(half.at("budget_source"), "--cache");
    EXPECT_NEAR(half.at("cached_share").get<double>(), 0.5, 0.02);
    const uint64_t budget = bytes(half, "budget_bytes");
    const json same = plan_json({"--cache", "50%", "--ram", mib(budget), "-c", "1024", "-ub", "512"});
    EXPECT_EQ(same.at("arena_bytes"), half.at("arena_bytes"));
    const json refused = plan_json({"--cache", "100", "--ram", mib(budget), "-c", "1024", "-ub", "512"}, 3);
    EXPECT_GT(bytes(refused, "smallest_budget_bytes"), budget);
    EXPECT_EQ(plan_json({"--cache", "1", "-c", "1024"}, 3).at("smallest_budget_bytes"), nullptr) << "below the floor";
    for (const char *wrong : {"0", "101", "-5", "half", ""}) {
        const Finished result = plan({std::string("--cache=") + wrong});
        EXPECT_EQ(result.exit_code, 2) << wrong;
    }
}

TEST_F(Plan, ATableOfContextsAndSharesAgreesWithThePlanOfEachCell) {
    const std::string budget = mib(smallest() + 20 * MiB);
    const json j = plan_json({"--all", "--ram", budget});
    ASSERT_EQ(j.at("cells").size() % 6, 0U);
    size_t feasible = 0;
    for (const json &cell : j.at("cells")) {
        feasible += cell.at("feasible").get<bool>() ? 1 : 0;
        if (cell.at("needed_bytes").is_null()) {
            EXPECT_EQ(cell.at("feasible"), false);
            continue;
        }
        EXPECT_EQ(cell.at("feasible"), bytes(cell, "needed_bytes") <= bytes(j, "budget_bytes"));
        EXPECT_GT(bytes(cell, "footprint_bytes"), bytes(cell, "lower_bound_bytes"));
    }
    EXPECT_GT(feasible, 0U);
    EXPECT_LT(feasible, j.at("cells").size());
    for (const size_t i : {size_t{2}, j.at("cells").size() - 1}) {
        const json &cell = j.at("cells").at(i);
        const uint64_t needed = bytes(cell, "needed_bytes");
        const auto with = [&](uint64_t ram) {
            const double percent = 100 * cell.at("cache_share").get<double>();
            return plan({"-c", std::to_string(bytes(cell, "ctx_tokens")), "--cache", std::to_string(percent), "--ram",
                         mib(ram)})
                .exit_code;
        };
        EXPECT_EQ(with(needed), 0) << cell;
        EXPECT_EQ(with(needed - 4 * MiB), 3) << cell;
    }
    const Finished table = plan({"--all", "--ram", budget});
    EXPECT_THAT(table.out, AllOf(HasSubstr("| context | ubatch |"), HasSubstr("M yes |"), HasSubstr("M no (")));
    EXPECT_EQ(plan({"--all", "--ram", "20M"}).exit_code, 3) << "no cell is feasible";
}

TEST_F(Plan, ATableOfOneContextIsThatOfTheContextGiven) {
    const std::vector<std::string> flags = {"--all", "-c", "512"};
    const json j = plan_json(flags);
    ASSERT_EQ(j.at("cells").size(), 6U);
    for (const json &cell : j.at("cells")) {
        EXPECT_EQ(cell.at("ctx_tokens"), 512);
    }
    EXPECT_THAT(plan(flags).out,
                AllOf(HasSubstr("with kernels plain and the smallest ubatch\n"), HasSubstr("|     32 |")));
    EXPECT_THAT(plan({"--all", "-ub", "512"}).out,
                AllOf(HasSubstr("with kernels plain and the given ubatch\n"), HasSubstr("|    512 |")));
    EXPECT_EQ(plan({"--all", "--arena", "10M"}).exit_code, 2) << "a column is an arena";
    EXPECT_EQ(plan({"--all", "--mlock"}).exit_code, 2) << "no plan is made that could be locked";
}

TEST_F(Plan, ExpectsTheHitRateOfATraceThatSimulateFindsToo) {
    const std::string path = trace();
    const json j = plan_json({"--cache", "50", "-c", "1024", "--trace", path});
    EXPECT_EQ(j.at("hit_rate_source"), "routes.jsonl");
    const auto slots = static_cast<uint32_t>(j.at("cached_share").get<double>() * n_layer * n_expert + 1e-6);
    const json simulated =
        json::parse(larder({"simulate", path, "--slots", std::to_string(slots), "--policy", "lfru", "-o", "json"}).out);
    EXPECT_DOUBLE_EQ(j.at("hit_rate"), simulated["traces"][0]["rows"][0]["hit_rate"]["lfru"]);
    EXPECT_NE(j.at("hit_rate"), plan_json({"--cache", "50", "-c", "1024"}).at("hit_rate"));
    const Finished other = plan({"--trace", trace(64)});
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr("--trace: "));
    EXPECT_EQ(plan({"--trace", scratch_ / "absent.jsonl"}).exit_code, 1);
}

TEST_F(Plan, ExpectsMoreHitsOfALargerArena) {
    double before = 0;
    for (const char *cache : {"30", "50", "80", "100"}) {
        const double rate = plan_json({"--cache", cache, "-c", "1024"}).at("hit_rate");
        EXPECT_GT(rate, before) << cache;
        before = rate;
    }
}

TEST_F(Plan, OfADenseModelHasNoArena) {
    const std::string dense = make_model(scratch_, "d.gguf", "--arch qwen3 --quant q8_0");
    const json j = plan_json({"-c", "1024"}, 0, dense);
    EXPECT_EQ(j.at("arena_bytes"), 0);
    EXPECT_EQ(j.at("hit_rate"), nullptr);
    EXPECT_THAT(plan({"-c", "1024"}, dense).out, HasSubstr("no routed experts"));
}

TEST_F(Plan, WrongUseIsExplained) {
    EXPECT_EQ(larder({"plan"}).exit_code, 2);
    EXPECT_EQ(plan({"--all", "--cache", "50"}).exit_code, 2);
    EXPECT_EQ(plan({"-o", "csv"}).exit_code, 2);
    EXPECT_EQ(plan({}, scratch_ / "absent.gguf").exit_code, 1);
    const std::string help = larder({"plan", "--help"}).out;
    for (const char *flag : {"--ram", "--cache", "--all", "--trace", "--parallel", "--reserve", "--kernels"}) {
        EXPECT_THAT(help, HasSubstr(flag));
    }
    EXPECT_THAT(larder({"--help"}).out, AllOf(HasSubstr("calibrate"), Not(HasSubstr("calibrate-side"))));
}

// --- --ram in all commands ---

TEST_F(Plan, ABudgetIsReadInEverySpelling) {
    for (const char *ram : {"8G", "8GiB", "8192M", "8g"}) {
        EXPECT_EQ(plan_json({"--ram", ram, "--overcommit", "-c", "256"}).at("budget_bytes"), 8 * GiB) << ram;
    }
}

TEST_F(Plan, ABudgetMayBeAShareOfWhatTheMachineGives) {
    const json half = plan_json({"--ram", "50%", "-c", "256"});
    // The tolerance is for other processes, which allocate and free memory meanwhile.
    EXPECT_NEAR(half.at("budget_bytes").get<double>(), half.at("machine_bytes").get<double>() / 2,
                half.at("machine_bytes").get<double>() / 10);
    EXPECT_EQ(half.at("budget_source"), "--ram");
    const Finished run = larder({"run", "-m", model(), "--ram", "50%", "-p", "a", "-n", "1", "-c", "256"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST_F(Plan, ABudgetThatIsNoneIsRefusedWhereverItIsTaken) {
    for (const std::string command : {"plan", "run", "verify", "bench", "calibrate"}) {
        for (const char *ram : {"0%", "101%", "-5%", "%", "8X", "-1", "", "0", "8", "half"}) {
            const Finished result = larder({command, "-m", model(), std::string("--ram=") + ram});
            EXPECT_EQ(result.exit_code, 2) << command << " " << ram;
            EXPECT_THAT(result.err, HasSubstr("--ram")) << command << " " << ram;
            EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        }
        EXPECT_EQ(larder({command, "-m", model(), "--ram", ""}).exit_code, 2) << command;
    }
    EXPECT_THAT(larder({"plan", "-m", model(), "--ram", "8X"}).err, HasSubstr("8G, 8GiB, 8192M or 50%"));
}

} // namespace
} // namespace larder::test
