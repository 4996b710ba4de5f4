// store.h — the cache of expert slices in RAM, and the only access to their bytes.
//
// An ExpertStore owns the arena: one anonymous mapping, divided into slots by size class. A slice is read into a slot
// when a batch demands it. It is published in the slot table after its read has completed and its length was checked,
// pinned while a batch uses it, and evicted when another slice of its size class needs the slot. eviction.h chooses the
// victim: the slice whose expert has the least worth of all layers.
//
// A batch is the set of distinct slices that one MUL_MAT_ID uses:
//
//   one thread:   store.begin(demanded, following)     pins cached slices, chooses slots for absent ones
//   any thread:   store.start_reads()                  submits the reads to the kernel
//   all threads:  while (Pin pin = store.wait(p)) ...  the p-th slice in the order in which slices become ready
//   one thread:   store.end()                          after all threads have finished, and all pins have ended
//
// A batch may demand more slices than there are slots. Absent slices without a slot are read when all pins of others
// have ended.
//
// A failed read affects only its own slice. The slice gets its place in the ready order with `data` null, and the batch
// continues with the others. The first cause is kept for take_error(). If no read finishes for read_timeout while a
// thread waits, all missing slices count as failed. Their reads stay in flight, into slots that stay `reading`, because
// the kernel may still write there. A later batch that demands such a slice uses the read when it completes.
//
// request_stop() ends all waiting immediately: on all threads wait() returns no slice where one is not ready.
// Reads stay in flight as described above.
//
// Invariants (checked):
//   1. A slot is in exactly one state: free, reading, ready or retired. Only ready slots are hits.
//   2. A slot that is pinned or being read is never evicted.
//   3. Each demanded slice gets exactly one place in the ready order: with its bytes, or with null if its read failed.
//      A stop freezes the order: no slice is added afterwards. So all threads see the same slices, and each of these is
//      used completely.
//   4. After a failed read the slot is free and the slice is absent. The next batch that demands the slice reads it
//      again.
//   5. All memory is allocated in the constructor; nothing allocates afterwards.
//   6. The number of slots in use changes only between batches, while no read is in flight. The memory of slots that
//      are not in use is not touched.
//
// Threads: begin() and end() from one thread, while no other thread is between them. wait() from any number of threads
// at the same time. wait() takes no lock for a slice that is ready; the end of a pin takes none once all slices are
// ready. resize(), request_stop() and clear_stop() from any thread at any time. Units: bytes, microseconds
// (stats), slots, slices.
#pragma once

#include "base/error.h"
#include "io/io.h"
#include "layout/layout.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace larder {

using SliceIndex = uint32_t; // ExpertTensor::first_slice + expert

struct ReadySlice {
    SliceIndex slice = 0;
    char *data = nullptr;           // slice_bytes bytes, valid while a Pin exists. Null: the read failed
    uint32_t demanded_position = 0; // its index in `demanded`
    // No batch has used these bytes since they were read. The first batch that uses them may rewrite them in place
    // (repack); later batches get the rewritten bytes.
    bool first_use = false;
};

class ExpertStore;

// One use of a slice in a batch: its bytes stay where they are while the pin exists. Move-only. Without a slice it is
// false. It must end before the batch does.
class Pin {
  public:
    Pin() = default;
    ~Pin();
    Pin(Pin &&other) noexcept
        : store_(std::exchange(other.store_, nullptr)), slice_(other.slice_), position_(other.position_) {}
    Pin &operator=(Pin &&other) noexcept {
        std::swap(store_, other.store_);
        std::swap(slice_, other.slice_);
        std::swap(position_, other.position_);
        return *this;
    }

    explicit operator bool() const { return store_ != nullptr; }
    const ReadySlice &operator*() const { return *slice_; }
    const ReadySlice *operator->() const { return slice_; }

  private:
    friend class ExpertStore;
    Pin(ExpertStore *store, const ReadySlice *slice, uint32_t position)
        : store_(store), slice_(slice), position_(position) {}

    ExpertStore *store_ = nullptr; // null: no slice
    const ReadySlice *slice_ = nullptr;
    uint32_t position_ = 0;
};

// The number of tokens of an ubatch that use each expert of a batch. Eviction counts a prefill of hundreds of tokens as
// one step, like one decoded token.
struct TokenRows {
    std::span<const uint32_t> of_demanded; // empty: one token each
    uint32_t tokens = 1;                   // of the ubatch
};

