// The largest context that fits.
#include "base/bytes.h"
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {

namespace {

constexpr uint32_t steps_first = 8; // factor by which the guess grows until two points define a line
constexpr int guesses_max = 12;     // by linear interpolation; afterwards bisection

struct Point {
    uint32_t steps = 0; // in units of ctx_tokens_step
    uint64_t need = 0;
};

// Where the line through both points reaches the budget.
uint32_t crossing(const Point &a, const Point &b, uint64_t budget_bytes) {
    const auto slope = (static_cast<double>(b.need) - static_cast<double>(a.need)) /
                       (static_cast<double>(b.steps) - static_cast<double>(a.steps));
    const double steps =
        static_cast<double>(b.steps) + (static_cast<double>(budget_bytes) - static_cast<double>(b.need)) / slope;
    return slope > 0 ? static_cast<uint32_t>(std::clamp(steps, 0.0, 4e9)) : UINT32_MAX;
}

} // namespace

uint32_t rounded_context(uint32_t asked_tokens) {
    return static_cast<uint32_t>(
        std::min<uint64_t>(align_up(asked_tokens, ctx_tokens_step), align_down(UINT32_MAX, ctx_tokens_step)));
}

std::string rounded_context_note(uint32_t asked_tokens) {
    const uint32_t tokens = rounded_context(asked_tokens);
    return tokens == asked_tokens ? ""
                                  : fmt::format("-c {} becomes {}: llama.cpp's contexts are multiples of {} tokens",
                                                asked_tokens, tokens, ctx_tokens_step);
}

std::optional<uint32_t> largest_context(uint32_t refused_tokens, uint64_t budget_bytes, const NeedOfContext &need_of) {
    uint32_t high = refused_tokens / ctx_tokens_step + (refused_tokens % ctx_tokens_step > 0 ? 1 : 0); // does not fit
    if (high <= 1) {
        return std::nullopt;
    }
    Point before{};
    Point latest{1, need_of(ctx_tokens_step)};
    if (latest.need > budget_bytes) {
        return std::nullopt;
    }
    uint32_t low = 1; // fits
    for (int guesses = 0; high - low > 1; guesses++) {
        uint32_t guess = low * steps_first;
        if (guesses >= guesses_max) {
            guess = low + (high - low) / 2;
        } else if (before.steps > 0 && before.steps != latest.steps) {
            guess = crossing(before, latest, budget_bytes);
        }
        guess = std::clamp(guess, low + 1, high - 1);
        const Point now{guess, need_of(guess * ctx_tokens_step)};
        (now.need <= budget_bytes ? low : high) = guess;
        if (now.need != UINT64_MAX) { // UINT64_MAX only means that it does not fit
            before = latest;
            latest = now;
        }
    }
    return low * ctx_tokens_step;
}

} // namespace larder
