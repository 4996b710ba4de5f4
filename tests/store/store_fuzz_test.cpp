// Random batches on a random disk with random faults, on one to three threads. These properties must always hold:
//
//   - the bytes of a slice are right as long as it is pinned;
//   - each demanded slice becomes ready, with its bytes or, if it is in a faulty range, without;
//   - a slice that was cached when it was demanded is not read; an absent one is read once per batch;
//   - a slice in a faulty range is never cached;
//   - no more slices are cached than there are slots in use, however often their number changes, and all of them are
//     right when the next batch uses them;
//   - without `following` and faults, and with enough slots, exactly the slices are cached that the reference policy
//     keeps, with prefills among the batches.
//
// Each run has one seed, which a failure names. With one thread, the same seed gives the same run.
#include "store_fixture.h"
#include "textbook_lfru.h"

#include <barrier>
#include <cerrno>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

namespace larder::test {
namespace {

constexpr uint32_t experts = 12;
constexpr uint32_t layers = 4;

// Threads that live for a whole run and work on each batch together, like the compute threads of a graph.
class Workers {
  public:
    Workers(StoreOnSim &store, uint32_t count) : store_(store), together_(static_cast<std::ptrdiff_t>(count)) {
        for (uint32_t i = 1; i < count; ++i) {
            threads_.emplace_back([this] {
                for (;;) {
                    together_.arrive_and_wait();
                    if (done_) {
                        return;
                    }
                    work();
                    together_.arrive_and_wait();
                }
            });
        }
        users_ = std::vector<std::atomic<uint32_t>>(experts);
    }
    ~Workers() {
        done_ = true;
        together_.arrive_and_wait();
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

    // Runs the current batch. `shared`: all threads use each slice; otherwise one thread uses each slice. Returns the
    // number of slices that were used by all threads that should.
    uint32_t run(bool shared) {
        shared_ = shared;
        next_ = 0;
        used_ = 0;
        unread_ = 0;
        for (std::atomic<uint32_t> &users : users_) {
            users = 0;
        }
        together_.arrive_and_wait();
        work();
        together_.arrive_and_wait();
        return used_;
    }
    [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(threads_.size()) + 1; }
    [[nodiscard]] uint32_t unread() const { return unread_; } // slices of the last batch whose read failed

  private:
    void work() {
        for (uint32_t own = 0;; ++own) {
            const uint32_t position = shared_ ? own : next_++;
            const Pin ready = store_->wait(position);
            if (!ready) {
                return;
            }
            const bool read = ready->data != nullptr;
            if (read) {
                EXPECT_TRUE(store_.holds_its_bytes(*ready)) << "slice " << ready->slice;
            }
            if (!shared_ || ++users_[position] == count()) {
                (read ? used_ : unread_)++;
            }
        }
    }

    StoreOnSim &store_;
    std::barrier<> together_;
    std::vector<std::thread> threads_;
    std::vector<std::atomic<uint32_t>> users_; // by position
    std::atomic<uint32_t> next_{0};
    std::atomic<uint32_t> used_{0};
    std::atomic<uint32_t> unread_{0};
    bool shared_ = false;
    bool done_ = false;
};

class Fuzz {
  public:
    // `exact`: check the exact set of cached slices. Read-ahead and faults make it random, so they are off then.
    Fuzz(uint64_t seed, uint32_t threads, bool exact)
        : random_(seed), exact_(exact), all_slots_({draw(1, 40), draw(1, 20)}), slots_(all_slots_),
          store_(make_layout(layers, experts, 2), all_slots_, {.seed = seed}), workers_(store_, threads),
          textbook_(layers, experts) {}

    StoreStats run(int batches) {
        for (int i = 0; i < batches && !testing::Test::HasFailure(); ++i) {
            if (!exact_) {
                disturb();
            }
            if (draw(0, 4) == 0) {
                resize();
                check_cached();
            }
            batch();
            check_cached();
        }
        EXPECT_GT(reads_, 0U) << "a run that reads nothing tests nothing";
        return store_->stats();
    }

  private:
    uint64_t draw(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }

