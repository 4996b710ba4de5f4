// Decides how to respond to a reading.
#include "pressure/pressure.h"

#include "base/bytes.h"
#include "base/check.h"

#include <fmt/format.h>

#include <algorithm>

namespace larder {
namespace {

constexpr double stalled_much = 0.1;
constexpr uint32_t readings_until_regrowth = 20; // 5 s
constexpr uint32_t readings_between_steps = 4;   // 1 s
constexpr uint64_t shrink_share = 16;
constexpr uint64_t regrow_share = 32;
constexpr uint64_t falling_share = 4;   // limit of the part of the range that is given up for an expected fall
constexpr uint64_t margin_share = 4;    // of the reserve
constexpr uint64_t gap_min = 16 * MiB;  // used if the reserve gives less
constexpr uint64_t gap_min_share = 128; // or this share of the range, if that is even less

// The kernel charges a huge page before it clears it, and counts it to the process afterwards. Two threads touch the
// arena's huge pages.
constexpr uint64_t clearing_max = 4 * MiB;

constexpr uint64_t fall_noise = MiB; // the memory that the kernel charges to processors in advance
constexpr std::chrono::milliseconds decline_interval{8};

uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

uint64_t range_of(const PressureBounds &bounds) { return bounds.full_bytes() - bounds.floor_bytes(); }

// Rounding to whole slots reduces a change by up to one slot of each class. A step is at least twice that, so that it
// always has an effect.
uint64_t step_of(const PressureBounds &bounds, uint64_t share) {
    uint64_t one_of_each = 0;
    for (const SlotRange &c : bounds.classes) {
        one_of_each += c.slot_bytes;
    }
    return std::max(range_of(bounds) / share, 2 * one_of_each);
}

// Figures that are derived from a reading before the decision.
struct Account {
    uint64_t usable = 0;
    uint64_t rss = 0;       // with the counted children
    uint64_t will_hold = 0; // when every slot in use is filled
    uint64_t margin = 0;    // must be available in addition
    uint64_t falling = 0;   // must be available in addition, for a short time
    uint64_t clearing = 0;  // memory that seems to belong to others, but may be pages being cleared for empty slots
    bool pressed = false;

