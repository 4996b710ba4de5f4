// The thread that looks.
#include "pressure/pressure.h"

#include <exception>
#include <utility>

namespace larder {

PressureWatcher::PressureWatcher(ExpertStore &store, PressureBounds bounds, Options options)
    : store_(store), bounds_(std::move(bounds)), options_(std::move(options)),
      thread_([this](const std::stop_token &stop) { watch(stop); }) {}

PressureFigures PressureWatcher::figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
}

void PressureWatcher::watch(const std::stop_token &stop) {
    PressureState state;
    while (!stop.stop_requested()) {
        try {
            look(state);
        } catch (const std::exception &) { // no memory for a string: the next look may have more luck
        }
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, stop, options_.interval, [] { return false; });
    }
}

void PressureWatcher::look(PressureState &state) {
    const ArenaUse use = store_.arena_use();
    Readings readings = read_pressure(options_.root);
    readings.arena_bytes = use.bytes;
    readings.empty_bytes = use.empty_bytes;
    readings.pending = use.pending;
    const std::optional<ArenaResize> resize = decide(bounds_, readings, state);
    {
        const std::lock_guard lock(mutex_);
        figures_.peak_rss_bytes = std::max(figures_.peak_rss_bytes, readings.rss_bytes);
        if (resize) {
            figures_.last_reason = resize->reason;
        }
    }
    if (resize) {
        store_.use_slots(slots_within(bounds_, resize->to_bytes));
        if (options_.on_resize) {
            options_.on_resize(*resize);
        }
    }
}

} // namespace larder
