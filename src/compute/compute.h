// compute.h — the interface to ggml: a buffer type for routed experts, and the multiplication that reads them from a
// store.
//
// Expert tensors are allocated in expert_buffer_type(). It only reserves addresses: writing to such a tensor does
// nothing, reading it aborts, and none of its bytes is ever in RAM. ggml's CPU backend asks this buffer type for every
// MUL_MAT_ID on such a tensor, and runs larder's operation instead of its own, on all compute threads, inside the
// graph.
//
// The result equals that of ggml's own MUL_MAT_ID on the same path to the last bit (docs/kernels.md): src1 is quantised
// to the input type of the kernel, and each output element is one vec_dot over a row (or, for grid-based IQ types with
// enough rows, a result of ggml's own panel kernel), or a result of one gemv over repacked rows. The order of experts,
// rows and threads does not affect the result.
//
// A second buffer type, mapped_buffer_type(), is for experts in a file mapping: ggml's own operation computes with
// them.
//
// An operation cannot return an error. If a slice could not be read, or an id names an expert that the model does not
// have, the operation writes zeros to the output rows that need it, computes all other rows as usual, and reports the
// tokens of the zeroed rows (OnUnread). The first cause is kept for ExpertBinding::take_error().
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

// The regular expression for llama.cpp's tensor_buft_overrides that selects routed experts for expert_buffer_type().
extern const char *const expert_tensor_pattern;

// The buffer type; one for the process. The first call registers it with ggml's CPU backend. It must be made before the
// first model is loaded, and not while a graph runs. llama.cpp does not choose this type unless an override names it.
ggml_backend_buffer_type *expert_buffer_type();

// Allocates like ggml's CPU buffer type, and the same operations compute with it, but it is a different type. llama.cpp
// repacks a tensor whose override names the CPU's own type; it leaves a tensor with this type plain.
ggml_backend_buffer_type *plain_buffer_type();

// The kernels that multiply with experts and with resident matrices.
enum class Kernels {
    plain,    // weights as in the file: stock llama.cpp with --no-repack
    mixed,    // experts as in the file, other weights repacked: stock llama.cpp with experts in plain_buffer_type()
    repacked, // weights interleaved for faster kernels where ggml does so: stock llama.cpp's default
    fast,     // like repacked, with gemm for experts with four or more rows: no equivalent in stock llama.cpp
};
std::string_view to_string(Kernels kernels);
constexpr bool repacks_resident(Kernels kernels) { return kernels != Kernels::plain; }
constexpr bool repacks_experts(Kernels kernels) { return kernels == Kernels::repacked || kernels == Kernels::fast; }

// Throws Error(engine) if larder does not have the kernels that stock llama.cpp would use for these experts on this
// CPU. Never throws if experts stay plain.
void check_kernels(const ModelLayout &layout, Kernels kernels);

// --- resident matrices ---

// ggml's own buffer type for repacked weights.
ggml_backend_buffer_type *repack_buffer_type();

// For a matrix whose rows are looked up (token embedding) and that is also multiplied repacked (output). A tensor in it
// has its plain bytes at tensor->data, followed by space for a repacked copy. Registered by expert_buffer_type().
ggml_backend_buffer_type *tied_buffer_type();

// Repacks a tensor whose plain bytes are at tensor->data: in place in repack_buffer_type(), into the copy in
// tied_buffer_type(). Does nothing for other buffer types.
void repack_resident(ggml_tensor *tensor);

// --- experts ---

// Receives the choice of the router for each MoE layer (ExpertTensor::moe_layer) of a graph: experts[token * top_k +
// k], -1 for none. Called on a compute thread while the graph runs: it must not throw.
using OnRoute = std::function<void(uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts)>;

// Called by an operation that has written zeros to rows because an expert could not be read. `tokens` are the tokens of
// these rows: indices below n_token, the number of tokens of the operation; ascending and distinct; valid during the
// call. Called at most once per operation, at its end, on a compute thread: it must not throw and should not allocate.
// Another compute thread may have called the abort callback just before, so an abort requested here takes effect up to
// one operation later.
using OnUnread = std::function<void(std::span<const int32_t> tokens, int64_t n_token)>;

// Connects the expert tensors of one loaded model to a store. Must outlive every graph that runs on the model. The
// layout and the store must outlive it.
class ExpertBinding {
  public:
    // Both callbacks may be empty. Without `on_unread` an operation that would report tokens calls request_abort()
    // instead, so that a graph with unread experts cannot end as a success. Throws the errors of check_kernels().
    ExpertBinding(const ModelLayout &layout, ExpertStore &store, Kernels kernels, OnRoute on_route = {},
                  OnUnread on_unread = {});
    ~ExpertBinding();
    ExpertBinding(const ExpertBinding &) = delete;
    ExpertBinding &operator=(const ExpertBinding &) = delete;

    // To be called for each tensor of the model in expert_buffer_type(). False if the layout has no expert tensor of
    // this name, shape and type.
    bool bind(ggml_tensor *tensor);

    // Ends the graph at its next operation, through the abort callback. An operation that begins afterwards reads
    // nothing: it writes zeros and reports all of its tokens. Lasts until clear_abort(). Any thread.
    void request_abort() noexcept;
    void clear_abort() noexcept;
    // For llama_context_params::abort_callback: true after request_abort(), and after ExpertStore::request_stop().
    // `binding` is the ExpertBinding.
    static bool abort_requested(void *binding);

    // The first cause since the last call why experts could not be read, if any. Only while no graph runs.
    std::optional<Error> take_error();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

// --- experts in a file mapping (docs/residency.md) ---

// Also only reserves addresses, and writing to its tensors does nothing. MappedExperts::bind() gives a tensor its
// address; ggml's own MUL_MAT_ID then multiplies with the bytes there. Registered with ggml's CPU backend like
// expert_buffer_type(), under the same conditions.
ggml_backend_buffer_type *mapped_buffer_type();

// Gives the expert tensors of one loaded model their addresses, and reports the choices of the router. Must outlive
// every graph that runs on the model. The layout must outlive it.
class MappedExperts {
  public:
    using AddressOf = std::function<const void *(const ExpertTensor &)>;
    MappedExperts(const ModelLayout &layout, AddressOf address_of, OnRoute on_route);
    ~MappedExperts();
    MappedExperts(const MappedExperts &) = delete;
    MappedExperts &operator=(const MappedExperts &) = delete;

    // To be called for each tensor of the model in mapped_buffer_type(): sets its address. Returns null and changes
    // nothing if the layout has no expert tensor of this name, shape and type.
    const ExpertTensor *bind(ggml_tensor *tensor);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
