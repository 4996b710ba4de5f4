// Address limits (ulimit -d, ulimit -v): under each limit larder works, or it refuses before it reads weights, with an
// error that names the limit.
#include "support/process.h"
#include "support/scratch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace larder::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int refused = 3;

class AddressLimits : public testing::Test {
  protected:
    static const std::string &model() {
        static const Scratch scratch;
        static const std::string path =
            make_model(scratch, "m.gguf", "--arch qwen3moe --layers 8 --experts 64 --top-k 4 --embd 512 --ff 512");
        return path;
    }
    static std::vector<std::string> run_arguments(std::vector<std::string> more) {
        std::vector<std::string> arguments = {
            "run", "-m", model(), "-c", "512",         "--raw", "-p", "Once upon a time",
            "-n",  "20", "-t",    "2",  "--ignore-eos"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // `limit`: for example "ulimit -d 150000".
    static Finished limited(const std::string &limit, const std::vector<std::string> &arguments) {
        std::vector<std::string> argv = {"/bin/sh", "-c", limit + "; exec \"$0\" \"$@\"", LARDER_PROGRAM};
        argv.insert(argv.end(), arguments.begin(), arguments.end());
        return run(argv);
    }
    // The number of the remedy "raise 'ulimit -d' to 94208 or more".
    static std::string remedy(const std::string &error, const std::string &limit) {
        const std::string before = "raise '" + limit + "' to ";
        const size_t at = error.find(before);
        EXPECT_NE(at, std::string::npos) << error;
        return at == std::string::npos
                   ? "0"
                   : error.substr(at + before.size(), error.find(' ', at + before.size()) - at - before.size());
    }
    // Tries the limits from first to last (KiB): larder works, or refuses and names the limit. Both must occur, and
    // larder must work with each limit above one with which it works.
    static void expect_a_border(const std::string &limit, int first, int last, int step,
                                const std::vector<std::string> &more) {
        int n_refused = 0;
        int n_done = 0;
        for (int kib = first; kib <= last; kib += step) {
            SCOPED_TRACE(fmt::format("{} {}", limit, kib));
            const Finished finished = limited(fmt::format("{} {}", limit, kib), run_arguments(more));
            if (finished.exit_code == 0) {
                n_done++;
                continue;
            }
            n_refused++;
            EXPECT_EQ(finished.exit_code, refused) << finished.err;
            EXPECT_THAT(finished.err, HasSubstr(limit));
            EXPECT_EQ(n_done, 0) << finished.err;
        }
        EXPECT_GT(n_refused, 0);
        EXPECT_GT(n_done, 0);
    }
};

TEST_F(AddressLimits, OfDataLeaveABudgetThatWorksOrAreNamed) {
    expect_a_border("ulimit -d", 20'000, 160'000, 14'000, {});
}

TEST_F(AddressLimits, OfAllAddressesLeaveABudgetThatWorksOrAreNamed) {
    expect_a_border("ulimit -v", 40'000, 440'000, 40'000, {});
}

TEST_F(AddressLimits, HoldAnExplicitBudgetOrRefuseIt) {
    expect_a_border("ulimit -d", 104'000, 160'000, 14'000, {"--ram", "100M"});
    expect_a_border("ulimit -v", 300'000, 440'000, 35'000, {"--ram", "100M"});
}

TEST_F(AddressLimits, RaisedAsTheRefusalSaysAreEnough) {
    for (const std::string limit : {"ulimit -d", "ulimit -v"}) {
        for (const std::vector<std::string> &more : {std::vector<std::string>{}, {"--ram", "100M"}, {"-t", "7"}}) {
            const Finished first = limited(fmt::format("{} 60000", limit), run_arguments(more));
            EXPECT_EQ(first.exit_code, refused);
            const std::string kib = remedy(first.err, limit);
            const Finished second = limited(fmt::format("{} {}", limit, kib), run_arguments(more));
            EXPECT_EQ(second.exit_code, 0) << limit << " " << kib << "\n" << second.err;
        }
    }
}

TEST_F(AddressLimits, ThatHoldNoBudgetAreNotAnsweredWithOne) {
    const std::vector<std::string> plan = {"plan", "-m", model(), "-c", "512", "-t", "2", "--ram", "100M"};
    for (const std::string limit : {"ulimit -v 100000", "ulimit -d 60000"}) {
        for (const std::vector<std::string> &arguments : {run_arguments({"--ram", "100M"}), plan}) {
            const Finished finished = limited(limit, arguments);
            EXPECT_EQ(finished.exit_code, refused);
            EXPECT_THAT(finished.err, HasSubstr("even the smallest budget that works, "));
            EXPECT_THAT(finished.err, HasSubstr("M, is more; raise 'ulimit "));
            EXPECT_THAT(finished.err, Not(HasSubstr("use --ram")));
        }
    }
}

TEST_F(AddressLimits, TooLowForTheMetadataAreNotTakenForADamagedModel) {
    const Finished finished = limited("ulimit -d 20000", run_arguments({}));
    EXPECT_EQ(finished.exit_code, refused);
    EXPECT_EQ(finished.err,
              "error: out of memory in llama.cpp: RLIMIT_DATA (ulimit -d) lets the process map 19.53 MiB; "
              "raise that limit, or lower --ram or -c\n");
}

TEST_F(AddressLimits, ArePlannedWithAsTheyAreRunWith) {
    const Finished planned = limited("ulimit -d 150000", {"plan", "-m", model(), "-c", "512", "-t", "2"});
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("RLIMIT_DATA (ulimit -d)"));
    // Near the boundary both agree to within a MiB, although one has started threads that the other has not.
    for (int mib = 60; mib < 90; mib++) {
        const std::string ram = fmt::format("{}M", mib);
        if (limited("ulimit -d 110000", {"plan", "-m", model(), "-c", "512", "-t", "2", "--ram", ram}).exit_code == 0) {
            continue;
        }
        const std::string one_less = fmt::format("{}M", mib - 1);
        EXPECT_EQ(limited("ulimit -d 110000", run_arguments({"--ram", one_less})).exit_code, 0) << one_less;
        return;
    }
    FAIL() << "there is no border";
}

TEST_F(AddressLimits, AreNamedByTheOtherResidenciesToo) {
    for (const std::string residency : {"stock", "page"}) {
        for (const std::string limit : {"ulimit -d 20000", "ulimit -d 40000", "ulimit -v 100000", "ulimit -v 300000"}) {
            const Finished finished = limited(limit, run_arguments({"--residency", residency}));
            EXPECT_NE(finished.exit_code, 0) << residency << ", " << limit;
            EXPECT_THAT(finished.err, HasSubstr(limit.substr(0, limit.rfind(' ')))) << residency << ", " << limit;
            EXPECT_EQ(finished.out, "");
        }
    }
}

TEST_F(AddressLimits, OfTheStackAreRefusedWhereTheyAreTooLowForIt) {
    for (const char *kib : {"64", "128"}) {
        const Finished finished = limited(std::string("ulimit -s ") + kib, run_arguments({"--ram", "100M"}));
        EXPECT_EQ(finished.exit_code, 1);
        EXPECT_THAT(finished.err, HasSubstr("ulimit -s"));
    }
    EXPECT_EQ(limited("ulimit -s 256", run_arguments({"--ram", "100M"})).exit_code, 0);
}

} // namespace
} // namespace larder::test
