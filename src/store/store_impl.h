// store_impl.h — the state of an ExpertStore and of the batch that is open (private to store).
//
// Threads and locks
//   mutex_ guards the slot table, the absent slices and the right to use the reader. Nobody holds it while blocked on
//   the disk: the thread that has nothing to compute becomes *the poller* (polling_, set and cleared under mutex_),
//   lets go of the mutex and blocks in Reader::poll(). As long as there is a poller nobody else touches the reader,
//   which is all that io.h asks for; slots released meanwhile are evictable at once, and the poller hands them on when
//   it returns.
//
//   n_ready_ is the one word between publisher and users: ready_order_[i] and the bytes it points to are written before
//   n_ready_ becomes i + 1 (release); who sees i < n_ready_ (acquire) may read both without a lock. Entries never
//   change until the next begin().
//
//   Sleepers on progress_ wait for one of: their position is ready, the batch has failed, or there are reads in flight
//   and no poller. Whoever makes one of these true holds mutex_ and notifies all: the poller whenever it returns, and
//   release() when it has published or started something. With nothing in flight and every slot pinned, the next
//   release() is what wakes them; so a thread must not wait for a slice while it alone holds back the release of
//   another.
//
//   resize() may be called by a thread that has nothing to do with batches. It asks for what it wants under mutex_
//   and does it if no batch is open, else end() does. Reads in flight are waited for as poller, so that a begin() may
//   find one: it waits on progress_ for that.
#pragma once

#include "store/arena.h"
#include "store/counters.h"
#include "store/prefault.h"
#include "store/slice_sources.h"
#include "store/slot_table.h"
#include "store/store.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace larder {

class ExpertStore::Impl {
  public:
    Impl(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader);
    ~Impl();
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    void begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following, bool first_of_layer,
               const TokenRows &rows);
    void start_reads();
    const ReadySlice *wait(uint32_t position);
    void release(uint32_t position);
    void end();

    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const;

    std::optional<Error> take_error();
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    [[nodiscard]] StoreStats stats() const { return counters_.snapshot(arena_.bytes()); }
    [[nodiscard]] bool cached(SliceIndex slice) const;

  private:
    // Of those below, wait_for_read() takes mutex_; all others are called with it held and with no poller.
    const ReadySlice *wait_for_read(uint32_t position);
    void poll_blocking(std::unique_lock<std::mutex> &lock);
    bool poll_finished(); // true if anything had
    void finish(const ReadResult &result);
    void append_ready(SlotIndex slot);
    void append_unread(SlotIndex slot);
    void append(const ReadySlice &slice);
    void keep_cause(SliceIndex slice, int errno_value);

    void open_batch(std::span<const SliceIndex> demanded);
    void count_accesses(std::span<const SliceIndex> following);
    void claim_demanded();
    void select_following(std::span<const SliceIndex> following);
    bool assign_slots(); // true if a read was started
    void prepare_following();
    void prepare_read(SlotTable::Acquired acquired, SliceIndex slice);
    void submit_prepared();
    void drop_absent();
    void mark_used();

    void resize_classes(std::unique_lock<std::mutex> &lock);
    void resize_class(uint32_t size_class);
    void move_slice(SlotIndex from, SlotIndex to, uint32_t size_class);

    struct SlotUse {
        char *data = nullptr;           // the first byte of its slice
        uint32_t demanded_position = 0; // while pinned
        bool first_use = false;         // read, and used by no batch that has ended
        bool streaming = false;         // taken for an absent slice of this batch, and not released
    };
    struct Failure { // of a read. An Error allocates, so take_error() makes it, on the session's thread
        SliceIndex slice = 0;
        int errno_value = 0;
    };
    struct Absent {
        SliceIndex slice = 0;
        uint32_t demanded_position = 0;
    };
    struct ClassDemand { // what a layer asks of one size class
        uint32_t slices = 0;
        uint32_t present = 0; // slices of `following` in slots that may be evicted
    };

    // Immutable after construction.
    const SliceSources sources_;
    const Arena arena_;
    Prefault prefault_; // after arena_: it ends first. Stopped under mutex_

    Counters counters_;
    mutable std::mutex mutex_;
    std::condition_variable progress_;

    // Guarded by mutex_.
    SlotTable table_;
    std::vector<SlotUse> uses_; // by slot
    bool polling_ = false;
    bool batch_open_ = false;
    bool resize_wanted_ = false;
    std::vector<uint64_t> wanted_slots_;    // by size class
    std::optional<Failure> failure_;        // the first one
    std::vector<Absent> absent_;            // absent demanded slices in file order
    size_t absent_next_ = 0;                // from here on they have no slot yet
    uint32_t n_streaming_ = 0;              // slots with SlotUse::streaming
    std::vector<SliceIndex> following_;     // absent following slices that may be started
    std::vector<ClassDemand> class_demand_; // by size class
    std::vector<bool> streams_;             // by size class: the layer at work asks for more than it has slots
    std::vector<ReadRequest> prepared_;     // to be submitted: never any while there is a poller

    // Used by the poller, and under mutex_ when there is none.
    Reader &reader_;
    std::array<ReadResult, 64> results_;

    // Written by begin() and end(), read by all between them.
    std::vector<SliceIndex> demanded_;

    // Shared without a lock, as told above.
    std::vector<ReadySlice> ready_order_;
    std::atomic<uint32_t> n_ready_{0};
    // How many are queued without a slot. It only falls during a batch, so a release() that reads 0 needs no lock.
    std::atomic<uint32_t> n_without_slot_{0};
    std::atomic<bool> failed_{false};
    // Whether prepared_ holds anything: start_reads() needs no lock to find that it does not.
    std::atomic<bool> has_prepared_{false};
};

} // namespace larder
