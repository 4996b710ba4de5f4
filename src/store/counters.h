// counters.h — the counters behind StoreStats.
//
// Threads: written under the store's mutex, read from any thread. The atomics are relaxed: each counter is exact, and
// the counters are consistent with each other between batches.
#pragma once

#include "store/store.h"

#include <atomic>
#include <cstdint>

namespace larder {

class Counter {
  public:
    void add(uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
    [[nodiscard]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

struct Counters {
    Counter expert_hits;
    Counter expert_misses;
    Counter slice_reads;
    Counter evictions;
    Counter bytes_read;
    Counter read_errors;
    Counter stall_us;
    Counter shrinks;
    Counter regrows;
    Counter bytes_given_back;

    [[nodiscard]] StoreStats snapshot(uint64_t arena_bytes) const {
        return {.expert_hits = expert_hits.value(),
                .expert_misses = expert_misses.value(),
                .slice_reads = slice_reads.value(),
                .evictions = evictions.value(),
                .bytes_read = bytes_read.value(),
                .read_errors = read_errors.value(),
                .stall_us = stall_us.value(),
                .arena_bytes = arena_bytes,
                .shrinks = shrinks.value(),
                .regrows = regrows.value(),
                .bytes_given_back = bytes_given_back.value()};
    }
};

} // namespace larder