    Account(const PressureBounds &bounds, const Readings &readings, const PressureState &state)
        : usable(readings.machine.usable_bytes + bounds.overcommitted_bytes),
          rss(readings.rss_bytes + readings.children_bytes),
          will_hold(std::max(bounds.fixed_bytes + readings.arena_bytes, readings.own_bytes)),
          margin(bounds.reserve_bytes / margin_share),
          falling(std::min(readings.falling_bytes, range_of(bounds) / falling_share)),
          clearing(std::min(readings.empty_bytes, clearing_max)),
          pressed(readings.stalled >= stalled_much ||
                  readings.limit_hits > state.limit_hits.value_or(readings.limit_hits)) {
        margin *= pressed ? 2 : 1;
    }
};

ArenaResize shrink(const PressureBounds &bounds, const Readings &readings, const Account &account, uint64_t machine,
                   uint64_t budget) {
    const uint64_t missing = std::max(machine, budget);
    const uint64_t most = readings.arena_bytes - bounds.floor_bytes();
    const uint64_t given = std::min(most, missing + step_of(bounds, shrink_share));
    std::string reason = budget >= machine
                             ? fmt::format("RSS {} is above the budget of {}", format_bytes(account.rss),
                                           format_bytes(bounds.budget_bytes))
                             : fmt::format("{} leaves {}, {} less than wanted{}", readings.machine.source,
                                           format_bytes(readings.machine.usable_bytes), format_bytes(machine),
                                           account.falling > 0 ? " and falls"
                                           : account.pressed   ? " under memory pressure"
                                                               : "");
    if (given == most) {
        reason += "; this is the floor";
    }
    return {readings.arena_bytes, readings.arena_bytes - given, std::move(reason)};
}

std::optional<ArenaResize> regrow(const PressureBounds &bounds, const Readings &readings, const Account &account) {
    const uint64_t step = step_of(bounds, regrow_share);
    const uint64_t grown = std::min(step, bounds.full_bytes() - readings.arena_bytes);
    const uint64_t gap =
        std::max(bounds.reserve_bytes / margin_share, std::min(gap_min, range_of(bounds) / gap_min_share));
    const bool room = account.will_hold + account.margin + gap + grown <= account.usable &&
                      account.rss + account.margin + grown <= bounds.budget_bytes;
    if (grown == 0 || readings.empty_bytes >= step || !room) {
        return std::nullopt;
    }
    return ArenaResize{
        readings.arena_bytes, readings.arena_bytes + grown,
        fmt::format("{} leaves {} again", readings.machine.source, format_bytes(readings.machine.usable_bytes))};
}

} // namespace

uint64_t PressureBounds::floor_bytes() const {
    uint64_t bytes = 0;
    for (const SlotRange &c : classes) {
        bytes += c.floor * c.slot_bytes;
    }
    return bytes;
}

uint64_t PressureBounds::full_bytes() const {
    uint64_t bytes = 0;
    for (const SlotRange &c : classes) {
        bytes += c.full * c.slot_bytes;
    }
    return bytes;
}

PressureBounds pressure_bounds(std::span<const SizeClass> size_classes, const MemoryPlan &plan,
                               uint64_t overcommitted_bytes) {
    PressureBounds bounds;
    bounds.budget_bytes = plan.budget_bytes;
    bounds.fixed_bytes = planned_bytes(plan) - plan.arena_bytes;
    bounds.reserve_bytes = plan.reserve_bytes;
    bounds.overcommitted_bytes = overcommitted_bytes;
    LARDER_CHECK(plan.slots.size() == size_classes.size());
    for (size_t i = 0; i < plan.slots.size(); ++i) {
        const SizeClass &c = size_classes[i];
        bounds.classes.push_back({c.slot_bytes, std::min(floor_slots(c), plan.slots[i]), plan.slots[i]});
    }
    return bounds;
}

std::vector<uint64_t> slots_within(const PressureBounds &bounds, uint64_t arena_bytes) {
    const uint64_t range = range_of(bounds);
    const uint64_t part = std::min(range, above(arena_bytes, bounds.floor_bytes()));
    std::vector<uint64_t> slots;
    for (const SlotRange &c : bounds.classes) {
        // 128 bits, because both factors may be large.
        const auto more = static_cast<unsigned __int128>(c.full - c.floor) * part;
        slots.push_back(c.floor + (range > 0 ? static_cast<uint64_t>(more / range) : 0));
    }
    return slots;
}

std::optional<ArenaResize> decide(const PressureBounds &bounds, const Readings &readings, PressureState &state) {
    const Account account(bounds, readings, state);
    state.limit_hits = readings.limit_hits;
    // A figure that may be momentarily wrong takes no memory from slots that are not yet filled, and a fall that is
    // only expected never does.
    const bool short_when_filled = account.will_hold + account.margin > account.usable + account.clearing;
    const uint64_t holds = short_when_filled ? account.will_hold : readings.own_bytes;
    const uint64_t machine = above(holds + account.margin + account.falling, account.usable);
    const uint64_t budget = above(account.rss, bounds.budget_bytes);
    if (machine > 0 || budget > 0) {
        state.calm_readings = 0;
        if (readings.pending || readings.arena_bytes <= bounds.floor_bytes()) {
            return std::nullopt;
        }
        return shrink(bounds, readings, account, machine, budget);
    }
    if (readings.between) {
        return std::nullopt;
    }
    state.calm_readings = std::min(state.calm_readings + 1, readings_until_regrowth);
    if (readings.pending || state.calm_readings < readings_until_regrowth) {
        return std::nullopt;
    }
    std::optional<ArenaResize> resize = regrow(bounds, readings, account);
    if (resize) {
        state.calm_readings -= readings_between_steps;
    }
    return resize;
}

uint64_t Decline::expect(uint64_t usable_bytes, Clock::time_point now, std::chrono::milliseconds ahead) {
    const std::chrono::duration<double, std::milli> passed = now - (last_ ? last_->at : now);
    if (!last_ || passed >= decline_interval) {
        const uint64_t fall = last_ ? above(last_->usable_bytes, usable_bytes) : 0;
        before_ = bytes_per_ms_;
        bytes_per_ms_ = fall >= fall_noise ? static_cast<double>(fall) / passed.count() : 0;
        last_ = {usable_bytes, now};
    }
    return static_cast<uint64_t>(std::min(before_, bytes_per_ms_) * static_cast<double>(ahead.count()));
}

std::string to_string(const ArenaResize &resize) {
    return fmt::format("arena {} -> {}: {}", format_bytes(resize.from_bytes), format_bytes(resize.to_bytes),
                       resize.reason);
}

} // namespace larder
