// Assigns slots and reads to the slices of a batch, and processes finished reads.
#include "store/store_impl.h"

#include "base/check.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace larder {
namespace {

// Maximum of slices of a streaming batch that are being read or in use while others still wait for a slot. Sufficient
// for the queue of any disk.
constexpr uint32_t streaming_max = 32;

std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point deadline,
                                     std::chrono::steady_clock::time_point now) {
    using Clock = std::chrono::steady_clock;
    return deadline == Clock::time_point::max() ? std::chrono::milliseconds::max()
                                                : std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
}

} // namespace

// --- starting ---

// If a layer needs more slices than there are slots, it occupies at most streaming_max of them at a time. Its released
// slots are the next victims. So a long prefill uses a few slots again and again, instead of pinning, and thereby
// evicting, all of them.
bool ExpertStore::Impl::assign_slots() {
    const size_t first = absent_next_;
    for (; absent_next_ < absent_.size(); ++absent_next_) {
        const Absent &next = absent_[absent_next_];
        const uint32_t size_class = sources_.size_class(next.slice);
        if (streams_[size_class] && n_streaming_ == streaming_max) {
            break;
        }
        const SlotTable::Acquired acquired = table_.acquire(size_class, next.slice);
        if (acquired.slot == no_slot) {
            break;
        }
        prepare_read(acquired, next.slice);
        table_.pin(acquired.slot);
        uses_[acquired.slot].demanded_position = next.demanded_position;
        uses_[acquired.slot].streaming = true;
        ++n_streaming_;
    }
    n_without_slot_.store(static_cast<uint32_t>(absent_.size() - absent_next_), std::memory_order_relaxed);
    return absent_next_ > first;
}

void ExpertStore::Impl::prepare_following() {
    for (const SliceIndex slice : following_) {
        const uint32_t size_class = sources_.size_class(slice);
        if (table_.available(size_class) <= class_demand_[size_class].present) {
            continue; // the next victim would be another slice of this layer
        }
        prepare_read(table_.acquire(size_class, slice), slice);
    }
}

void ExpertStore::Impl::prepare_read(SlotTable::Acquired acquired, SliceIndex slice) {
    LARDER_CHECK(acquired.slot != no_slot);
    counters_.evictions.add(acquired.evicted ? 1 : 0);
    char *const memory = arena_.address(acquired.slot, sources_.size_class(slice));
    uses_[acquired.slot] = {.data = memory + sources_.skew(slice), .first_use = true};
    prepared_.push_back(sources_.request(slice, memory, acquired.slot));
    has_prepared_.store(true, std::memory_order_relaxed);
}

void ExpertStore::Impl::submit_prepared() {
    if (!prepared_.empty()) {
        reader_.submit(prepared_);
        prepared_.clear();
        has_prepared_.store(false, std::memory_order_relaxed);
    }
}

void ExpertStore::Impl::cancel_prepared() {
    for (const ReadRequest &request : prepared_) {
        table_.abandon(static_cast<SlotIndex>(request.tag));
    }
    prepared_.clear();
    has_prepared_.store(false, std::memory_order_relaxed);
}

void ExpertStore::Impl::drop_absent() {
    absent_.clear();
    absent_next_ = 0;
    n_without_slot_.store(0, std::memory_order_relaxed);
}

// --- waiting, and finished reads ---

const ReadySlice *ExpertStore::Impl::wait_for_read(uint32_t position) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (position < n_ready_.load(std::memory_order_relaxed)) {
            return &ready_order_[position];
        }
        if (batch_stopped_) {
            return nullptr;
        }
        if (polling_ || !should_poll()) {
            progress_.wait(lock);
            continue;
        }
        submit_prepared();
        if (poll_until(read_deadline(), lock) == Polled::timed_out) {
            give_up();
        }
    }
}

bool ExpertStore::Impl::should_poll() const {
    return table_.awaited() > 0 || (table_.reading() > 0 && table_.pinned() == 0);
}

ExpertStore::Impl::Clock::time_point ExpertStore::Impl::read_deadline() const {
    return options_.read_timeout.count() > 0 ? options_.now() + options_.read_timeout : Clock::time_point::max();
}

