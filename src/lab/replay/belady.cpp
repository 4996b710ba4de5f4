#include "lab/replay/demand.h"
#include "lab/replay/replay.h"

#include "base/error.h"

#include <cstddef>
#include <set>
#include <utility>

namespace larder {
namespace {

constexpr size_t never = SIZE_MAX;

// All steps of a replay, and for each demanded expert the next step that demands it.
struct Future {
    std::vector<LayerDemand> steps;
    std::vector<std::vector<size_t>> next; // by step and index in its experts
};

Future future_of(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches) {
    Future future;
    for (const Ubatch &ubatch : ubatches) {
        for (uint32_t layer = 0; layer < trace.n_layer; ++layer) {
            future.steps.push_back(demand_of(trace, ubatch.tokens, layer));
        }
    }
    future.next.resize(future.steps.size());
    std::vector<size_t> next_of(size_t{trace.n_layer} * trace.n_expert, never);
    for (size_t step = future.steps.size(); step-- > 0;) {
        for (const uint32_t expert : future.steps[step].experts) {
            future.next[step].push_back(next_of[expert]);
            next_of[expert] = step;
        }
    }
    return future;
}

// The cached experts, ordered by their next demand.
class FarthestLast {
  public:
    FarthestLast(size_t experts, uint32_t slots) : next_(experts), cached_(experts, false), slots_(slots) {}

    // Returns the number of hits. Demanded experts leave the order while they are in use. An expert for which there is
    // no slot even so is not cached.
    uint64_t run(const LayerDemand &demand, const std::vector<size_t> &next) {
        uint64_t hits = 0;
        for (const uint32_t expert : demand.experts) {
            hits += cached_[expert] ? 1 : 0;
            order_.erase({next_[expert], expert});
        }
        size_t in_use = hits;
        for (size_t i = 0; i < demand.experts.size(); ++i) {
            const uint32_t expert = demand.experts[i];
            if (!cached_[expert] && order_.size() + in_use == slots_ && !order_.empty()) {
                cached_[order_.rbegin()->second] = false;
                order_.erase(std::prev(order_.end()));
            }
            if (!cached_[expert] && order_.size() + in_use < slots_) {
                cached_[expert] = true;
                ++in_use;
            }
        }
        for (size_t i = 0; i < demand.experts.size(); ++i) {
            const uint32_t expert = demand.experts[i];
            next_[expert] = next[i];
            if (cached_[expert]) {
                order_.insert({next[i], expert});
            }
        }
        return hits;
    }

  private:
    std::vector<size_t> next_; // by expert
    std::vector<bool> cached_; // by expert
    std::set<std::pair<size_t, uint32_t>> order_;
    size_t slots_;
};

} // namespace

ReplayCount replay_min(const RoutingTrace &trace, const std::vector<Ubatch> &ubatches, uint32_t slots) {
    if (slots == 0) {
        throw Error(ErrorKind::usage, "a cache without a slot holds nothing", "give at least one");
    }
    const Future future = future_of(trace, ubatches);
    FarthestLast cache(size_t{trace.n_layer} * trace.n_expert, slots);
    ReplayCount count;
    size_t step = 0;
    for (const Ubatch &ubatch : ubatches) {
        HitCount &phase = ubatch.tokens.front().phase == TracePhase::prefill ? count.prefill : count.decode;
        for (uint32_t layer = 0; layer < trace.n_layer; ++layer, ++step) {
            const uint64_t demanded = future.steps[step].experts.size();
            const uint64_t hits = cache.run(future.steps[step], future.next[step]);
            count.reads += demanded - hits;
            if (ubatch.counted) {
                phase.accesses += demanded;
                phase.hits += hits;
            }
        }
    }
    return count;
}

} // namespace larder
