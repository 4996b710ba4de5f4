// How a batch's slices get slots and reads, and what becomes of finished reads.
#include "store/store_impl.h"

#include "base/check.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace larder {
namespace {

// Slices of one batch that are read, or used while others of it still wait for a slot: enough for any disk's queue.
constexpr uint32_t streaming_max = 32;

} // namespace

// --- starting ---

// Where a layer streams, no more than a window of the queue at a time: what was released of it is the next victim, so
// that a long prefill passes through a few slots instead of pinning, and thereby evicting, all there are.
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
        table_.pin(acquired.slot);
        uses_[acquired.slot].demanded_position = next.demanded_position;
        uses_[acquired.slot].streaming = true;
        ++n_streaming_;
        prepare_read(acquired, next.slice);
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
    uses_[acquired.slot].data = memory + sources_.skew(slice);
    uses_[acquired.slot].first_use = true;
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

void ExpertStore::Impl::drop_absent() {
    absent_.clear();
    absent_next_ = 0;
    n_without_slot_.store(0, std::memory_order_relaxed);
}

// --- waiting, and what has been read ---

const ReadySlice *ExpertStore::Impl::wait_for_read(uint32_t position) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (position < n_ready_.load(std::memory_order_relaxed)) {
            return &ready_order_[position];
        }
        if (polling_ || table_.reading() == 0) {
            progress_.wait(lock);
        } else {
            submit_prepared();
            poll_blocking(lock);
        }
    }
}

void ExpertStore::Impl::poll_blocking(std::unique_lock<std::mutex> &lock) {
    using Clock = std::chrono::steady_clock;
    polling_ = true;
    lock.unlock();
    const Clock::time_point blocked_from = Clock::now();
    const size_t count = reader_.poll(results_, std::chrono::milliseconds::max());
    const auto blocked_for = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - blocked_from);
    lock.lock();
    polling_ = false;
    counters_.stall_us.add(static_cast<uint64_t>(blocked_for.count()));
    for (size_t i = 0; i < count; ++i) {
        finish(results_[i]);
    }
    assign_slots();
    submit_prepared();
    progress_.notify_all(); // also for the sake of who takes over the polling
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
        if (pinned) {
            keep_cause(table_.slice(slot), result.error);
            append_unread(slot);
        }
        table_.abandon(slot);
        return;
    }
    counters_.slice_reads.add(1);
    counters_.bytes_read.add(result.bytes_read);
    table_.publish(slot);
    if (pinned) {
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

void ExpertStore::Impl::keep_cause(SliceIndex slice, int errno_value) {
    if (!failure_) {
        failure_ = {slice, errno_value};
    }
    failed_.store(true, std::memory_order_release);
}

} // namespace larder
