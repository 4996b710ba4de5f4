// pressure.h — keeps the process inside its budget, and inside the memory that the machine can provide, while it runs.
//
// The plan determines the size of the arena at the start. Later a limit may be lowered, a neighbour (another process in
// the same cgroup) may take memory, or the process itself may hold more than planned. A PressureWatcher takes a reading
// a few times a second, and immediately when the kernel reports that a group is near or at its limit (alarm.h), and
// changes the number of slots that the store uses:
//
//   - Short of memory: the missing bytes, the bytes that will soon be missing at the current rate, and another
//     sixteenth of the arena above its floor are returned to the kernel immediately. The arena never becomes smaller
//     than the floor, which is the need of one token. Readings follow every few ms until a regular reading finds
//     nothing missing, because a neighbour may take memory in bursts.
//   - No shortage for 5 s: a thirty-second of the arena above its floor is added, and again after each further second.
//     Conditions: a gap remains to the point where the arena would shrink again, and the slots in use are filled.
//
// The process is short of memory if the bytes that it will hold with all slots filled, plus a quarter of the reserve
// (half of it under memory pressure), exceed the bytes that probe_memory() reports as usable; or if its RSS is above
// the budget. While slots are empty, some MiB of the memory that others seem to hold may be huge pages that the kernel
// clears for these slots; this is not a shortage. Memory pressure means a stall (PSI) of this cgroup, or of the machine
// if the cgroup has no such file, or that a cgroup above the process has just reached its limit. Reclaiming page cache
// in time also causes both, so they only raise the required margin and do not shrink the arena by themselves.
//
// decide() is a pure function: it uses no clock and no file. Units: bytes; readings where stated.
#pragma once

#include "layout/layout.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "pressure/alarm.h"
#include "pressure/arenas.h"
#include "store/store.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace larder {

// --- from the plan ---

struct PressureBounds {
    uint64_t budget_bytes = 0;
    uint64_t fixed_bytes = 0; // all of the plan except the arena and the reserve
    uint64_t reserve_bytes = 0;
    // The bytes by which the budget exceeded the available memory when it was accepted (--overcommit).
    uint64_t overcommitted_bytes = 0;
    std::vector<SlotRange> classes;

    [[nodiscard]] uint64_t floor_bytes() const;
    [[nodiscard]] uint64_t full_bytes() const;
};

// `size_classes` are those of the plan's slots: of all models, one model after the other.
PressureBounds pressure_bounds(std::span<const SizeClass> size_classes, const MemoryPlan &plan,
                               uint64_t overcommitted_bytes);

// Slots by size class for an arena of at most `arena_bytes`, but at least the floor. Every class gets the same share of
// its range between the floor and the plan's slots.
std::vector<uint64_t> slots_within(const PressureBounds &bounds, uint64_t arena_bytes);

// --- readings ---

struct Readings {
    Machine machine;             // the memory that this process may use now, and the limit that determines it
    uint64_t own_bytes = 0;      // memory of this process and its counted children that the kernel cannot reclaim
    uint64_t children_bytes = 0; // the part of own_bytes that the children hold
    uint64_t rss_bytes = 0;      // of this process alone
    double stalled = 0;          // share of the last ten seconds in which a task waited for memory, 0 to 1
    uint64_t limit_hits = 0;     // how often cgroups above the process have reached their limits, in total
    // Set by the watcher.
    uint64_t falling_bytes = 0; // expected decrease of the usable memory in the near future, at the current rate
    bool between = false;       // an extra reading, after an alarm or during a shortage
    // Set from the store.
    uint64_t arena_bytes = 0; // slots in use
    uint64_t empty_bytes = 0; // slots in use that hold no slice
    bool pending = false;     // a resize is pending
};

// Reads /proc and /sys with `root` prepended. Leaves the figures of the watcher and of the store zero. A file that does
// not exist is ignored.
Readings read_pressure(const std::string &root = "");

// --- decisions ---

struct PressureState {
    uint32_t calm_readings = 0; // consecutive readings without a shortage
    std::optional<uint64_t> limit_hits;
};

struct ArenaResize {
    uint64_t from_bytes = 0;
    uint64_t to_bytes = 0; // upper bound; rounding to whole slots gives less
    std::string reason;
};

// The new size of the arena, or none if it stays. Updates `state` for the next reading; start with a
// default-constructed state. Regular readings follow at equal intervals, four per second; extra readings may come
// between them.
std::optional<ArenaResize> decide(const PressureBounds &bounds, const Readings &readings, PressureState &state);

// "arena 120 MiB -> 80 MiB: ..."
std::string to_string(const ArenaResize &resize);

// How fast the usable memory of the machine decreases, estimated from successive readings.
class Decline {
  public:
    using Clock = std::chrono::steady_clock;
    // The expected decrease of the usable memory within `ahead` from `now`. It uses the slower of the rates in the last
    // two intervals of at least some ms, because the kernel's figures are delayed and a single fall may be noise. 0 if
    // that rate is negligible.
    uint64_t expect(uint64_t usable_bytes, Clock::time_point now, std::chrono::milliseconds ahead);

  private:
    struct Sample {
        uint64_t usable_bytes = 0;
        Clock::time_point at;
    };
    std::optional<Sample> last_;
    double bytes_per_ms_ = 0; // in the last interval
    double before_ = 0;       // in the interval before
};

// --- the watcher ---

struct PressureFigures {
    uint64_t peak_rss_bytes = 0; // highest value seen
    std::string last_reason;     // of the last resize; empty if there was none
};

// A thread that reads, decides and resizes the arenas, which must outlive it. It throws nothing: a failed reading is
// skipped.
class PressureWatcher {
  public:
    struct Options {
        std::string root; // prepended to /proc and /sys, for tests
        std::chrono::milliseconds interval{250};
        std::function<void(const ArenaResize &)> on_resize; // on the watcher's thread; may be empty; must not throw
    };
    PressureWatcher(Arenas &arenas, PressureBounds bounds, Options options);

    [[nodiscard]] PressureFigures figures() const; // any thread

  private:
    void watch(const std::stop_token &stop);
    bool look(bool between); // true if the next reading should follow soon

    Arenas &arenas_;
    const PressureBounds bounds_;
    const Options options_;
    PressureAlarm alarm_;
    PressureState state_; // this and the next member belong to the thread
    Decline decline_;
    mutable std::mutex mutex_;
    PressureFigures figures_; // guarded by mutex_
    std::jthread thread_;     // last, because it uses all other members
};

} // namespace larder
