// Changes the number of slots in use, between batches.
#include "store/store_impl.h"

#include "base/check.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace larder {
namespace {

// Maximum wait for reads in flight. Reads of following slices finish sooner on a working disk.
constexpr std::chrono::milliseconds wait_max{50};

} // namespace

void ExpertStore::Impl::resize(std::span<const uint64_t> slots) {
    LARDER_CHECK(slots.size() == planned_slots_.size());
    // It would touch memory again that is given back. Not under the mutex: begin() must not wait for that thread.
    if (!std::ranges::equal(slots, planned_slots_)) {
        prefault_.stop();
    }
    std::unique_lock lock(mutex_);
    std::ranges::copy(slots, wanted_slots_.begin());
    resize_wanted_ = true;
    resize_deadline_ = options_.now() + wait_max;
    progress_.wait(lock, [this] { return batch_open_ || !polling_; }); // otherwise another call of resize() is polling
    if (!batch_open_) {
        resize_classes(lock);
    }
}

ArenaUse ExpertStore::Impl::arena_use() const {
    const std::lock_guard lock(mutex_);
    ArenaUse use;
    use.pending = resize_wanted_;
    for (uint32_t size_class = 0; size_class < wanted_slots_.size(); ++size_class) {
        use.slots.push_back(table_.slots(size_class));
        use.bytes += table_.slots(size_class) * arena_.slot_bytes(size_class);
        use.empty_bytes += table_.empty(size_class) * arena_.slot_bytes(size_class);
    }
    return use;
}

// Requires that no batch is open and no thread polls. Reads may be in flight, of following slices or from a hung disk,
// and their slots may have to retire.
void ExpertStore::Impl::resize_classes(std::unique_lock<std::mutex> &lock) {
    if (!resize_wanted_) {
        return;
    }
    poll_finished();
    while (table_.reading() > 0) { // begin() and other calls of resize() wait while this call polls
        if (poll_until(resize_deadline_, lock) == Polled::timed_out) {
            return; // the next end() tries again
        }
    }
    resize_wanted_ = false;
    bool shrunk = false;
    bool grown = false;
    for (uint32_t size_class = 0; size_class < wanted_slots_.size(); ++size_class) {
        const uint64_t before = table_.slots(size_class);
        shrunk = shrunk || wanted_slots_[size_class] < before;
        grown = grown || wanted_slots_[size_class] > before;
        resize_class(size_class);
    }
    counters_.shrinks.add(shrunk ? 1 : 0);
    counters_.regrows.add(grown && !shrunk ? 1 : 0);
}

void ExpertStore::Impl::resize_class(uint32_t size_class) {
    const uint64_t before = table_.slots(size_class);
    const uint64_t slots = wanted_slots_[size_class];
    LARDER_CHECK(slots <= UINT32_MAX);
    table_.resize(size_class, static_cast<uint32_t>(slots),
                  [this, size_class](SlotIndex from, SlotIndex to) { move_slice(from, to, size_class); });
    if (slots < before) {
        counters_.bytes_given_back.add(arena_.give_back(size_class, slots, before));
    }
}

void ExpertStore::Impl::move_slice(SlotIndex from, SlotIndex to, uint32_t size_class) {
    char *const source = arena_.address(from, size_class);
    char *const target = arena_.address(to, size_class);
    std::memcpy(target, source, arena_.slot_bytes(size_class));
    uses_[to] = uses_[from];
    uses_[to].data = target + (uses_[from].data - source);
}

} // namespace larder
