// How a batch's slices get slots and reads, and what becomes of finished reads.
#include "store/batch.h"

#include "base/check.h"

#include <algorithm>
#include <chrono>

namespace larder {
namespace {

// Slices of one batch that are read, or used while others of it still wait for a slot: enough for any disk's queue.
constexpr uint32_t streaming_max = 32;

} // namespace

// --- starting ---

// Where a layer streams, no more than a window of the queue at a time: what was released of it is the next victim, so
// that a long prefill passes through a few slots instead of pinning, and thereby evicting, all there are.
bool ExpertStore::Impl::start_queued() {
    const size_t first = queue_next_;
    for (; queue_next_ < queue_.size(); ++queue_next_) {
        const Queued &next = queue_[queue_next_];
        const uint32_t size_class = sources_.size_class(next.slice);
        if (streams_[size_class] && n_streaming_ == streaming_max) {
            break;
        }
        const SlotTable::Acquired acquired = table_.acquire(size_class, next.slice);
        if (acquired.slot == no_slot) {
            break;
        }
        table_.need(acquired.slot);
        uses_[acquired.slot].demanded_position = next.demanded_position;
        uses_[acquired.slot].streaming = true;
        ++n_streaming_;
        start_read(acquired, next.slice);
    }
    n_queued_.store(static_cast<uint32_t>(queue_.size() - queue_next_), std::memory_order_relaxed);
    return queue_next_ > first;
}

void ExpertStore::Impl::start_following() {
    for (const SliceIndex slice : following_) {
        const uint32_t size_class = sources_.size_class(slice);
        if (table_.available(size_class) <= class_demand_[size_class].present) {
            continue; // the next victim would be another slice of this layer
        }
        start_read(table_.acquire(size_class, slice), slice);
    }
}

void ExpertStore::Impl::start_read(SlotTable::Acquired acquired, SliceIndex slice) {
    LARDER_CHECK(acquired.slot != no_slot);
    counters_.evictions.add(acquired.evicted ? 1 : 0);
    char *const memory = arena_.address(acquired.slot, sources_.size_class(slice));
    uses_[acquired.slot].data = memory + sources_.skew(slice);
    uses_[acquired.slot].fresh = true;
    started_.push_back(sources_.request(slice, memory, acquired.slot));
    has_started_.store(true, std::memory_order_relaxed);
}

void ExpertStore::Impl::submit_started() {
    if (!started_.empty()) {
        reader_.submit(started_);
        started_.clear();
        has_started_.store(false, std::memory_order_relaxed);
    }
}

void ExpertStore::Impl::drop_queue() {
    queue_.clear();
    queue_next_ = 0;
    n_queued_.store(0, std::memory_order_relaxed);
}

// --- waiting, and what has been read ---

const ReadySlice *ExpertStore::Impl::wait_for_read(uint32_t position) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (position < n_ready_.load(std::memory_order_relaxed)) {
            return &ready_order_[position];
        }
        if (batch_failed_) {
            return nullptr;
        }
        if (polling_ || table_.reading() == 0) {
            progress_.wait(lock);
        } else {
            submit_started();
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
    start_queued();
    submit_started();
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
    const bool needed = table_.needed(slot);
    if (result.error != 0) {
        const SliceIndex slice = table_.slice(slot);
        counters_.read_errors.add(1);
        table_.abandon(slot);
        if (needed) {
            fail(slice, result.error);
        }
        return;
    }
    counters_.slice_reads.add(1);
    counters_.bytes_read.add(result.bytes_read);
    table_.publish(slot);
    if (needed && !batch_failed_) {
        append_ready(slot);
    }
}

void ExpertStore::Impl::append_ready(SlotIndex slot) {
    const uint32_t n = n_ready_.load(std::memory_order_relaxed);
    LARDER_CHECK(n < demanded_.size() && table_.state(slot) == SlotState::ready && table_.needed(slot));
    ready_order_[n] = {table_.slice(slot), uses_[slot].data, uses_[slot].demanded_position, uses_[slot].fresh};
    n_ready_.store(n + 1, std::memory_order_release);
}

// n_ready_ stays where it is from here on: threads see the batch end at the same place, or earlier.
void ExpertStore::Impl::fail(SliceIndex slice, int errno_value) {
    if (!error_) {
        error_ = sources_.read_error(slice, errno_value);
    }
    failed_.store(true, std::memory_order_release);
    batch_failed_ = true;
    drop_queue();
}

} // namespace larder
