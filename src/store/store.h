// store.h — which slices of experts are in RAM, and the only way to touch their bytes.
//
// An ExpertStore owns the arena: one anonymous mapping, carved into slots by size class. A slice is read into a slot
// when it is demanded, published in the slot table only after its read has completed and its length was checked, pinned
// while an op uses it, and evicted when another slice of its size class needs the slot: the one whose expert is worth
// least across all layers, as eviction.h says.
//
// A SliceBatch is how an op uses it: one batch is the distinct slices that one MUL_MAT_ID needs.
//
//   one thread:   store.begin(demanded, following)    pins what is there, chooses slots for what is not
//   any thread:   store.start_reads()                 hands the reads of the rest to the kernel
//   all threads:  while (auto* s = store.wait(p)) ... the p-th slice to become ready, in the order they do
//   all threads:  store.release(p)                    once for each position, when its last user is done
//   one thread:   store.end()                         after all threads are through
//
// There may be more distinct slices than slots: those that do not fit yet are read as soon as others are released.
//
// Invariants (checked):
//   1. A slot is in exactly one state: free, reading, ready. Only ready slots are in the slot table as hits.
//   2. A pinned slot, a reading slot and one that the batch still needs are never chosen as a victim.
//   3. A failed read leaves its slot free and the slice absent, latches its cause and fails the batch: wait() returns
//      null on every thread for what was not ready before. Reads in flight are let finish; the next batch begins clean.
//   4. All memory is allocated in the constructor; nothing allocates afterwards.
//   5. The number of slots in use changes only between batches, with no read in flight. Of a slot that is not in use
//      nothing is touched.
//
// Threads: begin() and end() from one thread while no other thread is between them. wait() and release() from any
// number of threads at once; no lock is taken by wait() for a slice that is ready, nor by release() when all are.
// resize() from any thread at any time.
// Units: bytes, microseconds (stats), slots, slices.
#pragma once

#include "base/error.h"
#include "io/io.h"
#include "layout/layout.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace larder {

using SliceIndex = uint32_t; // ExpertTensor::first_slice + expert

struct ReadySlice {
    SliceIndex slice = 0;
    char *data = nullptr;           // slice_bytes bytes; valid until release() of this position
    uint32_t demanded_position = 0; // its place in `demanded`
    bool first_use = false;         // no batch has used these bytes since they were read: see below
};

// How many of an ubatch's tokens go through each expert of a batch. A prefill's hundreds of tokens are one step like a
// decoded token, so that eviction weighs what it needs once against what decoding uses again and again.
struct TokenRows {
    std::span<const uint32_t> of_demanded; // none: one token each
    uint32_t tokens = 1;                   // of the ubatch
};

struct StoreStats {
    // An access is one routed expert of one layer in one ubatch. It is a hit if all its slices were ready when the
    // first op of its layer asked, a miss otherwise.
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t slice_reads = 0;
    uint64_t evictions = 0;  // slices that lost their slot to another
    uint64_t bytes_read = 0; // from the disk, whole windows
    uint64_t read_errors = 0;
    uint64_t stall_us = 0; // time threads waited for a read with nothing else to do, wall time of the op
    uint64_t arena_bytes = 0;
    uint64_t shrinks = 0; // by resize()
    uint64_t regrows = 0;
    uint64_t bytes_given_back = 0; // to the kernel, by all shrinks
};

// What resize() has made of the arena.
struct ArenaUse {
    std::vector<uint64_t> slots; // in use, per size class
    uint64_t bytes = 0;          // of these
    uint64_t empty_bytes = 0;    // of those that hold nothing and are not being read into
    bool pending = false;        // asked for, and not done yet: a batch is at work
};

struct StoreOptions { std::chrono::milliseconds read_timeout{0}; };
class ExpertStore {
  public:
    // `slots` per size class of the layout, at least one of each that has slices. Keeps references to neither; `reader`
    // must outlive the store and have the layout's files in its order. Throws Error(io) if the arena cannot be mapped.
    ExpertStore(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader, const StoreOptions & = {});
    void request_stop() {}
    void clear_stop() {}
    ~ExpertStore();
    ExpertStore(const ExpertStore &) = delete;
    ExpertStore &operator=(const ExpertStore &) = delete;

    // Begins a batch of distinct slices of one expert tensor. `following` are the slices of the same experts in the
    // other expert tensors of the layer, not yet needed: they are read too if the slots of their size class hold the
    // whole layer's demand at once, after `demanded` and never in the place of it. Pass them on a layer's first op
    // only: then the accesses are counted as hits or misses, and `rows` tells eviction what the layer's experts are
    // worth; on later ops it is not looked at. `following` is grouped like `demanded`: the slices of the expert
    // demanded[i] are following[i], following[i + n], ... with n = demanded.size().
    void begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following, bool first_of_layer,
               const TokenRows &rows = {});

    // Submits the reads that begin() wants, if nobody has yet. Apart from begin() because a system call that pins pages
    // or copies out of the page cache takes its time: meanwhile other threads compute what is ready. Optional: a wait()
    // that finds nothing ready does it too.
    void start_reads();

    // The slice at `position` in the order in which they become ready; blocks until there is one. Null when the batch
    // failed before that, or position >= the number demanded. Sleeps or works on completions, never spins on a read.
    // Every position below must be released or in use by a thread that does not wait: its slot may be the one missing.
    const ReadySlice *wait(uint32_t position);
    void release(uint32_t position);
    void end();

    // How many slots of each size class may be used from now on: at most those of the construction, at least one. Where
    // there are fewer than before, the slices worth least go, the rest moves together, and the memory of the others
    // goes back to the kernel in whole huge pages; where there are more, they are free again. Between batches it is
    // done when this returns, which waits for reads in flight; during one it is done by its end(). A later call
    // replaces one that is not done yet.
    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const; // any thread

    // The cause of the first failed read since the last call, if any. From the thread that owns the session.
    std::optional<Error> take_error();
    // True from a failed read until take_error(). Any thread.
    [[nodiscard]] bool failed() const;

    // A snapshot. From any thread; exact between batches.
    [[nodiscard]] StoreStats stats() const;
    [[nodiscard]] bool cached(SliceIndex slice) const; // ready in a slot; between batches

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
