// The budget holds while larder runs: in cgroups without swap, limits are lowered and neighbours take memory. larder
// gives memory back, is not killed, and prints the same output as without pressure.
#include "base/bytes.h"
#include "support/cgroup.h"
#include "support/neighbour.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace larder::test {
namespace {

constexpr uint64_t budget = 180 * MiB;
constexpr uint64_t kernel_memory = 24 * MiB; // page tables, rings, and other memory that a cgroup charges besides RSS

// A model whose experts do not all fit, and a conversation of three messages. The first message fills all slots.
// Repacked kernels change slices in their slots; a slice that was moved must not be changed again.
class Model {
  public:
    Model()
        : path_(make_model(scratch_, "m.gguf",
                           "--arch qwen3moe --quant q4_0 --layers 4 --experts 32 --embd 512 --ff 1536 --heads 8")) {
        while (lines[0].size() < 500) {
            lines[0] += "the quick brown fox jumps over the lazy dog and ";
        }
        lines[0] += "\n";
        const std::vector<std::string> argv = command("reference.json");
        Process chat(argv);
        for (const std::string &line : lines) {
            chat.type(line);
        }
        undisturbed_ = chat.wait();
        EXPECT_EQ(undisturbed_.exit_code, 0) << undisturbed_.err;
        EXPECT_GT(stats("reference.json").at("evictions"), 0);
        EXPECT_EQ(stats("reference.json").at("arena_shrinks"), 0) << undisturbed_.err;
    }

    [[nodiscard]] std::vector<std::string> command(const std::string &stats_name) const {
        return {LARDER_PROGRAM, "run",
                "-m",           path_,
                "--ram",        std::to_string(budget),
                "--raw",        "-n",
                "40",           "--ignore-eos",
                "--temp",       "0",
                "-t",           "2",
                "-c",           "1024",
                "-ub",          "32",
                "--kernels",    "repacked",
                "--stats",      scratch_ / stats_name};
    }
    [[nodiscard]] nlohmann::json stats(const std::string &name) const {
        return nlohmann::json::parse(contents(scratch_ / name));
    }
    [[nodiscard]] const std::string &answers() const { return undisturbed_.out; }

    std::vector<std::string> lines = {"", "then it sleeps in the sun\n", "and wakes at night\n"};

  private:
    Scratch scratch_;
    std::string path_;
    Finished undisturbed_;
};

class Pressure : public testing::Test {
  protected:
    static void SetUpTestSuite() { model = std::make_unique<Model>(); }
    static void TearDownTestSuite() { model.reset(); }

    // Expectations for a run after pressure that has ended.
    static void expect_undisturbed(const Finished &finished) {
        ASSERT_EQ(finished.exit_code, 0) << finished.err;
        EXPECT_EQ(finished.out, model->answers()) << "the same tokens as without pressure";
        const auto stats = model->stats("stats.json");
        EXPECT_GT(stats.at("arena_shrinks"), 0) << finished.err;
        EXPECT_GT(stats.at("given_back_bytes"), 0);
        EXPECT_GE(stats.at("arena_in_use_bytes"), stats.at("floor_bytes"));
        EXPECT_LE(stats.at("sampled_peak_rss_bytes"), budget);
        EXPECT_LE(stats.at("peak_rss_bytes"), budget);
        EXPECT_EQ(stats.at("vm_swap_bytes"), 0);
        EXPECT_NE(stats.at("last_resize"), "");
    }

