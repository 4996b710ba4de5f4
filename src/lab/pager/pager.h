// pager.h — experts left in a mapping of their files, and cold ones dropped from it: the design that larder's arena
// replaced, kept to be compared with (docs/residency.md).
//
// An ExpertPager maps a model's files, shared and read-only; nothing is read before somebody computes on it and the
// kernel has to. It keeps book of when each expert was routed to. After every evaluation a sweep drops those that the
// last `hot_tokens` tokens did not use: whole pages inside their slices, from the process (madvise), from the page
// cache (fadvise), or both. What is dropped is read from the file again when it is used next, so nothing that is
// computed changes. That holds for file mappings alone: dropped anonymous memory comes back as zeros. So each drop
// first checks that the weights lie where the mapping has that very part of the file.
//
// Threads: routed() on a compute thread while an evaluation runs; all else that is not const on the thread that
// evaluates, between evaluations. stats() on any thread.
// Errors: Error(io) for what cannot be mapped or dropped, Error(engine) for weights that are not in the mapping.
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
    madvise, // MADV_DONTNEED: out of the process, not out of the page cache
    fadvise, // POSIX_FADV_DONTNEED: out of the page cache; the kernel keeps pages that a process has mapped
    none,    // nothing is dropped
};
std::string_view to_string(PageEvict evict);

struct PagerOptions {
    uint32_t hot_tokens = 8; // an expert that one of the last so many tokens used stays
    PageEvict evict = PageEvict::both;
};

struct RssSample {
    uint64_t n_token = 0; // evaluated so far
    uint64_t rss_bytes = 0;
};

// An access is one routed expert of one layer in one evaluation; a hit was used before and not dropped since.
struct PagerStats {
    PagerOptions options;
    uint64_t mapped_bytes = 0;
    uint64_t expert_hits = 0;
    uint64_t expert_misses = 0;
    uint64_t sweeps = 0;
    uint64_t experts_dropped = 0;
    uint64_t slices_dropped = 0;
    uint64_t bytes_dropped = 0; // whole pages
    uint64_t bytes_reread = 0;  // of experts that were used again after they had been dropped
    uint64_t major_faults = 0;  // of the process since the files were mapped: page faults that waited for a disk
    std::vector<RssSample> rss; // after sweeps; few enough for a file, see rss_samples.h
};

class ExpertPager {
  public:
    // The layout must outlive it.
    ExpertPager(const ModelLayout &layout, const PagerOptions &options);
    ~ExpertPager();
    ExpertPager(const ExpertPager &) = delete;
    ExpertPager &operator=(const ExpertPager &) = delete;

    // Where the mapping has this tensor of the layout's expert_tensors. Valid as long as this.
    [[nodiscard]] const void *address_of(const ExpertTensor &tensor) const;

    // `data` is where the engine keeps the address it multiplies this tensor from: looked at before each drop, and
    // valid until the last end_evaluation(). Tensors that are not bound are not dropped.
    void bind(const ExpertTensor &tensor, void *const *data);

    // What the router chose for one MoE layer: experts[token * top_k + k], negative for none. A layer may be evaluated
    // for the last tokens of an evaluation only.
    void routed(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) noexcept;

    // After an evaluation of `n_token` tokens, finished or not: the sweep.
    void end_evaluation(uint32_t n_token);

    [[nodiscard]] PagerStats stats() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
