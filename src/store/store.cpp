#include "store/store.h"

#include "base/check.h"
#include "store/eviction.h"
#include "store/routed_experts.h"
#include "store/store_impl.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace larder {
namespace {

SlotTable make_table(const ModelLayout &layout, std::span<const uint64_t> slots) {
    RoutedExperts experts = routed_experts(layout);
    const EvictionShape shape = {.slots = static_cast<uint32_t>(std::accumulate(slots.begin(), slots.end(), 0ULL)),
                                 .size_classes = static_cast<uint32_t>(slots.size()),
                                 .experts_of_moe_layer = std::move(experts.of_moe_layer)};
    return {std::move(experts.of_slice), slots, make_eviction_order(product_policy, shape)};
}

} // namespace

ExpertStore::Impl::Impl(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader,
                        StoreOptions options)
    : options_(std::move(options)), sources_(layout), arena_(layout.size_classes, slots),
      prefault_(arena_.base(), arena_.bytes()), planned_slots_(slots.begin(), slots.end()),
      table_(make_table(layout, slots)), uses_(table_.slots()), wanted_slots_(slots.begin(), slots.end()),
      class_demand_(slots.size()), streams_(slots.size()), reader_(reader),
      ready_order_(sources_.slices_of_tensor_max()), pins_left_(sources_.slices_of_tensor_max()) {
    absent_.reserve(sources_.slices_of_tensor_max());
    demanded_.reserve(sources_.slices_of_tensor_max());
    following_.reserve(sources_.slices_of_layer_max());
    prepared_.reserve(sources_.slices_of_tensor_max() + sources_.slices_of_layer_max());
}

// The kernel writes into the arena until the last read has finished. If a disk never finishes a read, the arena must
// stay mapped: otherwise the process might map other memory at its addresses, and a late read would overwrite it.
ExpertStore::Impl::~Impl() {
    std::unique_lock lock(mutex_);
    LARDER_CHECK(!batch_open_);
    while (table_.reading() > 0) {
        if (poll_until(read_deadline(), lock) == Polled::timed_out) {
            arena_.leak();
            return;
        }
    }
}

// --- stages of a batch ---

void ExpertStore::Impl::begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following,
                              bool first_of_layer, const TokenRows &rows, uint32_t pins_per_slice) {
    LARDER_CHECK(pins_per_slice > 0);
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [this] { return !polling_; }); // resize() on another thread
    open_batch(demanded);
    for (size_t position = 0; position < demanded.size(); ++position) {
        pins_left_[position].store(pins_per_slice, std::memory_order_relaxed);
    }
    LARDER_CHECK(following.size() <= sources_.slices_of_layer_max());
    poll_finished();
    if (first_of_layer) {
        count_accesses(following);
        table_.begin_step(demanded, rows.of_demanded, rows.tokens);
    }
    claim_demanded();
    if (batch_stopped_) {
        drop_absent();
        return;
    }
    select_following(following);
    if (first_of_layer) {
        for (uint32_t size_class = 0; size_class < streams_.size(); ++size_class) {
            streams_[size_class] = class_demand_[size_class].slices > table_.slots(size_class);
        }
    }
    assign_slots();
    prepare_following();
}

void ExpertStore::Impl::start_reads() {
    if (has_prepared_.load(std::memory_order_relaxed)) {
        const std::lock_guard lock(mutex_);
        submit_prepared();
    }
}

const ReadySlice *ExpertStore::Impl::wait(uint32_t position) {
    if (position < n_ready_.load(std::memory_order_acquire)) [[likely]] {
        return &ready_order_[position];
    }
    return position < demanded_.size() ? wait_for_read(position) : nullptr;
}

void ExpertStore::Impl::unpin(uint32_t position) {
    const uint32_t left = pins_left_[position].fetch_sub(1, std::memory_order_acq_rel);
    LARDER_CHECK(left > 0);
    if (left == 1) {
        release(position);
    }
}

// The last pin of the position has ended. Takes the lock only if another slice needs the slot. While reads are in
// flight it also collects finished ones, if the lock is free, so that a reader with a bounded depth continues while all
// threads compute.
void ExpertStore::Impl::release(uint32_t position) {
    const bool slot_wanted = n_without_slot_.load(std::memory_order_relaxed) > 0;
    if (!slot_wanted && n_ready_.load(std::memory_order_relaxed) == demanded_.size()) {
        return;
    }
    std::unique_lock lock(mutex_, std::defer_lock);
    if (slot_wanted) {
        lock.lock();
        if (ready_order_[position].data != nullptr) { // otherwise its slot was freed when the read failed
            const SlotIndex slot = table_.find(ready_order_[position].slice);
            n_streaming_ -= std::exchange(uses_[slot].streaming, false) ? 1 : 0;
            table_.unpin(slot);
        }
    } else if (!lock.try_lock()) {
        return;
    }
    if (polling_) {
        return; // the polling thread assigns the slot when it returns
    }
    const bool finished = poll_finished();
    const bool started = assign_slots();
    submit_prepared();
    if (finished || started) {
        progress_.notify_all();
    }
}

// Reads of demanded slices that no thread waited for stay in flight; they become reads of ordinary cached slices.
void ExpertStore::Impl::end() {
    std::unique_lock lock(mutex_);
    LARDER_CHECK(batch_open_ && !polling_);
    mark_used();
    for (const SliceIndex slice : demanded_) {
        const SlotIndex slot = table_.find(slice);
        if (slot != no_slot && table_.pinned(slot)) {
            uses_[slot].streaming = false;
            table_.unpin(slot);
        }
    }
    LARDER_CHECK(table_.pinned() == 0);
    n_streaming_ = 0;
    drop_absent();
    demanded_.clear();
    n_ready_.store(0, std::memory_order_relaxed);
    batch_open_ = false;
    batch_stopped_ = false;
    submit_prepared(); // also following slices, if no thread had to wait for them
    resize_classes(lock);
}