struct StoreStats {
    // An access is one routed expert of one MoE layer in one ubatch. It is a hit if all slices of the expert were ready
    // when the layer's first operation began, otherwise a miss.
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t slice_reads = 0;
    uint64_t evictions = 0;  // slices that lost their slot to another slice
    uint64_t bytes_read = 0; // from the disk, whole windows
    uint64_t read_errors = 0;
    uint64_t stall_us = 0; // wall time (not summed over threads) of waiting for reads with nothing to compute
    uint64_t arena_bytes = 0;
    uint64_t shrinks = 0; // by resize()
    uint64_t regrows = 0;
    uint64_t bytes_given_back = 0; // returned to the kernel, by all shrinks
};

// The slots in use after the last resize() that was applied.
struct ArenaUse {
    std::vector<uint64_t> slots; // per size class
    uint64_t bytes = 0;          // of these slots
    uint64_t empty_bytes = 0;    // of the slots that hold no slice and are not being read into
    bool pending = false;        // the last resize() is not applied yet
};

struct StoreOptions {
    std::chrono::milliseconds read_timeout{60'000}; // see above. 0: no time-out
    // The clock for time-outs and stalls.
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class ExpertStore {
  public:
    // `slots` is by size class of the layout, at least one for each class that has slices. Keeps no reference to
    // `layout` or `slots`. `reader` must outlive the store, have the layout's files open in the same order, and accept
    // as many requests at once as there are slots. Throws Error(io) if the arena cannot be mapped.
    ExpertStore(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader, StoreOptions options = {});
    // Waits for reads in flight, as long as at least one finishes within each read_timeout. Otherwise the arena's
    // mapping is leaked, and the reader must not be used any more.
    ~ExpertStore();
    ExpertStore(const ExpertStore &) = delete;
    ExpertStore &operator=(const ExpertStore &) = delete;

    // Begins a batch of distinct slices of one expert tensor.
    //
    // `following` are the slices of the same experts in the other tensors of the MoE layer, for the next operations:
    // the slices of the expert of demanded[i] are following[i], following[i + n], ... with n = demanded.size(). They
    // are read too, after `demanded`, if the slots of their size class can hold all slices that the layer uses. They
    // never evict a demanded slice.
    //
    // `first_of_layer` is true for the layer's first operation. Then `following` must be given, accesses are counted as
    // hits or misses, and `rows` gives the eviction order the number of uses of each expert. For other operations
    // `following` and `rows` are empty.
    //
    // `pins_per_slice`, at least 1, is how many times each position is waited for. A slice is in use until that many
    // pins of it have ended.
    void begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following, bool first_of_layer,
               const TokenRows &rows = {}, uint32_t pins_per_slice = 1);

    // Submits the reads that begin() has prepared, unless a thread has already done so. It is a separate call because
    // the system call is slow (it pins pages, or copies from the page cache); meanwhile other threads compute with
    // cached slices. Optional: a wait() for a slice that is not ready does it too.
    void start_reads();

    // The slice at `position` in the order in which slices become ready. Blocks until it is ready or its read has
    // failed. No slice if `position` is not less than the number of demanded slices, or if the batch was stopped before
    // the slice was ready. Sleeps or handles completions; never spins. All pins of every lower position must have
    // ended, or belong to threads that do not wait: its slot may be the one that is missing.
    Pin wait(uint32_t position);
    void end();

    // Sets the number of slots in use for each size class: at least one, at most the number at construction. If it is
    // lower than before, the slices of least worth are evicted, the others are moved together, and the memory of unused
    // slots is returned to the kernel in whole huge pages. If it is higher, the new slots are free. Between batches the
    // change is made before this returns, after a short wait for reads in flight. During a batch, or if the reads take
    // longer, the next end() that finds no read in flight makes it. A later call replaces a pending one. Any thread.
    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const; // any thread

    // From request_stop() to clear_stop() no thread waits for the disk and no read begins: wait() returns no slice
    // where one is not ready. A batch that is open during request_stop() stays stopped until its end(). Any thread.
    void request_stop();
    void clear_stop();
    [[nodiscard]] bool stop_requested() const;

    // The cause of the first failed read since the last call, if any. Only from the session's thread.
    std::optional<Error> take_error();
    // True from a failed read until take_error(). Any thread.
    [[nodiscard]] bool failed() const;

    // A snapshot. Any thread; the counters are consistent with each other between batches.
    [[nodiscard]] StoreStats stats() const;
    // True if the slice is ready in a slot. Only between batches.
    [[nodiscard]] bool cached(SliceIndex slice) const;

  private:
    friend class Pin;
    void unpin(uint32_t position);

    class Impl;
    std::unique_ptr<Impl> impl_;
};

inline Pin::~Pin() {
    if (store_ != nullptr) {
        store_->unpin(position_);
    }
}

} // namespace larder
