// Tracks the use of experts, and drops cold ones in sweeps.
#include "base/check.h"
#include "lab/pager/file_mapping.h"
#include "lab/pager/pager.h"
#include "lab/pager/rss_samples.h"
#include "machine/process_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace larder {

std::string_view to_string(PageEvict evict) {
    switch (evict) {
    case PageEvict::both:
        return "both";
    case PageEvict::madvise:
        return "madvise";
    case PageEvict::fadvise:
        return "fadvise";
    case PageEvict::none:
        return "none";
    }
    check_failed("a way to evict has a name", __FILE__, __LINE__);
}

namespace {

uint64_t major_faults_now() {
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_majflt);
}

// Written by one thread at a time, read by stats() from any.
using Counter = std::atomic<uint64_t>;
void count(Counter &counter, uint64_t n = 1) { counter.fetch_add(n, std::memory_order_relaxed); }

struct Tensor { // a tensor of a MoE layer
    const ExpertTensor *tensor = nullptr;
    void *const *data = nullptr;
};

struct Expert {
    uint64_t used_token = 0;      // the last token that was routed to it
    uint64_t used_evaluation = 0; // the last evaluation that used it; 0: none
    bool there = false;           // used, and not dropped since
    bool dropped = false;         // at least once
};

struct MoeLayer {
    std::vector<Tensor> tensors;
    std::vector<Expert> experts;
    uint64_t expert_bytes = 0; // bytes of one expert's slices in bound tensors
};

} // namespace

class ExpertPager::Impl {
  public:
    Impl(const ModelLayout &layout, const PagerOptions &options)
        : layout_(layout), options_(options), mapping_(layout.files), faults_before_(major_faults_now()) {
        for (const ExpertTensor &tensor : layout.expert_tensors) {
            moe_layers_.resize(std::max<size_t>(moe_layers_.size(), tensor.moe_layer + 1));
            MoeLayer &layer = moe_layers_[tensor.moe_layer];
            layer.tensors.push_back({&tensor, nullptr});
            layer.experts.resize(std::max<size_t>(layer.experts.size(), tensor.n_expert));
        }
    }

    [[nodiscard]] const void *address_of(const ExpertTensor &tensor) const {
        return mapping_.address_of(layout_.tensors[tensor.tensor].extent);
    }

    void bind(const ExpertTensor &tensor, void *const *data) {
        for (Tensor &known : moe_layers_[tensor.moe_layer].tensors) {
            if (known.tensor == &tensor) {
                known.data = data;
                moe_layers_[tensor.moe_layer].expert_bytes += tensor.slice_bytes;
            }
        }
    }

    void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) {
        MoeLayer &layer = moe_layers_[moe_layer];
        const uint64_t n_token = experts.size() / top_k;
        n_token_now_ = std::max(n_token_now_, n_token);
        const uint64_t first_token = n_token_ + n_token_now_ - n_token;
        for (size_t i = 0; i < experts.size(); i++) {
            if (experts[i] < 0 || static_cast<size_t>(experts[i]) >= layer.experts.size()) {
                continue;
            }
            Expert &expert = layer.experts[static_cast<size_t>(experts[i])];
            expert.used_token = std::max(expert.used_token, first_token + i / top_k);
            if (expert.used_evaluation != evaluation_) {
                expert.used_evaluation = evaluation_;
                count_access(layer, expert);
            }
        }
    }

    void end_evaluation(uint32_t n_token) {
        n_token_ += n_token;
        n_token_now_ = 0;
        evaluation_++;
        count(sweeps_);
        if (options_.evict != PageEvict::none) {
            sweep();
        }
        const std::lock_guard lock(samples_mutex_);
        if (samples_.due()) {
            samples_.add({n_token_, process_memory().rss_bytes});
        }
    }

    [[nodiscard]] PagerStats stats() const {
        PagerStats stats;
        stats.options = options_;
        stats.mapped_bytes = mapping_.bytes();
        stats.expert_hits = expert_hits_;
        stats.expert_misses = expert_misses_;
        stats.sweeps = sweeps_;
        stats.experts_dropped = experts_dropped_;
        stats.slices_dropped = slices_dropped_;
        stats.bytes_dropped = bytes_dropped_;
        stats.bytes_reread = bytes_reread_;
        stats.major_faults = major_faults_now() - faults_before_;
        const std::lock_guard lock(samples_mutex_);
        stats.rss = samples_.samples();
        return stats;
    }

  private:
    void count_access(const MoeLayer &layer, Expert &expert) {
        count(expert.there ? expert_hits_ : expert_misses_);
        if (!expert.there && expert.dropped) {
            count(bytes_reread_, layer.expert_bytes);
        }
        expert.there = true;
    }

    void sweep() {
        for (MoeLayer &layer : moe_layers_) {
            for (size_t e = 0; e < layer.experts.size(); e++) {
                Expert &expert = layer.experts[e];
                if (expert.there && expert.used_token + options_.hot_tokens < n_token_) {
                    drop(layer, static_cast<uint32_t>(e));
                    expert.there = false;
                    expert.dropped = true;
                }
            }
        }
    }

    void drop(const MoeLayer &layer, uint32_t expert) {
        for (const Tensor &tensor : layer.tensors) {
            if (tensor.data == nullptr || expert >= tensor.tensor->n_expert) {
                continue;
            }
            const char *slice = static_cast<const char *>(*tensor.data) + expert * tensor.tensor->slice_bytes;
            const Extent extent = layout_.slice_extent(*tensor.tensor, expert);
            count(bytes_dropped_, mapping_.drop(extent, slice, options_.evict));
            count(slices_dropped_);
        }
        count(experts_dropped_);
    }

    const ModelLayout &layout_;
    const PagerOptions options_;
    const FileMapping mapping_;
    const uint64_t faults_before_;
    std::vector<MoeLayer> moe_layers_;
    uint64_t n_token_ = 0;     // tokens evaluated before the current evaluation
    uint64_t n_token_now_ = 0; // tokens of the current evaluation, as far as they have been routed
    uint64_t evaluation_ = 1;  // the current one, or the next between evaluations
    Counter expert_hits_{0};
    Counter expert_misses_{0};
    Counter sweeps_{0};
    Counter experts_dropped_{0};
    Counter slices_dropped_{0};
    Counter bytes_dropped_{0};
    Counter bytes_reread_{0};
    mutable std::mutex samples_mutex_;
    RssSamples samples_; // guarded by samples_mutex_
};

ExpertPager::ExpertPager(const ModelLayout &layout, const PagerOptions &options)
    : impl_(std::make_unique<Impl>(layout, options)) {}
ExpertPager::~ExpertPager() = default;

const void *ExpertPager::address_of(const ExpertTensor &tensor) const { return impl_->address_of(tensor); }
void ExpertPager::bind(const ExpertTensor &tensor, void *const *data) { impl_->bind(tensor, data); }
void ExpertPager::routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept {
    impl_->routed(moe_layer, top_k, experts);
}
void ExpertPager::end_evaluation(uint32_t n_token) { impl_->end_evaluation(n_token); }
PagerStats ExpertPager::stats() const { return impl_->stats(); }

} // namespace larder