// Every ready slice was used completely: threads leave a batch at the first slice that is not ready.
void ExpertStore::Impl::mark_used() {
    const uint32_t n = n_ready_.load(std::memory_order_relaxed);
    for (uint32_t position = 0; position < n; ++position) {
        const SlotIndex slot =
            ready_order_[position].data != nullptr ? table_.find(ready_order_[position].slice) : no_slot;
        if (slot != no_slot) { // otherwise it was released and another slice of this batch has its slot
            uses_[slot].first_use = false;
        }
    }
}

std::optional<Error> ExpertStore::Impl::take_error() {
    std::optional<Failure> failure;
    {
        const std::lock_guard lock(mutex_);
        failed_.store(false, std::memory_order_release);
        failure = std::exchange(failure_, std::nullopt);
    }
    if (!failure) {
        return std::nullopt;
    }
    return failure->errno_value ? sources_.read_error(failure->slice, *failure->errno_value)
                                : sources_.timeout_error(failure->slice, options_.read_timeout);
}

bool ExpertStore::Impl::cached(SliceIndex slice) const {
    const std::lock_guard lock(mutex_);
    return table_.ready(slice);
}

// --- beginning ---

void ExpertStore::Impl::open_batch(std::span<const SliceIndex> demanded) {
    LARDER_CHECK(!batch_open_ && !polling_ && table_.pinned() == 0);
    LARDER_CHECK(demanded.size() <= sources_.slices_of_tensor_max());
    batch_open_ = true;
    batch_stopped_ = stop_requested_.load(std::memory_order_relaxed);
    demanded_.assign(demanded.begin(), demanded.end());
}

void ExpertStore::Impl::count_accesses(std::span<const SliceIndex> following) {
    const size_t n = demanded_.size();
    LARDER_CHECK(n == 0 ? following.empty() : following.size() % n == 0);
    uint64_t hits = 0;
    for (size_t i = 0; i < n; ++i) {
        bool ready = table_.ready(demanded_[i]);
        for (size_t j = i; ready && j < following.size(); j += n) {
            ready = table_.ready(following[j]);
        }
        hits += ready ? 1 : 0;
    }
    counters_.expert_hits.add(hits);
    counters_.expert_misses.add(n - hits);
}

// Pins ready slices, also those being read, and queues the others. No victim may be chosen before this is done.
void ExpertStore::Impl::claim_demanded() {
    for (uint32_t position = 0; position < demanded_.size(); ++position) {
        const SliceIndex slice = demanded_[position];
        const SlotIndex slot = table_.find(slice);
        if (slot == no_slot) {
            absent_.push_back({slice, position});
            continue;
        }
        table_.pin(slot);
        uses_[slot].demanded_position = position;
        if (table_.state(slot) == SlotState::ready) {
            append_ready(slot);
        }
    }
    std::ranges::sort(absent_, {}, &Absent::slice); // slices of one tensor are numbered in file order
}

// Following slices that are present are kept, so that the layer's own reads evict them last.
void ExpertStore::Impl::select_following(std::span<const SliceIndex> following) {
    following_.clear();
    std::ranges::fill(class_demand_, ClassDemand{});
    const auto fits = [&](SliceIndex slice) {
        const uint32_t size_class = sources_.size_class(slice);
        return class_demand_[size_class].slices <= table_.slots(size_class);
    };
    for (const SliceIndex slice : demanded_) {
        ++class_demand_[sources_.size_class(slice)].slices;
    }
    for (const SliceIndex slice : following) {
        ++class_demand_[sources_.size_class(slice)].slices;
    }
    for (const SliceIndex slice : following) {
        if (fits(slice) && table_.find(slice) == no_slot) {
            following_.push_back(slice);
        }
    }
    if (absent_.empty() && following_.empty()) {
        return; // nothing will be evicted
    }
    for (const SliceIndex slice : following) {
        if (fits(slice) && table_.ready(slice)) {
            table_.keep(table_.find(slice));
            ++class_demand_[sources_.size_class(slice)].present;
        }
    }
    std::ranges::sort(following_);
}

// --- ExpertStore ---

ExpertStore::ExpertStore(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader,
                         StoreOptions options)
    : impl_(std::make_unique<Impl>(layout, slots, reader, std::move(options))) {}

ExpertStore::~ExpertStore() = default;

void ExpertStore::begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following,
                        bool first_of_layer, const TokenRows &rows, uint32_t pins_per_slice) {
    impl_->begin(demanded, following, first_of_layer, rows, pins_per_slice);
}

void ExpertStore::start_reads() { impl_->start_reads(); }
Pin ExpertStore::wait(uint32_t position) {
    const ReadySlice *slice = impl_->wait(position);
    return {slice != nullptr ? this : nullptr, slice, position};
}
void ExpertStore::unpin(uint32_t position) { impl_->unpin(position); }
void ExpertStore::end() { impl_->end(); }
void ExpertStore::resize(std::span<const uint64_t> slots) { impl_->resize(slots); }
ArenaUse ExpertStore::arena_use() const { return impl_->arena_use(); }
void ExpertStore::request_stop() { impl_->request_stop(); }
void ExpertStore::clear_stop() { impl_->clear_stop(); }
bool ExpertStore::stop_requested() const { return impl_->stop_requested(); }
std::optional<Error> ExpertStore::take_error() { return impl_->take_error(); }
bool ExpertStore::failed() const { return impl_->failed(); }
StoreStats ExpertStore::stats() const { return impl_->stats(); }
bool ExpertStore::cached(SliceIndex slice) const { return impl_->cached(slice); }

} // namespace larder
