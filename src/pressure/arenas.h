// arenas.h — the arenas of all models of a process, presented to the watcher as one.
//
// Size classes are numbered through all planned models, those of model 0 first. A model that is planned but not loaded
// keeps its part: its slots count as in use and empty, and its store gets that part when it is added.
//
// Threads: any. remove() waits for a running resize().
#pragma once

#include "store/store.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace larder {

struct SlotRange { // of one size class
    uint64_t slot_bytes = 0;
    uint64_t floor = 0; // slots
    uint64_t full = 0;
};

class Arenas {
  public:
    explicit Arenas(std::vector<SlotRange> classes);

    // `store` has the classes from `first_class` on, one for each of its size classes.
    void add(ExpertStore &store, size_t first_class);
    void remove(ExpertStore &store);

    // Like the functions of ExpertStore, over all classes.
    void resize(std::span<const uint64_t> slots);
    [[nodiscard]] ArenaUse arena_use() const;
    // False without a store, and for two seconds after one was removed. The kernel's figures for a cgroup lag behind
    // what a process frees, so freed memory looks as if another process used it.
    [[nodiscard]] bool settled() const;

  private:
    struct Member {
        ExpertStore *store = nullptr;
        size_t first_class = 0;
        size_t n_class = 0;
    };
    [[nodiscard]] std::span<const uint64_t> wanted_of(const Member &member) const;

    const std::vector<SlotRange> classes_;
    mutable std::mutex mutex_;
    std::vector<uint64_t> wanted_; // by class; this and the next member are guarded by mutex_
    std::vector<Member> members_;
    std::optional<std::chrono::steady_clock::time_point> removed_at_; // the latest; guarded by mutex_
};

} // namespace larder