    static std::unique_ptr<Model> model;
};

std::unique_ptr<Model> Pressure::model;

TEST_F(Pressure, ALimitLoweredWhileAnAnswerIsMadeIsKeptAndMemoryComesBackWithIt) {
    const Cgroup cgroup(budget + kernel_memory);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    Process chat(model->command("stats.json"), cgroup.procs());
    chat.type(model->lines[0]);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    chat.type(model->lines[1]);
    ASSERT_TRUE(cgroup.lower_limit(budget - 60 * MiB)) << "larder did not make room";
    EXPECT_TRUE(chat.wait_for_error("note: arena"));
    EXPECT_LE(cgroup.used_bytes(), budget - 60 * MiB);
    chat.type(model->lines[2]);
    ASSERT_TRUE(cgroup.raise_limit(budget + kernel_memory));
    EXPECT_TRUE(chat.wait_for_error(" again\n")) << "it did not regrow";
    const Finished finished = chat.wait();
    expect_undisturbed(finished);
    EXPECT_GT(model->stats("stats.json").at("arena_regrows"), 0);
    EXPECT_EQ(cgroup.kills(), 0U);
}

TEST_F(Pressure, ANeighbourInTheSameGroupGetsItsMemoryAndBothLive) {
    const Cgroup parent(budget + kernel_memory);
    const Cgroup own(parent, "larder");
    const Cgroup other(parent, "neighbour");
    if (!own.made() || !other.made()) {
        GTEST_SKIP() << parent.why() << own.why() << other.why();
    }
    Process chat(model->command("stats.json"), own.procs());
    chat.type(model->lines[0]);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    Neighbour neighbour(other, parent, 96 * MiB);
    chat.type(model->lines[1]);
    EXPECT_TRUE(neighbour.wait_until_full()) << "larder did not make room";
    chat.type(model->lines[2]);
    const Finished finished = chat.wait();
    EXPECT_TRUE(neighbour.alive());
    expect_undisturbed(finished);
    EXPECT_EQ(parent.kills() + own.kills() + other.kills(), 0U);
    EXPECT_LE(parent.peak_bytes(), parent.limit_bytes());
    EXPECT_NE(finished.err.find(parent.name()), std::string::npos) << "it names whose limit it is\n" << finished.err;
    neighbour.end();
}

TEST_F(Pressure, ANeighbourThatTakes150MiBASecondWithoutALookAtOthersIsMadeRoomFor) {
    const Cgroup parent(budget + kernel_memory);
    const Cgroup own(parent, "larder");
    const Cgroup other(parent, "neighbour");
    if (!own.made() || !other.made()) {
        GTEST_SKIP() << parent.why() << own.why() << other.why();
    }
    Process chat(model->command("stats.json"), own.procs());
    chat.type(model->lines[0]);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    chat.type(model->lines[1]);
    Neighbour neighbour(other, 96 * MiB, 150 * KiB);
    EXPECT_TRUE(neighbour.wait_until_full());
    chat.type(model->lines[2]);
    const Finished finished = chat.wait();
    EXPECT_TRUE(neighbour.alive());
    expect_undisturbed(finished);
    EXPECT_EQ(parent.kills() + own.kills() + other.kills(), 0U);
    EXPECT_LE(parent.peak_bytes(), parent.limit_bytes());
}

TEST_F(Pressure, ALimitOfTheGrandparentAloneIsKept) {
    const Cgroup grandparent(budget + kernel_memory);
    const Cgroup parent(grandparent, "parent");
    const Cgroup own(parent, "larder");
    if (!own.made()) {
        GTEST_SKIP() << grandparent.why() << parent.why() << own.why();
    }
    Process chat(model->command("stats.json"), own.procs());
    chat.type(model->lines[0]);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    ASSERT_TRUE(grandparent.lower_limit(budget - 60 * MiB)) << "larder did not make room, idle as it is";
    chat.type(model->lines[1]);
    chat.type(model->lines[2]);
    const Finished finished = chat.wait();
    expect_undisturbed(finished);
    EXPECT_EQ(grandparent.kills() + parent.kills() + own.kills(), 0U);
    EXPECT_NE(finished.err.find(grandparent.name()), std::string::npos) << finished.err;
}

// At its end the kernel's figures lag: memory that larder has freed looks like a neighbour's.
TEST_F(Pressure, NothingIsGivenBackForWhatItFreesAtItsEnd) {
    const Cgroup cgroup(budget);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    for (int i = 0; i < 6; i++) {
        Process chat(model->command("stats.json"), cgroup.procs());
        chat.type(model->lines[0]);
        const Finished finished = chat.wait();
        ASSERT_EQ(finished.exit_code, 0) << finished.err;
        EXPECT_EQ(finished.err.find("note: arena"), std::string::npos) << finished.err;
    }
}

TEST_F(Pressure, QuietSaysNothingOfIt) {
    const Cgroup cgroup(budget + kernel_memory);
    if (!cgroup.made()) {
        GTEST_SKIP() << cgroup.why();
    }
    std::vector<std::string> command = model->command("stats.json");
    command.emplace_back("-q");
    Process chat(command, cgroup.procs());
    chat.type(model->lines[0]);
    ASSERT_TRUE(chat.wait_for_output_lines(1));
    ASSERT_TRUE(cgroup.lower_limit(budget - 60 * MiB));
    chat.type(model->lines[1]);
    chat.type(model->lines[2]);
    const Finished finished = chat.wait();
    expect_undisturbed(finished);
    EXPECT_EQ(finished.err, "");
}

} // namespace
} // namespace larder::test
