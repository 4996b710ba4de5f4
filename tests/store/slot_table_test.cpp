// The parts of the store without bytes and threads: the arena's addresses and the slot table.
#include "base/bytes.h"
#include "base/check.h"
#include "layout/layout.h"
#include "store/arena.h"
#include "store/eviction.h"
#include "store/slot_table.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace larder {
namespace {

TEST(Arena, SlotsAreAlignedAndApartAndWritable) {
    const std::vector<SizeClass> classes = {{.slot_bytes = 8192, .n_slices = 9}, {.slot_bytes = 12288, .n_slices = 9}};
    const std::vector<uint64_t> slots = {5, 3};
    const Arena arena(classes, slots);
    EXPECT_EQ(arena.bytes(), 5U * 8192 + 3U * 12288);
    char *expected = arena.address(0, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(expected) % (2U << 20), 0U);
    for (SlotIndex slot = 0; slot < 8; ++slot) {
        const uint32_t size_class = slot < 5 ? 0 : 1;
        char *const address = arena.address(slot, size_class);
        EXPECT_EQ(address, expected);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % direct_io_alignment, 0U);
        std::fill_n(address, classes[size_class].slot_bytes, 'x');
        expected += classes[size_class].slot_bytes;
    }
}

// Bytes of the range whose pages are in RAM.
uint64_t resident_bytes(const char *begin, uint64_t bytes) {
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(::mincore(const_cast<char *>(begin), bytes, pages.data()), 0);
    return 4096 *
           static_cast<uint64_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(Arena, GivesBackWholeHugePagesOfTheSlotsAtTheEndOfAClass) {
    const std::vector<SizeClass> classes = {{.slot_bytes = 640 * KiB, .n_slices = 99},
                                            {.slot_bytes = 1 * MiB, .n_slices = 99}};
    const std::vector<uint64_t> slots = {32, 12}; // 20 MiB and 12 MiB
    const Arena arena(classes, slots);
    std::fill_n(arena.base(), arena.bytes(), 'x');
    EXPECT_EQ(resident_bytes(arena.base(), arena.bytes()), 32 * MiB);

    EXPECT_EQ(arena.give_back(0, 8, 32), 14 * MiB) << "from 5 MiB on, the next border is at 6 MiB";
    EXPECT_EQ(resident_bytes(arena.base(), 20 * MiB), 6 * MiB);
    EXPECT_EQ(arena.give_back(0, 5, 8), 2 * MiB) << "what lies between this border and the last";
    EXPECT_EQ(resident_bytes(arena.base(), 20 * MiB), 4 * MiB);
    EXPECT_EQ(resident_bytes(arena.base() + 20 * MiB, 12 * MiB), 12 * MiB) << "of the other class";
    EXPECT_EQ(arena.give_back(1, 12, 12), 0U);
    EXPECT_EQ(arena.give_back(1, 1, 12), 10 * MiB);
    const char *last_kept = arena.address(4, 0);
    EXPECT_EQ(std::count(last_kept, last_kept + 640 * KiB, 'x'), 640 * KiB);
    EXPECT_EQ(*arena.address(31, 0), 0) << "it can be used again, and is empty";
}

TEST(Arena, GivesBackLockedMemoryToo) {
    const std::vector<SizeClass> classes = {{.slot_bytes = 1 * MiB, .n_slices = 99}};
    const Arena arena(classes, std::vector<uint64_t>{8});
    if (::mlock2(arena.base(), arena.bytes(), MLOCK_ONFAULT) != 0) {
        GTEST_SKIP() << "this process may not lock 8 MiB";
    }
    std::fill_n(arena.base(), arena.bytes(), 'x');
    EXPECT_EQ(arena.give_back(0, 2, 8), 6 * MiB);
    EXPECT_EQ(resident_bytes(arena.base(), arena.bytes()), 2 * MiB);
    *arena.address(7, 0) = 'y';
    EXPECT_NE(::madvise(arena.address(6, 0), 2 * MiB, MADV_DONTNEED), 0) << "what comes back is locked";
}

TEST(Arena, ThatCannotBeMappedSaysHowMuchItWanted) {
    const std::vector<SizeClass> classes = {{.slot_bytes = uint64_t{1} << 50, .n_slices = 9}};
    try {
        const Arena arena(classes, std::vector<uint64_t>{64});
        FAIL() << "mapped 64 PiB";
    } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        EXPECT_NE(error.message().find("arena"), std::string::npos);
    }
}

// Each slice is a separate expert in one layer; the least recently used is evicted first.
SlotTable make_table(uint32_t slices, const std::vector<uint64_t> &slots) {
    std::vector<RoutedExpert> expert_of(slices);
    for (uint32_t slice = 0; slice < slices; ++slice) {
        expert_of[slice].index = slice;
    }
    const auto all = static_cast<uint32_t>(std::accumulate(slots.begin(), slots.end(), uint64_t{0}));
    return {expert_of, slots, make_eviction_order("lru", {all, static_cast<uint32_t>(slots.size()), {slices}})};
}

