// pressure.h — keeps the process inside its budget, and inside what the machine can still give, while it runs.
//
// The plan says what the arena may be when larder starts. Later a limit may be lowered, a neighbour may take memory, or
// the process itself may hold more than was planned. A PressureWatcher looks a few times a second, and at once when the
// kernel says that a group runs into its limit (alarm.h), and changes how many slots the store uses:
//
//   short of memory    what is missing, what will be in the next moment as things go, and a sixteenth of the arena more
//                      goes back to the kernel at once, but never the floor, which is what one token needs; and it
//                      looks every few ms until a regular look finds nothing missing: a neighbour takes more in gusts
//   calm for 5 s       a thirty-second of the arena comes back, and as much after each further second, if that leaves a
//                      gap to where it would shrink again and if the slots there are hold something
//
// It is short of memory when what the process will hold with all its slots filled, and a quarter of the reserve beside
// it (half of it while the kernel is under pressure), is more than probe_machine() finds usable; or when its RSS is
// above the budget. While slots are empty, some MiB of what others seem to hold may be huge pages that are being
// cleared for them, and are no shortage. Pressure is a stall (PSI) of this cgroup, or of the machine where the cgroup
// has no such file, or a cgroup above the process that has just run into its limit. Both also come of page cache that
// is dropped in time, so they only ask for more room and never shrink the arena by themselves.
//
// decide() is a pure function: it knows no clock and no file. Units: bytes; readings where it says so.
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

// --- what is known from the plan ---

struct PressureBounds {
    uint64_t budget_bytes = 0;
    uint64_t fixed_bytes = 0; // all that the plan holds but the arena and the reserve
    uint64_t reserve_bytes = 0;
    // By so much the budget was above what the machine could give when it was accepted all the same (--overcommit).
    uint64_t overcommitted_bytes = 0;
    std::vector<SlotRange> classes;

    [[nodiscard]] uint64_t floor_bytes() const;
    [[nodiscard]] uint64_t full_bytes() const;
};

// `size_classes` are those of the plan's slots: of all models, one model after the other.
PressureBounds pressure_bounds(std::span<const SizeClass> size_classes, const MemoryPlan &plan,
                               uint64_t overcommitted_bytes);

// Slots per size class for an arena of at most so many bytes, but at least the floor. Between the floor and the plan's
// slots every class keeps the same share of its range.
std::vector<uint64_t> slots_within(const PressureBounds &bounds, uint64_t arena_bytes);

// --- what is read ---

struct Readings {
    Machine machine;        // what this process may use now, and who says so
    uint64_t own_bytes = 0; // that it holds and nobody can take from it
    uint64_t rss_bytes = 0;
    double stalled = 0;      // share of the last ten seconds in which a task waited for memory, 0 to 1
    uint64_t limit_hits = 0; // how often cgroups above the process have run into their limits, ever
    // Of the watcher.
    uint64_t falling_bytes = 0; // what the machine gives will be less by so much in a moment, if it goes on as it does
    bool between = false;       // not one of the regular readings: it came with an alarm or soon after one
    // Of the store.
    uint64_t arena_bytes = 0; // slots in use
    uint64_t empty_bytes = 0; // of them, those that hold nothing
    bool pending = false;     // a change is under way
};

// Reads /proc and /sys, with `root` before them; leaves the watcher's and the arena's figures zero. A file that is not
// there says nothing.
Readings read_pressure(const std::string &root = "");

// --- what follows from it ---

struct PressureState {
    uint32_t calm_readings = 0; // in a row
    std::optional<uint64_t> limit_hits;
};

struct ArenaResize {
    uint64_t from_bytes = 0;
    uint64_t to_bytes = 0; // at most; whole slots are less
    std::string reason;
};

// The arena to have from now on, or none if it shall stay. `state` becomes that of the next reading. A state begins
// default-constructed, and readings follow each other in equal intervals, four in a second, but for those between.
std::optional<ArenaResize> decide(const PressureBounds &bounds, const Readings &readings, PressureState &state);

// "arena 120 MiB -> 80 MiB: ..."
std::string to_string(const ArenaResize &resize);

// How fast the machine's memory goes, from what it gave when it was looked at.
class Decline {
  public:
    using Clock = std::chrono::steady_clock;
    // What it will give less `ahead` from now than now, if it goes as in the last two stretches of at least some ms: as
    // in the one that went slower, since the kernel's figures are late and a single fall may be none. 0 where that was
    // next to nothing.
    uint64_t expect(uint64_t usable_bytes, Clock::time_point now, std::chrono::milliseconds ahead);

  private:
    struct Sample {
        uint64_t usable_bytes = 0;
        Clock::time_point at;
    };
    std::optional<Sample> last_;
    double bytes_per_ms_ = 0; // in the last stretch
    double before_ = 0;       // and in the one before
};

// --- the watcher ---

struct PressureFigures {
    uint64_t peak_rss_bytes = 0; // highest that was seen
    std::string last_reason;     // of the last resize, empty if there was none
};

// A thread that reads, decides and tells the stores. The arenas must outlive it. Nothing is thrown: a reading that
// fails is left out.
class PressureWatcher {
  public:
    struct Options {
        std::string root; // before /proc and /sys, for tests
        std::chrono::milliseconds interval{250};
        std::function<void(const ArenaResize &)> on_resize; // on the watcher's thread; may be empty; must not throw
    };
    PressureWatcher(Arenas &arenas, PressureBounds bounds, Options options);

    [[nodiscard]] PressureFigures figures() const; // any thread

  private:
    void watch(const std::stop_token &stop);
    bool look(bool between); // true if the next look should come soon

    Arenas &arenas_;
    const PressureBounds bounds_;
    const Options options_;
    PressureAlarm alarm_;
    PressureState state_; // this and the next: of the thread
    Decline decline_;
    mutable std::mutex mutex_;
    PressureFigures figures_; // guarded by mutex_
    std::jthread thread_;     // last: it uses all others
};

} // namespace larder
