// pager.h — keeps experts in a mapping of their files and drops cold ones. larder's arena replaced this design; it is
// kept for comparison (docs/residency.md).
//
// An ExpertPager maps a model's files, shared and read-only. The kernel reads a page when it is first used. The pager
// records when each expert was last used. After every evaluation a sweep drops the experts that the last `hot_tokens`
// tokens did not use: the whole pages inside their slices, from the process (madvise), from the page cache (fadvise),
// or both. Dropped pages are read from the file again at their next use, so results do not change. This is true for
// file mappings only: dropped anonymous memory is read as zeros. So each drop first checks that the weights are at the
// address where the mapping has that part of the file.
//
// Threads: routed() on a compute thread during an evaluation. Other functions that are not const on the evaluating
// thread, between evaluations. stats() on any thread.
// Errors: Error(io) if a file cannot be mapped or dropped, Error(engine) if weights are not in the mapping.
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace larder {

enum class PageEvict {
    both,    // madvise, then fadvise
    madvise, // MADV_DONTNEED: drops pages from the process, not from the page cache
    fadvise, // POSIX_FADV_DONTNEED: drops pages from the page cache, except mapped ones
    none,    // nothing is dropped
};
std::string_view to_string(PageEvict evict);

struct PagerOptions {
    uint32_t hot_tokens = 8; // an expert that one of the last `hot_tokens` tokens used is kept
    PageEvict evict = PageEvict::both;
};

struct RssSample {
    uint64_t n_token = 0; // evaluated so far
    uint64_t rss_bytes = 0;
};

// An access is one routed expert of one layer in one evaluation. It is a hit if the expert was used before and not
// dropped since.
struct PagerStats {
    PagerOptions options;
    uint64_t mapped_bytes = 0;
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t sweeps = 0;
    uint64_t experts_dropped = 0;
    uint64_t slices_dropped = 0;
    uint64_t bytes_dropped = 0; // whole pages
    uint64_t bytes_reread = 0;  // of experts that were used again after a drop
    uint64_t major_faults = 0;  // of the process since the files were mapped: page faults that waited for a disk
    std::vector<RssSample> rss; // after sweeps; bounded, see rss_samples.h
};

class ExpertPager {
  public:
    // The layout must outlive it.
    ExpertPager(const ModelLayout &layout, const PagerOptions &options);
    ~ExpertPager();
    ExpertPager(const ExpertPager &) = delete;
    ExpertPager &operator=(const ExpertPager &) = delete;

    // The address of this tensor (one of the layout's expert_tensors) in the mapping. Valid as long as this object.
    [[nodiscard]] const void *address_of(const ExpertTensor &tensor) const;

    // `data` points to the address from which llama.cpp multiplies with this tensor. It is read before each drop and
    // must be valid until the last end_evaluation(). Tensors that are not bound are not dropped.
    void bind(const ExpertTensor &tensor, void *const *data);

    // The choice of the router for one MoE layer: experts[token * top_k + k], negative for none. A layer may be
    // evaluated for only the last tokens of an evaluation.
    void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept;

    // Sweeps. To be called after an evaluation of `n_token` tokens, even if it failed.
    void end_evaluation(uint32_t n_token);

    [[nodiscard]] PagerStats stats() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
