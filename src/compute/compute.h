// compute.h — the seam into ggml: a buffer type for routed experts, and the multiplication that reads them from a
// store.
//
// Expert tensors are placed into expert_buffer_type(). It reserves addresses only: writing to such a tensor does
// nothing, reading it aborts, and no byte of it is ever resident. ggml's CPU backend asks this buffer type for every
// MUL_MAT_ID on such a tensor, and runs our op in place of its own, on all compute threads, in the middle of the graph.
//
// The op computes what ggml's own MUL_MAT_ID computes on the same path, to the last bit (docs/kernels.md): src1 is
// quantised to the type the kernel wants, and each output element is one vec_dot over a row (or, for grid-based IQ
// types with enough rows, ggml's own panel kernel), or comes out of one gemv over repacked rows. Order of experts, rows
// and threads does not matter to the result.
//
// A second buffer type, mapped_buffer_type(), is for experts in a file mapping: ggml's own op computes on them.
//
// An op cannot return an error. Where a slice could not be read, or an id names an expert that the model does not have,
// the op writes zeros to the output rows that use it, computes all other rows as ever, and reports the tokens of the
// zeroed rows (OnUnread). The first cause is kept for ExpertBinding::take_error().
//
// Threads: one graph at a time per binding.
#pragma once

#include "base/error.h"
#include "layout/layout.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

struct ggml_tensor;
struct ggml_backend_buffer_type;

namespace larder {

// The regular expression llama.cpp's tensor_buft_overrides uses to send routed experts to expert_buffer_type().
extern const char *const expert_tensor_pattern;

// The buffer type, one for the process. Its first call registers it with ggml's CPU backend and must come before the
// first model is loaded; not thread-safe against a running graph. llama.cpp never chooses it by itself.
ggml_backend_buffer_type *expert_buffer_type();

// Allocates like ggml's CPU buffer type and is computed on by the same ops, but is not that one: an override that names
// the CPU's own lets llama.cpp repack all the same, one that names this keeps a tensor plain.
ggml_backend_buffer_type *plain_buffer_type();

// Which kernels multiply, in the experts and in the resident matrices.
enum class Kernels {
    plain,    // weights as in the file: stock llama.cpp with --no-repack
    mixed,    // experts as in the file, the rest repacked: stock llama.cpp with experts in plain_buffer_type()
    repacked, // weights interleaved for faster kernels where ggml does so: stock llama.cpp's default
    fast,     // as repacked, with gemm where an expert has four rows or more: no stock twin
};
std::string_view to_string(Kernels kernels);
constexpr bool repacks_resident(Kernels kernels) { return kernels != Kernels::plain; }
constexpr bool repacks_experts(Kernels kernels) { return kernels == Kernels::repacked || kernels == Kernels::fast; }

// Throws Error(engine) if larder does not have the kernels that stock llama.cpp would use on this CPU for these
// experts. Never does where they stay plain.
void check_kernels(const ModelLayout &layout, Kernels kernels);

// --- resident matrices ---

// ggml's own type of buffer for repacked weights.
ggml_backend_buffer_type *repack_buffer_type();

// For a matrix that is looked up by rows (token embeddings) and multiplied repacked (as the output): a tensor in it has
// its plain bytes at tensor->data and behind them room for a repacked copy. Registered by expert_buffer_type().
ggml_backend_buffer_type *tied_buffer_type();

// The plain bytes of `tensor` lie at tensor->data. Repacks them: in place in repack_buffer_type(), into the copy in
// tied_buffer_type(); does nothing in others.
void repack_resident(ggml_tensor *tensor);

// --- experts ---

// Told what the router chose for each MoE layer (ExpertTensor::moe_layer) of a graph: experts[token * top_k + k], -1
// for none. Called on a compute thread in the middle of the graph: it must not throw.
using OnRoute = std::function<void(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts)>;

// Called by an op that has written zeros to rows because an expert could not be read. `tokens` are the tokens of these
// rows: numbers among the op's n_token tokens, ascending and distinct, valid during the call. Called at most once an
// op, at its end, on a compute thread: it must not throw and should not allocate. Another compute thread may ask the
// abort callback just before, so that an abort requested here takes effect one op later.
using OnUnread = std::function<void(std::span<const int32_t> tokens, int64_t n_token)>;

// Connects the expert tensors of one loaded model to a store. Must outlive every graph that runs on the model; the
// layout and the store must outlive it.
class ExpertBinding {
  public:
    // Both callbacks may be empty. Without `on_unread` an op that has something to report calls request_abort()
    // instead: no graph with unread experts ends well unnoticed. Throws as check_kernels() does.
    ExpertBinding(const ModelLayout &layout, ExpertStore &store, Kernels kernels, OnRoute on_route = {},
                  OnUnread on_unread = {});
    ~ExpertBinding();
    ExpertBinding(const ExpertBinding &) = delete;
    ExpertBinding &operator=(const ExpertBinding &) = delete;

    // Called for each of the model's tensors that lie in expert_buffer_type(). False if the layout knows no expert
    // tensor of this name, shape and type.
    bool bind(ggml_tensor *tensor);

    // Ends the graph at its next op, through the abort callback. An op that begins afterwards reads nothing: it writes
    // zeros and reports all of its tokens. Until clear_abort(). Any thread.
    void request_abort() noexcept;
    void clear_abort() noexcept;
    // For llama_context_params::abort_callback: true after request_abort(), and after ExpertStore::request_stop().
    static bool abort_requested(void *binding);

    // Why experts could not be read: the first cause since the last call, if any. While no graph runs.
    std::optional<Error> take_error();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

// --- experts in a file mapping (docs/residency.md) ---

// Holds no bytes either, and writing to its tensors does nothing: a tensor gets its address from MappedExperts::bind(),
// and is multiplied from there by ggml's own MUL_MAT_ID. Registered with ggml's CPU backend as expert_buffer_type() is,
// under the same conditions.
ggml_backend_buffer_type *mapped_buffer_type();

// Ties the expert tensors of one loaded model to addresses, and tells of every route. Must outlive every graph that
// runs on the model; the layout must outlive it.
class MappedExperts {
  public:
    using AddressOf = std::function<const void *(const ExpertTensor &)>;
    MappedExperts(const ModelLayout &layout, AddressOf address_of, OnRoute on_route);
    ~MappedExperts();
    MappedExperts(const MappedExperts &) = delete;
    MappedExperts &operator=(const MappedExperts &) = delete;

    // Called for each of the model's tensors that lie in mapped_buffer_type(): gives it its address. Null, and nothing
    // is changed, if the layout knows no expert tensor of this name, shape and type.
    const ExpertTensor *bind(ggml_tensor *tensor);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
