// store.h — which slices of experts are in RAM, and the only way to use their bytes.
//
// An ExpertStore owns the arena: one anonymous mapping, divided into slots by size class. A slice is read into a slot
// when a batch demands it. It is published in the slot table after its read has completed and its length was checked,
// pinned while a batch uses it, and evicted when another slice of its size class needs the slot. eviction.h chooses the
// victim: the slice whose expert is worth least among all layers.
//
// A batch is the distinct slices that one MUL_MAT_ID uses:
//
//   one thread:   store.begin(demanded, following)     pins cached slices, chooses slots for absent ones
//   any thread:   store.start_reads()                  hands the reads to the kernel
//   all threads:  while (auto *s = store.wait(p)) ...  the p-th slice in the order in which slices become ready
//   all threads:  store.release(p)                     once for each position, by its last user
//   one thread:   store.end()                          after all threads have finished
//
// A batch may demand more slices than there are slots. Absent slices that find no slot are read when others have been
// released.
//
// A read that fails spoils its own slice only. The slice takes its place in the ready order with `data` null, and the
// batch goes on with the others. The first cause is kept for take_error(). If no read finishes for read_timeout while a
// thread waits, all slices that are missing count as failed. Their reads stay in flight, into slots that stay
// `reading`: the kernel may still write there. A later batch that demands such a slice uses the read when it arrives.
//
// request_stop() ends the waiting at once: wait() returns null for every slice that is not ready, on all threads, and
// reads stay in flight as above.
//
// Invariants (checked):
//   1. A slot is in exactly one state: free, reading, ready or retired. Only ready slots are hits.
//   2. A slot that is pinned or being read is never evicted.
//   3. Each demanded slice takes exactly one place in the ready order: with its bytes, or with null if its read failed.
//      A stop freezes the order: a slice that is not in it by then stays out. So all threads see the same slices, and
//      each of them is used whole.
//   4. A failed read leaves its slot free and its slice absent. The next batch that demands the slice reads it again.
//   5. All memory is allocated in the constructor; nothing allocates afterwards.
//   6. The number of slots in use changes only between batches, while no read is in flight. The memory of slots that
//   are
//      not in use is not touched.
//
// Threads: begin() and end() from one thread, while no other thread is between them. wait() and release() from any
// number of threads at once. wait() takes no lock for a slice that is ready, release() none once all slices are ready.
// resize(), request_stop() and clear_stop() from any thread at any time.
// Units: bytes, microseconds (stats), slots, slices.
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
#include <vector>

namespace larder {

using SliceIndex = uint32_t; // ExpertTensor::first_slice + expert

struct ReadySlice {
    SliceIndex slice = 0;
    char *data = nullptr;           // slice_bytes bytes, valid until release() of this position. Null: the read failed
    uint32_t demanded_position = 0; // its place in `demanded`
    // No batch has used these bytes since they were read. The batch that uses them first may rewrite them in place
    // (repack); later batches find what it left.
    bool first_use = false;
};

// How many of an ubatch's tokens use each expert of a batch. Eviction counts a prefill of hundreds of tokens as one
// step, like a decoded token.
struct TokenRows {
    std::span<const uint32_t> of_demanded; // empty: one token each
    uint32_t tokens = 1;                   // of the ubatch
};

struct StoreStats {
    // An access is one routed expert of one MoE layer in one ubatch. It is a hit if all slices of the expert were ready
    // when the layer's first op began, otherwise a miss.
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t slice_reads = 0;
    uint64_t evictions = 0;  // slices that lost their slot to another
    uint64_t bytes_read = 0; // from the disk, whole windows
    uint64_t read_errors = 0;
    uint64_t stall_us = 0; // time in which threads waited for reads and had nothing to compute, wall time of the op
    uint64_t arena_bytes = 0;
    uint64_t shrinks = 0; // by resize()
    uint64_t regrows = 0;
    uint64_t bytes_given_back = 0; // to the kernel, by all shrinks
};

// The slots in use, as resize() left them.
struct ArenaUse {
    std::vector<uint64_t> slots; // per size class
    uint64_t bytes = 0;          // of these slots
    uint64_t empty_bytes = 0;    // of those that hold no slice and are not being read into
    bool pending = false;        // the last resize() is not done yet
};

struct StoreOptions {
    std::chrono::milliseconds read_timeout{60'000}; // see above. 0: none
    // The clock that time-outs and stalls are measured by.
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class ExpertStore {
  public:
    // `slots` per size class of the layout, at least one of each class that has slices. Keeps references to neither.
    // `reader` must outlive the store, have the layout's files open in their order, and take as many requests at once
    // as there are slots. Throws Error(io) if the arena cannot be mapped.
    ExpertStore(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader, StoreOptions options = {});
    // Waits for reads in flight, as long as one finishes within each read_timeout. If they do not, the arena's mapping
    // is leaked, and the reader must not be used for anything else.
    ~ExpertStore();
    ExpertStore(const ExpertStore &) = delete;
    ExpertStore &operator=(const ExpertStore &) = delete;

    // Begins a batch of distinct slices of one expert tensor.
    //
    // `following` are the slices of the same experts in the other tensors of the MoE layer, for the ops that come next:
    // the slices of the expert of demanded[i] are following[i], following[i + n], ... with n = demanded.size(). They
    // are read too, after `demanded`, where the slots of their size class hold all that the layer uses; they never
    // evict a demanded slice.
    //
    // `first_of_layer` is for the layer's first op. Then `following` is given, accesses are counted as hits or misses,
    // and `rows` tells eviction how much the experts are used. Other ops leave `following` and `rows` empty.
    void begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following, bool first_of_layer,
               const TokenRows &rows = {});

    // Hands the reads that begin() has prepared to the kernel, unless a thread has done so. A separate call because the
    // system call takes its time (it pins pages, or copies from the page cache): other threads compute meanwhile what
    // is cached. Optional: a wait() that finds its slice not ready does it too.
    void start_reads();

    // The slice at `position` in the order in which slices become ready. Blocks until it is ready or its read has
    // failed. Null if `position` is not below the number demanded, or the batch was stopped before the slice was ready.
    // Sleeps or handles completions; never spins. Every position below must be released, or in use by a thread that
    // does not wait: its slot may be the one that is missing.
    const ReadySlice *wait(uint32_t position);
    void release(uint32_t position);
    void end();

    // Sets the number of slots of each size class in use: at least one, at most those of the construction. If there are
    // fewer than before, the slices of least worth are evicted, the others move together, and the memory of the slots
    // that are no longer in use is returned to the kernel in whole huge pages. If there are more, the new ones are
    // free. Between batches it is done when this returns, which waits a moment for reads in flight. During a batch, or
    // if the reads take longer, it is done by the next end() that finds no read in flight. A later call replaces one
    // that is pending. Any thread.
    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const; // any thread

    // From request_stop() to clear_stop() no thread waits for the disk, and no read begins: wait() returns null for
    // slices that are not ready. A batch that is open at a request_stop() stays stopped until its end(). Any thread.
    void request_stop();
    void clear_stop();
    [[nodiscard]] bool stop_requested() const;

    // The cause of the first failed read since the last call, if any. From the thread that owns the session.
    std::optional<Error> take_error();
    // True from a failed read until take_error(). Any thread.
    [[nodiscard]] bool failed() const;

    // A snapshot. From any thread; exact between batches.
    [[nodiscard]] StoreStats stats() const;
    // True if the slice is ready in a slot. Between batches.
    [[nodiscard]] bool cached(SliceIndex slice) const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