    // Sometimes makes ranges faulty or slow, and sometimes heals them.
    void disturb() {
        if (draw(0, 9) == 0) {
            store_.disk.heal();
            faulty_.clear();
        }
        const auto slice = static_cast<SliceIndex>(draw(0, store_.layout.n_slice - 1));
        const Extent extent = store_.extent(slice);
        if (draw(0, 9) == 0 && !store_->cached(slice)) {
            store_.fail_slice(slice, EIO);
            faulty_.insert(slice);
        } else if (draw(0, 9) == 0) {
            store_.disk.delay_range(extent.file, extent.offset, extent.bytes);
        }
    }

    // Takes effect between batches, or in the next one.
    void resize() {
        for (size_t size_class = 0; size_class < slots_.size(); ++size_class) {
            slots_[size_class] = draw(1, all_slots_[size_class]);
        }
        if (draw(0, 1) == 0) {
            store_->resize(slots_);
        } else {
            store_->begin({}, {}, false);
            std::jthread other([this] { store_->resize(slots_); });
            other.join();
            EXPECT_TRUE(store_->arena_use().pending);
            store_->end();
        }
        const ArenaUse use = store_->arena_use();
        EXPECT_EQ(use.slots, slots_);
        EXPECT_FALSE(use.pending);
        EXPECT_EQ(store_.disk.in_flight(), 0U);
        for (const uint32_t size_class : {small_class, large_class}) {
            while (exact_ && textbook_.size(size_class) > slots_[size_class]) {
                textbook_.remove(textbook_.victim(size_class));
            }
        }
    }

    struct Demand {
        uint32_t layer = 0;
        std::vector<uint32_t> experts;
        std::vector<SliceIndex> demanded;
        std::vector<SliceIndex> following;
        std::vector<uint32_t> rows;
        uint32_t tokens = 1;
    };
    Demand draw_demand() {
        std::vector<uint32_t> chosen(experts);
        std::iota(chosen.begin(), chosen.end(), 0U);
        std::ranges::shuffle(chosen, random_);
        std::array<Projection, 3> order = {Projection::up, Projection::gate, Projection::down};
        std::ranges::shuffle(order, random_);
        const auto layer = static_cast<uint32_t>(draw(0, layers - 1));
        uint64_t most = experts;
        if (exact_) {
            most = std::min<uint64_t>(most, slots_[store_.tensor(layer, order[0]).size_class]);
        }
        chosen.resize(draw(1, draw(0, 3) == 0 ? most : std::min<uint64_t>(most, 3)));
        Demand demand{.layer = layer, .experts = chosen, .demanded = {}, .following = {}, .rows = {}};
        demand.tokens = static_cast<uint32_t>(draw(0, 2) == 0 ? draw(2, 40) : 1);
        for (size_t i = 0; i < chosen.size(); ++i) {
            demand.rows.push_back(static_cast<uint32_t>(draw(1, demand.tokens)));
        }
        demand.demanded = store_.slices(layer, order[0], chosen);
        for (size_t i = 1; i < order.size() && !exact_ && draw(0, 1) == 0; ++i) {
            const auto more = store_.slices(layer, order[i], chosen);
            demand.following.insert(demand.following.end(), more.begin(), more.end());
        }
        return demand;
    }

    void batch() {
        const Demand demand = draw_demand();
        const auto &[layer, chosen, demanded, following, rows, tokens] = demand;
        std::set<SliceIndex> cached;
        std::ranges::copy_if(demanded, std::inserter(cached, cached.end()),
                             [&](SliceIndex slice) { return store_->cached(slice); });
        const bool reads_pending = store_.disk.in_flight() > 0;
        store_.disk.forget_requests();
        const StoreStats before = store_->stats();
        const bool shared = draw(0, 1) == 0;
        store_->begin(demanded, following, true, {rows, tokens}, shared ? workers_.count() : 1);
        const uint32_t used = workers_.run(shared);
        store_->end(); // checks that nothing is still pinned

        const bool failed = store_->take_error().has_value();
        EXPECT_EQ(used + workers_.unread(), demanded.size());
        EXPECT_EQ(failed, workers_.unread() > 0);
        const auto faulty = static_cast<uint32_t>(
            std::ranges::count_if(demanded, [this](SliceIndex slice) { return faulty_.contains(slice); }));
        EXPECT_LE(workers_.unread(), faulty) << "a read that works is not spoiled by one that fails";
        reads_ += store_.disk.request_count();
        for (const SliceIndex slice : demanded) {
            const uint64_t reads = store_.reads_of(slice);
            EXPECT_LE(reads, cached.contains(slice) ? 0U : 1U);
            EXPECT_TRUE(reads == 1 || reads_pending || cached.contains(slice));
        }
        const StoreStats after = store_->stats();
        EXPECT_EQ(after.expert_hits + after.expert_misses - before.expert_hits - before.expert_misses, demanded.size());
        if (following.empty() && !reads_pending) {
            EXPECT_EQ(after.expert_hits - before.expert_hits, cached.size());
        }
        if (exact_) {
            run_textbook(demand);
        }
    }