TEST(SlotTable, HandsOutFreeSlotsBeforeItEvicts) {
    SlotTable table = make_table(10, {2});
    const auto first = table.acquire(0, 7);
    EXPECT_EQ(first.slot, 0U);
    table.publish(first.slot);
    const auto second = table.acquire(0, 8);
    EXPECT_FALSE(second.evicted);
    EXPECT_EQ(second.slot, 1U);
    const auto third = table.acquire(0, 9);
    EXPECT_TRUE(third.evicted);
    EXPECT_EQ(third.slot, first.slot);
    EXPECT_EQ(table.find(7), no_slot);
    EXPECT_EQ(table.acquire(0, 6).slot, no_slot) << "both are being read";
    table.check_invariants();
}

TEST(SlotTable, ThatShrinksKeepsTheSlicesWorthMostAndMovesThemTogether) {
    SlotTable table = make_table(10, {5});
    for (SliceIndex slice = 0; slice < 5; ++slice) {
        table.publish(table.acquire(0, slice).slot);
    }
    table.pin(table.find(0)); // uses the first two again: 2 and 3 are now the least recently used
    table.unpin(table.find(0));
    table.pin(table.find(1));
    table.unpin(table.find(1));
    std::map<SlotIndex, SlotIndex> moved;
    table.resize(0, 3, [&](SlotIndex from, SlotIndex to) { moved[from] = to; });
    table.check_invariants();
    EXPECT_EQ(table.find(2), no_slot);
    EXPECT_EQ(table.find(3), no_slot);
    EXPECT_EQ(table.find(0), 0U);
    EXPECT_EQ(table.find(1), 1U);
    EXPECT_EQ(moved, (std::map<SlotIndex, SlotIndex>{{4, 2}}));
    EXPECT_EQ(table.find(4), 2U);
    EXPECT_EQ(table.slots(0), 3U);
    EXPECT_EQ(table.state(4), SlotState::retired);
    EXPECT_TRUE(table.acquire(0, 7).evicted) << "there is none free";
}

TEST(SlotTable, ThatRegrowsHasFreeSlotsAgain) {
    SlotTable table = make_table(10, {4});
    for (SliceIndex slice = 0; slice < 4; ++slice) {
        table.publish(table.acquire(0, slice).slot);
    }
    const auto unexpected = [](SlotIndex /*from*/, SlotIndex /*to*/) { ADD_FAILURE() << "nothing has to move"; };
    table.resize(0, 1, [](SlotIndex from, SlotIndex to) { EXPECT_EQ(std::pair(from, to), std::pair(3U, 0U)); });
    table.resize(0, 3, unexpected);
    table.check_invariants();
    EXPECT_EQ(table.empty(0), 2U);
    EXPECT_EQ(table.acquire(0, 8).slot, 1U);
    EXPECT_EQ(table.acquire(0, 9).slot, 2U);
}

TEST(SlotTableDeathTest, OneThatIsReadIntoCannotBeResized) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    SlotTable table = make_table(10, {4});
    const auto ignored = [](SlotIndex /*from*/, SlotIndex /*to*/) {};
    EXPECT_DEATH(table.resize(0, 0, ignored), "internal error");
    EXPECT_DEATH(table.resize(0, 5, ignored), "internal error");
    table.publish(table.acquire(0, 1).slot);
    const SlotIndex reading = table.acquire(0, 0).slot;
    EXPECT_DEATH(table.resize(0, 2, ignored), "reading_ == 0");
    table.publish(reading);
    table.pin(reading);
    EXPECT_DEATH(table.resize(0, 2, ignored), "reading_ == 0");
}

// A reference for SlotTable, slow and simple: one map of slices, and queues of the evictable ones.
class SlotTableModel {
  public:
    struct Entry {
        SlotState state = SlotState::reading;
        bool pinned = false;
    };
    explicit SlotTableModel(std::vector<uint64_t> slots) : slots_(std::move(slots)), evictable_(slots_.size()) {}

    static uint32_t size_class(SliceIndex slice) { return slice % 2; }

    // Returns whether there is a slot, and the slice that was evicted for it, if any.
    std::pair<bool, std::optional<SliceIndex>> acquire(SliceIndex slice) {
        std::deque<SliceIndex> &queue = evictable_[size_class(slice)];
        std::optional<SliceIndex> gone;
        if (used(size_class(slice)) == slots_[size_class(slice)]) {
            if (queue.empty()) {
                return {false, gone};
            }
            gone = queue.front();
            queue.pop_front();
            entries.erase(*gone);
        }
        entries[slice] = {};
        return {true, gone};
    }
    void resize(uint32_t c, uint64_t slots) {
        for (; used(c) > slots; evictable_[c].pop_front()) {
            entries.erase(evictable_[c].front());
        }
        slots_[c] = slots;
    }
    [[nodiscard]] bool quiet() const {
        return std::ranges::all_of(
            entries, [](const auto &entry) { return entry.second.state == SlotState::ready && !entry.second.pinned; });
    }
    void settle(SliceIndex slice) { // adds it to the queue or removes it, depending on its entry
        std::deque<SliceIndex> &queue = evictable_[size_class(slice)];
        std::erase(queue, slice);
        const auto found = entries.find(slice);
        if (found != entries.end() && found->second.state == SlotState::ready && !found->second.pinned) {
            queue.push_back(slice);
        }
    }
    [[nodiscard]] uint64_t available(uint32_t c) const { return slots_[c] - used(c) + evictable_[c].size(); }

