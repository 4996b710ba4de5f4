// The watcher thread.
#include "pressure/pressure.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace larder {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds soon{4};   // between readings during a shortage
constexpr milliseconds later{16}; // after alarms without a shortage: at the limit, page cache causes many
constexpr int urgent = -10;       // nice value of this thread only: it does little, but must run immediately
constexpr milliseconds ahead{50}; // a fall expected within this time counts as missing

} // namespace

PressureWatcher::PressureWatcher(Arenas &arenas, PressureBounds bounds, Options options)
    : arenas_(arenas), bounds_(std::move(bounds)), options_(std::move(options)), alarm_(options_.root),
      thread_([this](const std::stop_token &stop) { watch(stop); }) {}

PressureFigures PressureWatcher::figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
}

void PressureWatcher::watch(const std::stop_token &stop) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), urgent); // if refused, it may wait for a core
    const std::stop_callback wake(stop, [this] { alarm_.ring(); });
    Clock::time_point regular = Clock::now(); // time of the next regular reading
    milliseconds pause = soon;
    while (!stop.stop_requested()) {
        const Clock::time_point begin = Clock::now();
        const bool between = begin < regular;
        if (!between) {
            regular = begin + options_.interval;
        }
        try {
            const bool short_of_memory = look(between);
            if (!between) {
                alarm_.follow();
            }
            pause = short_of_memory || !between ? soon : std::min(2 * pause, later);
            const auto left = std::chrono::ceil<milliseconds>(regular - Clock::now());
            alarm_.wait(std::clamp(left, milliseconds(0), short_of_memory ? soon : options_.interval));
        } catch (const std::exception &) { // no memory for a string; the next reading may succeed
        }
        std::this_thread::sleep_until(begin + std::min(pause, options_.interval));
    }
}

bool PressureWatcher::look(bool between) {
    const ArenaUse use = arenas_.arena_use();
    Readings readings = read_pressure(options_.root);
    // At most what this process has still to touch is being cleared for it.
    const uint64_t planned = bounds_.fixed_bytes + use.bytes;
    const uint64_t untouched = planned - std::min(planned, readings.own_bytes);
    readings.machine.usable_bytes += std::min(readings.machine.uncounted_bytes, untouched);
    readings.falling_bytes = decline_.expect(readings.machine.usable_bytes, Clock::now(), ahead);
    readings.between = between;
    readings.arena_bytes = use.bytes;
    readings.empty_bytes = use.empty_bytes;
    readings.pending = use.pending;
    // Asked after the readings: a store that is removed is freed later.
    const std::optional<ArenaResize> resize = arenas_.settled() ? decide(bounds_, readings, state_) : std::nullopt;
    {
        const std::lock_guard lock(mutex_);
        figures_.peak_rss_bytes = std::max(figures_.peak_rss_bytes, readings.rss_bytes);
        if (resize) {
            figures_.last_reason = resize->reason;
        }
    }
    if (resize) {
        arenas_.resize(slots_within(bounds_, resize->to_bytes));
        if (options_.on_resize) {
            options_.on_resize(*resize);
        }
    }
    const bool can_give = use.bytes > bounds_.floor_bytes();
    return can_give && (state_.calm_readings == 0 || readings.falling_bytes > 0);
}

} // namespace larder