// A reader may return early if it was woken for a stop that has been cleared since.
ExpertStore::Impl::Polled ExpertStore::Impl::poll_until(Clock::time_point deadline,
                                                        std::unique_lock<std::mutex> &lock) {
    polling_ = true;
    const Clock::time_point begin = options_.now();
    Clock::time_point now = begin;
    size_t count = 0;
    while (count == 0 && now < deadline && !batch_stopped_) {
        lock.unlock();
        count = reader_.poll(results_, time_until(deadline, now));
        now = options_.now();
        lock.lock();
    }
    polling_ = false;
    counters_.stall_us.add(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - begin).count()));
    for (size_t i = 0; i < count; ++i) {
        finish(results_[i]);
    }
    assign_slots();
    submit_prepared();
    progress_.notify_all(); // also so that another thread can poll
    if (count > 0) {
        return Polled::finished;
    }
    return batch_stopped_ ? Polled::stopped : Polled::timed_out;
}

bool ExpertStore::Impl::poll_finished() {
    bool any = false;
    size_t count = results_.size();
    while (count == results_.size() && table_.reading() > 0) {
        count = reader_.poll(results_, std::chrono::milliseconds(0));
        for (size_t i = 0; i < count; ++i) {
            finish(results_[i]);
        }
        any = any || count > 0;
    }
    return any;
}

void ExpertStore::Impl::finish(const ReadResult &result) {
    LARDER_CHECK(result.tag < table_.slots());
    const auto slot = static_cast<SlotIndex>(result.tag);
    const bool pinned = table_.pinned(slot);
    if (result.error != 0) {
        counters_.read_errors.add(1);
        if (pinned && !batch_stopped_) {
            keep_cause(table_.slice(slot), result.error);
            append_unread(slot);
        }
        table_.abandon(slot);
        return;
    }
    counters_.slice_reads.add(1);
    counters_.bytes_read.add(result.bytes_read);
    table_.publish(slot);
    if (pinned && !batch_stopped_) {
        append_ready(slot);
    }
}

void ExpertStore::Impl::append_ready(SlotIndex slot) {
    LARDER_CHECK(table_.state(slot) == SlotState::ready && table_.pinned(slot));
    const SlotUse &use = uses_[slot];
    append({table_.slice(slot), use.data, use.demanded_position, use.first_use});
}

void ExpertStore::Impl::append_unread(SlotIndex slot) {
    SlotUse &use = uses_[slot];
    n_streaming_ -= std::exchange(use.streaming, false) ? 1 : 0;
    append({table_.slice(slot), nullptr, use.demanded_position, false});
}

void ExpertStore::Impl::append(const ReadySlice &slice) {
    const uint32_t n = n_ready_.load(std::memory_order_relaxed);
    LARDER_CHECK(n < demanded_.size());
    ready_order_[n] = slice;
    n_ready_.store(n + 1, std::memory_order_release);
}

// No read has finished for read_timeout: the disk counts as hung. The slots of reads in flight stay `reading`, but no
// longer belong to this batch.
void ExpertStore::Impl::give_up() {
    for (const SliceIndex slice : demanded_) {
        const SlotIndex slot = table_.find(slice);
        if (slot != no_slot && table_.state(slot) == SlotState::reading && table_.pinned(slot)) {
            counters_.read_errors.add(1);
            keep_cause(slice, std::nullopt);
            append_unread(slot);
            table_.unpin(slot);
        }
    }
    for (; absent_next_ < absent_.size(); ++absent_next_) {
        const Absent &absent = absent_[absent_next_];
        keep_cause(absent.slice, std::nullopt);
        append({absent.slice, nullptr, absent.demanded_position, false});
    }
    drop_absent();
}

void ExpertStore::Impl::keep_cause(SliceIndex slice, std::optional<int> errno_value) {
    if (!failure_) {
        failure_ = {slice, errno_value};
    }
    failed_.store(true, std::memory_order_release);
}

// --- stopping ---

void ExpertStore::Impl::request_stop() {
    const std::lock_guard lock(mutex_);
    stop_requested_.store(true, std::memory_order_relaxed);
    if (batch_open_) {
        batch_stopped_ = true;
        cancel_prepared();
        drop_absent();
    }
    if (polling_) {
        reader_.wake();
    }
    progress_.notify_all();
}

void ExpertStore::Impl::clear_stop() {
    const std::lock_guard lock(mutex_);
    stop_requested_.store(false, std::memory_order_relaxed);
}

} // namespace larder