    std::map<SliceIndex, Entry> entries;

  private:
    [[nodiscard]] uint64_t used(uint32_t c) const {
        return static_cast<uint64_t>(
            std::ranges::count_if(entries, [&](const auto &entry) { return size_class(entry.first) == c; }));
    }
    std::vector<uint64_t> slots_;
    std::vector<std::deque<SliceIndex>> evictable_;
};

void compare(const SlotTable &table, const SlotTableModel &model, uint32_t slices) {
    table.check_invariants();
    for (SliceIndex slice = 0; slice < slices; ++slice) {
        const auto found = model.entries.find(slice);
        const SlotIndex slot = table.find(slice);
        ASSERT_EQ(slot != no_slot, found != model.entries.end()) << "slice " << slice;
        if (slot != no_slot) {
            ASSERT_EQ(table.slice(slot), slice);
            ASSERT_EQ(table.state(slot), found->second.state);
            ASSERT_EQ(table.pinned(slot), found->second.pinned);
        }
    }
    for (const uint32_t c : {0U, 1U}) {
        ASSERT_EQ(table.available(c), model.available(c));
    }
}

// Ends what is in progress, and then changes the number of slots.
void random_resize(SlotTable &table, SlotTableModel &model, std::mt19937_64 &random,
                   const std::vector<uint64_t> &slots) {
    for (auto &[slice, entry] : model.entries) {
        if (entry.state == SlotState::reading) {
            table.publish(table.find(slice));
            entry.state = SlotState::ready;
            if (!entry.pinned) {
                model.settle(slice);
            }
        }
        if (entry.pinned) {
            table.unpin(table.find(slice));
            entry.pinned = false;
            model.settle(slice);
        }
    }
    ASSERT_TRUE(model.quiet());
    const auto c = static_cast<uint32_t>(random() % 2);
    const uint64_t in_use = 1 + random() % slots[c];
    std::map<SlotIndex, SlotIndex> places;
    for (const auto &[slice, entry] : model.entries) {
        places[slice] = table.find(slice);
    }
    std::map<SlotIndex, SlotIndex> moves;
    table.resize(c, static_cast<uint32_t>(in_use),
                 [&](SlotIndex from, SlotIndex to) { ASSERT_TRUE(moves.emplace(from, to).second); });
    model.resize(c, in_use);
    for (const auto &[slice, entry] : model.entries) {
        const auto move = moves.find(places.at(slice));
        ASSERT_EQ(table.find(slice), move == moves.end() ? places.at(slice) : move->second) << "slice " << slice;
    }
}

void random_transition(SlotTable &table, SlotTableModel &model, SliceIndex slice, uint64_t choice) {
    const auto found = model.entries.find(slice);
    if (found == model.entries.end()) {
        const auto [taken, gone] = model.acquire(slice);
        const SlotTable::Acquired acquired = table.acquire(SlotTableModel::size_class(slice), slice);
        ASSERT_EQ(acquired.slot != no_slot, taken);
        ASSERT_EQ(acquired.evicted, gone.has_value());
        return;
    }
    SlotTableModel::Entry &entry = found->second;
    const SlotIndex slot = table.find(slice);
    if (choice == 0) {
        entry.pinned ? table.unpin(slot) : table.pin(slot);
        entry.pinned = !entry.pinned;
    } else if (entry.state == SlotState::reading && choice == 1) {
        table.abandon(slot);
        model.entries.erase(found);
    } else if (entry.state == SlotState::reading) {
        table.publish(slot);
        entry.state = SlotState::ready;
    } else if (!entry.pinned) {
        table.keep(slot);
    } else {
        return;
    }
    model.settle(slice);
}

TEST(SlotTable, DoesWhatAnObviousModelDoes) {
    constexpr uint32_t slices = 40;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const std::vector<uint64_t> slots = {1 + random() % 9, 1 + random() % 9};
        SlotTable table = make_table(slices, slots);
        SlotTableModel model(slots);
        for (int step = 0; step < 2000; ++step) {
            if (random() % 50 == 0) {
                random_resize(table, model, random, slots);
            }
            random_transition(table, model, static_cast<SliceIndex>(random() % slices), random() % 4);
            compare(table, model, slices);
            if (testing::Test::HasFatalFailure()) {
                return;
            }
        }
    }
}

} // namespace
} // namespace larder
