// The search, on jobs with known times.
#include "lab/tune/tune.h"

#include <gtest/gtest.h>

#include <map>

namespace larder::test {
namespace {

const TuneSpace space = {{2, 1, 4}, {512, 256, 64}, {0, 3000, 2000}, {64, 16}};
const std::function<bool()> never = [] { return false; };

TEST(Tune, FindsTheBestValueOfEachSetting) {
    const MeasureJob job = [](const Tuning &tuning) -> std::optional<double> {
        return 10.0 + (tuning.threads == 4 ? 0 : 1) + (tuning.ubatch_tokens == 64 ? 0 : 2) +
               (tuning.arena_bytes == 2000 ? 0 : 3) + (tuning.io_depth == 16 ? 0 : 1);
    };
    const TuneResult result = search_tuning(space, 0.03, job, never);
    EXPECT_EQ(result.best.tuning, (Tuning{4, 64, 2000, 16}));
    EXPECT_DOUBLE_EQ(result.best.seconds.value(), 10.0);
}

TEST(Tune, StaysWhereItIsForAGainBelowWhatIsAskedFor) {
    const MeasureJob job = [](const Tuning &tuning) -> std::optional<double> {
        return tuning.threads == 4 ? 9.9 : 10.0;
    };
    EXPECT_EQ(search_tuning(space, 0.03, job, never).best.tuning, (Tuning{2, 512, 0, 64}));
    EXPECT_EQ(search_tuning(space, 0.0, job, never).best.tuning.threads, 4U);
}

TEST(Tune, BelievesAGainOnlyIfItIsThereAgain) {
    int n_run = 0;
    const MeasureJob job = [&n_run](const Tuning &tuning) -> std::optional<double> {
        n_run++;
        return tuning.threads == 1 && n_run == 2 ? 5.0 : tuning.threads == 1 ? 16.0 : 10.0; // fast once, by chance
    };
    const TuneResult result = search_tuning(space, 0.03, job, never);
    EXPECT_EQ(result.best.tuning.threads, 2U);
    EXPECT_EQ(result.trials.at(2).tuning.threads, 2U) << "the best is measured once more too";
    EXPECT_EQ(result.trials.at(3).tuning.threads, 1U);
}

TEST(Tune, PassesOverWhatCannotBeRun) {
    const MeasureJob job = [](const Tuning &tuning) -> std::optional<double> {
        return tuning.threads == 4 ? std::optional(1.0) : std::nullopt;
    };
    const TuneResult result = search_tuning(space, 0.03, job, never);
    EXPECT_EQ(result.best.tuning.threads, 4U) << "also if that is where it began";
    EXPECT_FALSE(search_tuning(
                     space, 0.03, [](const Tuning &) { return std::optional<double>(); }, never)
                     .best.seconds.has_value());
}

TEST(Tune, TriesAsManyAsThereAreValuesAndStopsWhenTold) {
    size_t n_run = 0;
    const MeasureJob job = [&n_run](const Tuning &) {
        n_run++;
        return std::optional(1.0);
    };
    search_tuning(space, 0.03, job, never);
    EXPECT_EQ(n_run, 1U + 2 + 2 + 2 + 1);
    n_run = 0;
    search_tuning(space, 0.03, job, [&n_run] { return n_run >= 3; });
    EXPECT_EQ(n_run, 3U);
}

} // namespace
} // namespace larder::test
