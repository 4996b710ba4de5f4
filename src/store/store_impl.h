// store_impl.h — the state of an ExpertStore and of its open batch (private to store).
//
// Threads and locks
//
//   mutex_ guards the slot table, the absent slices and the right to use the reader. No thread holds it while it waits
//   for the disk. A thread that has nothing to compute becomes *the poller* (polling_, set and cleared under mutex_),
//   unlocks the mutex and blocks in Reader::poll(). While there is a poller, no other thread uses the reader, except
//   for wake(). Slots released meanwhile are evictable immediately; the poller assigns them when it returns.
//
//   n_ready_ publishes the ready order. ready_order_[i] and the bytes it points to are written before n_ready_ becomes
//   i + 1 (release). A thread that sees i < n_ready_ (acquire) reads both without a lock. Entries do not change until
//   the next begin().
//
//   Threads that sleep on progress_ wait for one of three events: their position is ready, the batch was stopped, or
//   another thread may poll. The thread that causes one of them holds mutex_ and notifies all: the poller when it
//   returns, release() when it has published a slice or prepared a read, and request_stop().
//
//   A thread polls only for reads that the batch waits for, or if no slot is pinned: then only a read in flight, of
//   another batch, can free a slot. Otherwise it sleeps until a release() frees one. So if a disk never finishes the
//   reads of an earlier batch, a batch that has other slots is not delayed. A thread must not wait for a slice while
//   another thread waits for the first thread's release().
//
//   resize() may be called by a thread that is not part of a batch. It stores the request under mutex_, and applies it
//   if no batch is open. Otherwise end() applies it. resize() waits for reads in flight as poller, so begin() may find
//   a poller: it waits on progress_ until there is none.
#pragma once

#include "store/arena.h"
#include "store/counters.h"
#include "store/prefault.h"
#include "store/slice_sources.h"
#include "store/slot_table.h"
#include "store/store.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace larder {

class ExpertStore::Impl {
  public:
    Impl(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader, StoreOptions options);
    ~Impl();
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    void begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following, bool first_of_layer,
               const TokenRows &rows, uint32_t pins_per_slice);
    void start_reads();
    const ReadySlice *wait(uint32_t position);
    void unpin(uint32_t position);
    void end();

    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const;

    void request_stop();
    void clear_stop();
    [[nodiscard]] bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }

    std::optional<Error> take_error();
    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    [[nodiscard]] StoreStats stats() const { return counters_.snapshot(arena_.bytes()); }
    [[nodiscard]] bool cached(SliceIndex slice) const;

  private:
    using Clock = std::chrono::steady_clock;
    enum class Polled { finished, stopped, timed_out };

    void release(uint32_t position); // takes mutex_ if necessary
    // wait_for_read() takes mutex_. All others require that it is held and that there is no poller.
    const ReadySlice *wait_for_read(uint32_t position);
    [[nodiscard]] bool should_poll() const;
    [[nodiscard]] Clock::time_point read_deadline() const;
    Polled poll_until(Clock::time_point deadline, std::unique_lock<std::mutex> &lock);
    bool poll_finished(); // true if at least one read had finished
    void finish(const ReadResult &result);
    void append_ready(SlotIndex slot);
    void append_unread(SlotIndex slot);
    void append(const ReadySlice &slice);
    void give_up();
    void keep_cause(SliceIndex slice, std::optional<int> errno_value);

    void open_batch(std::span<const SliceIndex> demanded);
    void count_accesses(std::span<const SliceIndex> following);
    void claim_demanded();
    void select_following(std::span<const SliceIndex> following);
    bool assign_slots(); // true if a read was started
    void prepare_following();
    void prepare_read(SlotTable::Acquired acquired, SliceIndex slice);
    void submit_prepared();
    void cancel_prepared();
    void drop_absent();
    void mark_used();

    void resize_classes(std::unique_lock<std::mutex> &lock);
    void resize_class(uint32_t size_class);
    void move_slice(SlotIndex from, SlotIndex to, uint32_t size_class);

    struct SlotUse {
        char *data = nullptr;           // the first byte of its slice
        uint32_t demanded_position = 0; // valid while pinned
        bool first_use = false;         // no batch that has ended has used it since it was read
        bool streaming = false;         // acquired for an absent slice of this batch, and not released
    };
    struct Failure { // of a read. An Error allocates, so take_error() makes it on the session's thread
        SliceIndex slice = 0;
        std::optional<int> errno_value; // none: time-out
    };
    struct Absent {
        SliceIndex slice = 0;
        uint32_t demanded_position = 0;
    };
    struct ClassDemand { // the need of a layer in one size class
        uint32_t slices = 0;
        uint32_t present = 0; // slices of `following` in evictable slots
    };

    // Immutable after construction.
    const StoreOptions options_;
    const SliceSources sources_;
    Arena arena_;
    Prefault prefault_;                         // after arena_, so that it is destroyed first
    const std::vector<uint64_t> planned_slots_; // by size class

    Counters counters_;
    mutable std::mutex mutex_;
    std::condition_variable progress_;

    // Guarded by mutex_.
    SlotTable table_;
    std::vector<SlotUse> uses_; // by slot
    bool polling_ = false;
    bool batch_open_ = false;
    bool batch_stopped_ = false; // the ready order is frozen. False while no batch is open
    bool resize_wanted_ = false;
    Clock::time_point resize_deadline_;     // end of the wait for reads in flight
    std::vector<uint64_t> wanted_slots_;    // by size class
    std::optional<Failure> failure_;        // the first one
    std::vector<Absent> absent_;            // absent demanded slices in file order
    size_t absent_next_ = 0;                // index of the first one that has no slot yet
    uint32_t n_streaming_ = 0;              // slots with SlotUse::streaming
    std::vector<SliceIndex> following_;     // absent following slices that may be read
    std::vector<ClassDemand> class_demand_; // by size class
    std::vector<bool> streams_;             // by size class: the current layer needs more slices than there are slots
    std::vector<ReadRequest> prepared_;     // to be submitted; empty while there is a poller

    // Used by the poller, or under mutex_ if there is none.
    Reader &reader_;
    std::array<ReadResult, 64> results_;

    // Written by begin() and end(), read by all threads between them.
    std::vector<SliceIndex> demanded_;

    // Shared without a lock, as described above.
    std::vector<ReadySlice> ready_order_;
    std::vector<std::atomic<uint32_t>> pins_left_; // by position in the ready order
    std::atomic<uint32_t> n_ready_{0};
    // Absent slices without a slot. It only decreases during a batch, so a release() that reads 0 needs no lock.
    std::atomic<uint32_t> n_without_slot_{0};
    std::atomic<bool> failed_{false};
    std::atomic<bool> stop_requested_{false}; // written under mutex_
    // Whether prepared_ is not empty. Lets start_reads() return without a lock.
    std::atomic<bool> has_prepared_{false};
};

} // namespace larder
