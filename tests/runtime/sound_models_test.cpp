// Models that llama.cpp runs are not refused because of their metadata: all architectures and quantisations of
// larder-make-model.
#include "base/error.h"
#include "layout/layout.h"
#include "support/process.h"
#include "support/scratch.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace larder::test {
namespace {

constexpr const char *small = " --vocab 600";

struct Known {
    std::vector<std::string> architectures;
    std::vector<std::string> quantisations;
};

// Each line is like "qwen3moe  q4_k_m  4 ..."; then follows "quantisations: f32 f16 ...".
Known known_to_the_tool() {
    Known known;
    std::istringstream list(run({LARDER_MAKE_MODEL, "--list"}).out);
    std::string line;
    std::getline(list, line); // header of the table
    while (std::getline(list, line)) {
        std::istringstream words(line);
        std::string word;
        words >> word;
        if (word == "quantisations:") {
            while (words >> word) {
                known.quantisations.push_back(word);
            }
        } else if (!word.empty()) {
            known.architectures.push_back(word);
        }
    }
    return known;
}

void expect_sound(const std::string &arguments) {
    const Scratch scratch;
    const std::string path = make_model(scratch, "m.gguf", arguments + small);
    try {
        open_layout(path);
    } catch (const Error &error) {
        ADD_FAILURE() << arguments << ": " << error.what();
    }
}

TEST(SoundModels, OfEveryArchitectureAreAccepted) {
    const std::vector<std::string> architectures = known_to_the_tool().architectures;
    EXPECT_GE(architectures.size(), 11U);
    for (const std::string &architecture : architectures) {
        expect_sound("--arch " + architecture);
    }
}

TEST(SoundModels, OfEveryQuantisationAreAccepted) {
    const std::vector<std::string> quantisations = known_to_the_tool().quantisations;
    EXPECT_GE(quantisations.size(), 14U);
    for (const std::string &quantisation : quantisations) {
        expect_sound("--arch qwen3moe --layers 1 --experts 2 --top-k 1 --quant " + quantisation);
    }
}

} // namespace
} // namespace larder::test