    void run_textbook(const Demand &demand) {
        const auto expert_of = [&](size_t i) {
            return RoutedExpert{demand.layer, demand.layer * experts + demand.experts[i]};
        };
        textbook_.begin_step(demand.layer, demand.tokens);
        for (size_t i = 0; i < demand.demanded.size(); ++i) {
            textbook_.use(expert_of(i), demand.rows[i]);
            if (textbook_.holds(demand.demanded[i])) {
                textbook_.pin(demand.demanded[i], true);
            }
        }
        const uint32_t size_class = store_.size_class(demand.demanded.front());
        for (size_t i = 0; i < demand.demanded.size(); ++i) {
            const SliceIndex slice = demand.demanded[i];
            if (!textbook_.holds(slice)) {
                if (textbook_.size(size_class) == slots_[size_class]) {
                    textbook_.remove(textbook_.victim(size_class));
                }
                textbook_.insert(size_class, slice, expert_of(i).index);
                textbook_.pin(slice, true);
            }
        }
        for (const SliceIndex slice : demand.demanded) {
            textbook_.pin(slice, false);
        }
    }

    void check_cached() {
        std::array<uint64_t, 2> count = {0, 0};
        for (SliceIndex slice = 0; slice < store_.layout.n_slice; ++slice) {
            const bool cached = store_->cached(slice);
            count[store_.size_class(slice)] += cached ? 1 : 0;
            EXPECT_FALSE(cached && faulty_.contains(slice)) << "slice " << slice;
            if (exact_) {
                EXPECT_EQ(cached, textbook_.holds(slice)) << "slice " << slice;
            }
        }
        EXPECT_LE(count[0], slots_[0]);
        EXPECT_LE(count[1], slots_[1]);
    }

    std::mt19937_64 random_;
    bool exact_;
    const std::vector<uint64_t> all_slots_;
    std::vector<uint64_t> slots_; // slots in use
    StoreOnSim store_;
    Workers workers_;
    TextbookLfru textbook_; // with slices in the role of slots
    std::set<SliceIndex> faulty_;
    uint64_t reads_ = 0;
};

void run_seeds(uint32_t threads, bool exact) {
    constexpr uint64_t seeds = 25;
    uint64_t shrinks = 0;
    uint64_t regrows = 0;
    for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(threads) + " threads");
        const StoreStats stats = Fuzz(seed * 10 + threads, threads, exact).run(40);
        shrinks += stats.shrinks;
        regrows += stats.regrows;
    }
    EXPECT_GT(shrinks, seeds);
    EXPECT_GT(regrows, seeds);
}

TEST(StoreFuzz, KeepsItsPromisesOnAFaultyDiskWithOneThread) { run_seeds(1, false); }
TEST(StoreFuzz, KeepsItsPromisesOnAFaultyDiskWithTwoThreads) { run_seeds(2, false); }
TEST(StoreFuzz, KeepsItsPromisesOnAFaultyDiskWithThreeThreads) { run_seeds(3, false); }
TEST(StoreFuzz, HoldsWhatTheTextbooksPolicyHoldsWithOneThread) { run_seeds(1, true); }
TEST(StoreFuzz, HoldsWhatTheTextbooksPolicyHoldsWithThreeThreads) { run_seeds(3, true); }

} // namespace
} // namespace larder::test
