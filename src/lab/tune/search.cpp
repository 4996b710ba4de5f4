#include "lab/tune/tune.h"

#include "base/check.h"

namespace larder {

namespace {

class Search {
  public:
    Search(double gain_min, const MeasureJob &measure, const std::function<bool()> &stopped)
        : gain_min_(gain_min), measure_(measure), stopped_(stopped) {}

    void begin_at(const Tuning &start) {
        result_.best = {start, {}};
        result_.best.seconds = try_out(start);
    }

    template <typename Value> void vary(Value Tuning::*setting, const std::vector<Value> &values) {
        const Tuning from = result_.best.tuning;
        for (const Value value : values) {
            Tuning tuning = from;
            tuning.*setting = value;
            if (value != from.*setting && !stopped_()) {
                consider(tuning);
            }
        }
    }

    TuneResult take() { return std::move(result_); }

  private:
    std::optional<double> try_out(const Tuning &tuning) {
        const std::optional<double> seconds = stopped_() ? std::nullopt : measure_(tuning);
        if (!stopped_()) {
            result_.trials.push_back({tuning, seconds});
        }
        return seconds;
    }

    void consider(const Tuning &tuning) {
        const std::optional<double> seconds = try_out(tuning);
        if (!seconds) {
            return;
        }
        Trial &best = result_.best;
        if (!best.seconds) {
            best = {tuning, seconds};
            return;
        }
        if (*seconds * (1 + gain_min_) > *best.seconds) {
            return;
        }
        const std::optional<double> best_again = try_out(best.tuning);
        const std::optional<double> again = try_out(tuning);
        if (!best_again || !again) {
            return;
        }
        const double of_best = (*best.seconds + *best_again) / 2;
        const double of_this = (*seconds + *again) / 2;
        if (of_this * (1 + gain_min_) <= of_best) {
            best = {tuning, of_this};
        } else {
            best.seconds = of_best;
        }
    }

    const double gain_min_;
    const MeasureJob &measure_;
    const std::function<bool()> &stopped_;
    TuneResult result_;
};

} // namespace

TuneResult search_tuning(const TuneSpace &space, double gain_min, const MeasureJob &measure,
                         const std::function<bool()> &stopped) {
    LARDER_CHECK(!space.threads.empty() && !space.ubatch_tokens.empty() && !space.arena_bytes.empty() &&
                 !space.io_depth.empty());
    Search search(gain_min, measure, stopped);
    search.begin_at(
        {space.threads.front(), space.ubatch_tokens.front(), space.arena_bytes.front(), space.io_depth.front()});
    search.vary(&Tuning::threads, space.threads);
    search.vary(&Tuning::ubatch_tokens, space.ubatch_tokens);
    search.vary(&Tuning::arena_bytes, space.arena_bytes);
    search.vary(&Tuning::io_depth, space.io_depth);
    return search.take();
}

} // namespace larder
