// The watcher on a store and a simulated machine.
#include "pressure/pressure.h"

#include "store/store_fixture.h"
#include "support/fake_root.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

namespace larder::test {
namespace {

// Collects resizes.
class Resizes {
  public:
    void add(const ArenaResize &resize) {
        const std::lock_guard lock(mutex_);
        all_.push_back(resize);
        came_.notify_all();
    }
    // The n-th resize, counted from 1. Fails the test if it does not happen within a minute.
    ArenaResize wait_for(size_t n) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(came_.wait_for(lock, std::chrono::minutes(1), [&] { return all_.size() >= n; }));
        return all_.at(n - 1);
    }
    [[nodiscard]] size_t count() {
        const std::lock_guard lock(mutex_);
        return all_.size();
    }

  private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<ArenaResize> all_;
};

// A single store, as the arena of one model.
class OneArena {
  public:
    OneArena(StoreOnSim &store, const PressureBounds &bounds) : arenas_(bounds.classes) {
        arenas_.add(*store.operator->(), 0);
    }
    operator Arenas &() { return arenas_; } // NOLINT(*-explicit-*)

  private:
    Arenas arenas_;
};

TEST(Watcher, ShrinksTheStoreWhenALimitIsLoweredAndRegrowsItAfterwards) {
    FakeRoot root;
    root.join_v1("/a/b");
    root.holds(40 * MiB, 0);
    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    StoreOnSim store(make_layout(4, 8, 2), {80, 16});
    const PressureBounds bounds = {64 * MiB, 30 * MiB, 4 * MiB, 0, {{12288, 20, 80}, {16384, 4, 16}}};
    const uint64_t floor = bounds.floor_bytes();
    const auto all = [&] {
        for (uint32_t layer = 0; layer < 4; ++layer) {
            for (const Projection projection : {Projection::up, Projection::gate, Projection::down}) {
                EXPECT_EQ(store.run(store.slices(layer, projection, {0, 1, 2, 3, 4, 5, 6, 7})).size(), 8U);
            }
        }
    };
    all();
    Resizes resizes;
    OneArena arena(store, bounds);
    PressureWatcher watcher(arena, bounds, {root.path(), std::chrono::milliseconds(1), [&](const ArenaResize &resize) {
                                                resizes.add(resize);
                                            }});
    root.limit_v1("/a", 20 * MiB, 40 * MiB);
    const ArenaResize shrink = resizes.wait_for(1);
    EXPECT_EQ(shrink.to_bytes, floor);
    EXPECT_THAT(shrink.reason, testing::HasSubstr("cgroup memory.limit_in_bytes of /a"));
    EXPECT_EQ(watcher.figures().last_reason, shrink.reason);
    EXPECT_EQ(watcher.figures().peak_rss_bytes, 40 * MiB);
    EXPECT_EQ(store->arena_use().bytes, floor);
    all();

    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    for (size_t n = 2; store->arena_use().bytes < bounds.full_bytes(); ++n) {
        EXPECT_GT(resizes.wait_for(n).to_bytes, floor);
        all(); // fills the slots
    }
    EXPECT_GT(store->stats().regrows, 1U) << "in steps";
    EXPECT_EQ(store->stats().shrinks, 1U);
    all();
}

TEST(Watcher, RespondsWhileABatchIsAtWork) {
    FakeRoot root;
    StoreOnSim store(make_layout(4, 8, 2), {80, 16});
    const PressureBounds bounds = {64 * MiB, 30 * MiB, 4 * MiB, 0, {{12288, 20, 80}, {16384, 4, 16}}};
    Resizes resizes;
    root.holds(1 * MiB, 0);
    OneArena arena(store, bounds);
    const PressureWatcher watcher(
        arena, bounds,
        {root.path(), std::chrono::milliseconds(1), [&](const ArenaResize &resize) { resizes.add(resize); }});
    store->begin(store.slices(0, Projection::up, {1}), {}, true);
    root.holds(65 * MiB, 0); // above the budget
    resizes.wait_for(1);
    EXPECT_TRUE(store->arena_use().pending);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(resizes.count(), 1U) << "what is under way is not asked for again";
    ASSERT_TRUE(store->wait(0));
    store->end();
    EXPECT_EQ(store->arena_use().bytes, bounds.floor_bytes());
}

TEST(Watcher, LeavesAnArenaWhosePagesAreBeingCleared) {
    FakeRoot root;
    root.join_v1("/a");
    const auto holds = [&root](uint64_t own) {
        root.holds(own, 0);
        root.write("/sys/fs/cgroup/memory/a/memory.stat", fmt::format("total_rss {}\ntotal_cache 0\n", own));
        root.limit_v1("/a", 40 * MiB, own + 20 * MiB);
    };
    root.write("/sys/fs/cgroup/memory/a/memory.kmem.usage_in_bytes", "0\n");
    holds(10 * MiB);
    StoreOnSim store(make_layout(4, 8, 2), {80, 16});
    const PressureBounds bounds = {40 * MiB, 30 * MiB, 4 * MiB, 0, {{12288, 20, 80}, {16384, 4, 16}}};
    Resizes resizes;
    OneArena arena(store, bounds);
    const PressureWatcher watcher(
        arena, bounds,
        {root.path(), std::chrono::milliseconds(1), [&](const ArenaResize &resize) { resizes.add(resize); }});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(resizes.count(), 0U);
    holds(31 * MiB); // there is nothing left to clear, so the rest belongs to others
    EXPECT_EQ(resizes.wait_for(1).to_bytes, bounds.floor_bytes());
}

TEST(Watcher, LooksAtOnceWhenAGroupRunsIntoItsLimit) {
    FakeRoot root;
    root.join_v1("/a");
    root.holds(40 * MiB, 0);
    root.limit_v1("/a", 64 * MiB, 40 * MiB);
    StoreOnSim store(make_layout(4, 8, 2), {80, 16});
    const PressureBounds bounds = {64 * MiB, 30 * MiB, 4 * MiB, 0, {{12288, 20, 80}, {16384, 4, 16}}};
    Resizes resizes;
    OneArena arena(store, bounds);
    const PressureWatcher watcher(
        arena, bounds, {root.path(), std::chrono::hours(1), [&](const ArenaResize &resize) { resizes.add(resize); }});
    for (uint64_t used = 41; used < 5000 && resizes.count() == 0; used++) { // a neighbour takes more and more memory
        root.limit_v1("/a", 64 * MiB, used * MiB);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_LT(resizes.wait_for(1).to_bytes, bounds.full_bytes()) << "within the hour";
}

TEST(Watcher, EndsAtOnceHoweverLongItsInterval) {
    const FakeRoot root;
    StoreOnSim store(make_layout(1, 8, 2), {8, 4});
    const PressureBounds bounds = {64 * MiB, 0, 0, 0, {{12288, 8, 8}, {16384, 4, 4}}};
    OneArena arena(store, bounds);
    const PressureWatcher watcher(arena, bounds, {root.path(), std::chrono::hours(1), {}});
}

} // namespace
} // namespace larder::test
