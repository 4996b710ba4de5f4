// store_bench: the cost of the bookkeeping in ExpertStore, with a reader that takes no time.
//
//   - AllResident/N: N slices, all cached. Each layer's three operations use 8 random experts, as in decode: begin,
//     wait, release and end; the first operation also passes the following slices.
//   - Evicting/N: the same with slots for a quarter of the slices. Most slices are absent, and each read evicts another
//     slice.
//   - Streaming/S: all 128 experts of a tensor through S slots, as in prefill.
//
// items_per_second counts slices. No slot is ever touched, so the arena only takes addresses.
#include "store/store.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace {

using namespace larder;

constexpr uint32_t experts = 128;
constexpr uint32_t top_k = 8;

ModelLayout make_layout(uint32_t tensors) {
    ModelLayout layout;
    layout.files = {"none"};
    layout.n_layer = tensors / 3;
    layout.n_expert = experts;
    layout.n_expert_used = top_k;
    for (uint32_t i = 0; i < tensors; ++i) {
        TensorInfo info;
        info.extent = {0, i * experts * direct_io_alignment, experts * direct_io_alignment};
        layout.tensors.push_back(info);
        ExpertTensor tensor;
        tensor.tensor = i;
        tensor.layer = i / 3;
        tensor.moe_layer = i / 3;
        tensor.n_expert = experts;
        tensor.slice_bytes = direct_io_alignment;
        tensor.first_slice = layout.n_slice;
        layout.n_slice += experts;
        layout.expert_tensors.push_back(tensor);
    }
    layout.size_classes = {{.slice_bytes = direct_io_alignment,
                            .slot_bytes = direct_io_alignment,
                            .n_slices = layout.n_slice,
                            .n_slices_per_token = tensors * top_k}};
    return layout;
}

// Every request is complete at the next poll.
class InstantReader : public Reader {
  public:
    void submit(std::span<const ReadRequest> requests) override {
        pending_.insert(pending_.end(), requests.begin(), requests.end());
    }
    size_t poll(std::span<ReadResult> results, std::chrono::milliseconds) override {
        const size_t count = std::min(results.size(), pending_.size());
        for (size_t i = 0; i < count; ++i) {
            results[i] = {pending_.back().tag, 0, pending_.back().bytes};
            pending_.pop_back();
        }
        return count;
    }
    void wake() noexcept override {}
    [[nodiscard]] size_t in_flight() const override { return pending_.size(); }
    [[nodiscard]] const ReaderInfo &info() const override { return info_; }
    [[nodiscard]] FileIdentity identity(uint32_t) const override { return {}; }

  private:
    std::vector<ReadRequest> pending_;
    ReaderInfo info_;
};

void run_batch(ExpertStore &store, std::span<const SliceIndex> demanded, std::span<const SliceIndex> following) {
    store.begin(demanded, following, !following.empty());
    for (uint32_t position = 0;; ++position) {
        const Pin ready = store.wait(position);
        if (!ready) {
            break;
        }
        benchmark::DoNotOptimize(ready->data);
    }
    store.end();
}

// The demand of one layer's operations: top_k distinct random experts of its first tensor, and the same experts of the
// other two.
struct LayerDemand {
    std::array<SliceIndex, 3 * top_k> slices;
    [[nodiscard]] std::span<const SliceIndex> op(size_t i) const { return {slices.data() + i * top_k, top_k}; }
    [[nodiscard]] std::span<const SliceIndex> following() const { return {slices.data() + top_k, 2 * top_k}; }
};

std::vector<LayerDemand> decode_trace(const ModelLayout &layout, size_t tokens) {
    std::mt19937 random(1);
    std::vector<LayerDemand> trace;
    std::vector<uint32_t> chosen(experts);
    std::iota(chosen.begin(), chosen.end(), 0U);
    for (size_t token = 0; token < tokens; ++token) {
        for (size_t first = 0; first + 3 <= layout.expert_tensors.size(); first += 3) {
            LayerDemand demand;
            for (uint32_t i = 0; i < top_k; ++i) {
                std::swap(chosen[i], chosen[i + random() % (experts - i)]);
                for (size_t op = 0; op < 3; ++op) {
                    demand.slices[op * top_k + i] = layout.expert_tensors[first + op].first_slice + chosen[i];
                }
            }
            trace.push_back(demand);
        }
    }
    return trace;
}

void decode(benchmark::State &state, uint64_t slices_per_slot) {
    const auto layers = std::max<uint32_t>(1, static_cast<uint32_t>(state.range(0)) / (3 * experts));
    const ModelLayout layout = make_layout(3 * layers);
    InstantReader reader;
    ExpertStore store(layout, std::vector<uint64_t>{layout.n_slice / slices_per_slot}, reader);
    std::vector<SliceIndex> all(experts);
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        std::iota(all.begin(), all.end(), tensor.first_slice);
        run_batch(store, all, {});
    }
    const std::vector<LayerDemand> trace = decode_trace(layout, 16);
    const uint64_t reads_before = store.stats().slice_reads;
    size_t at = 0;
    for (auto _ : state) {
        const LayerDemand &demand = trace[at];
        run_batch(store, demand.op(0), demand.following());
        run_batch(store, demand.op(1), {});
        run_batch(store, demand.op(2), {});
        at = at + 1 < trace.size() ? at + 1 : 0;
    }
    state.SetItemsProcessed(state.iterations() * 3 * top_k);
    state.counters["reads"] = benchmark::Counter(static_cast<double>(store.stats().slice_reads - reads_before),
                                                 benchmark::Counter::kAvgIterations);
}

void AllResident(benchmark::State &state) { decode(state, 1); }
void Evicting(benchmark::State &state) { decode(state, 4); }

void Streaming(benchmark::State &state) {
    const ModelLayout layout = make_layout(48);
    InstantReader reader;
    ExpertStore store(layout, std::vector<uint64_t>{static_cast<uint64_t>(state.range(0))}, reader);
    std::vector<SliceIndex> all(experts);
    size_t tensor = 0;
    for (auto _ : state) {
        std::iota(all.begin(), all.end(), layout.expert_tensors[tensor].first_slice);
        run_batch(store, all, {});
        tensor = (tensor + 1) % layout.expert_tensors.size();
    }
    state.SetItemsProcessed(state.iterations() * experts);
}

BENCHMARK(AllResident)->RangeMultiplier(10)->Range(1'000, 100'000);
BENCHMARK(Evicting)->RangeMultiplier(10)->Range(1'000, 100'000);
BENCHMARK(Streaming)->Arg(8)->Arg(64)->Arg(1'024);

} // namespace

BENCHMARK_MAIN();
