// layout.h — the file, offset, size and type of every weight of a model, read from its metadata.
//
// open_layout() reads only the GGUF header (of every shard of a split model): it reads no weight and allocates no
// memory of the model's size. A ModelLayout is immutable afterwards and may be read by any thread.
//
// llama.cpp loads some files that crash it later. open_layout() refuses the faults that the metadata alone show: a type
// that ggml cannot compute with (types.h), a missing tensor (missing_tensors.h), a number that contradicts the tensors
// (hyperparameters.h), an inconsistent tokenizer (vocabulary.h). It refuses no file that llama.cpp can run. Checks that
// require llama.cpp's knowledge, above all the shapes of an architecture, are left to llama.cpp.
//
// Terms: an *expert tensor* is one stacked weight of all routed experts of a layer, shape [in, out, n_expert]. Its
// *slice* e is the contiguous part that belongs to expert e. A routed *expert* is the set of slices of one (layer,
// expert) pair: gate, up and down, or gate_up and down. Slices of equal size form a *size class*.
//
// Units: sizes and offsets in bytes; offsets are from the start of the file.
// Errors: Error(model) for a file that is not a model, is damaged or cannot be run; it names the file and the tensor or
// key. Error(io) for a file that cannot be opened or read, or that changes while it is read.
#pragma once

#include "base/file_identity.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct gguf_context; // ggml's own GGUF metadata

namespace larder {

struct Extent {
    uint32_t file = 0; // index into ModelLayout::files
    uint64_t offset = 0;
    uint64_t bytes = 0;
};

// An extent, widened at both ends to multiples of direct_io_alignment. The extent begins `skew` bytes after the window.
struct Window {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t skew = 0;
};
Window window_of(const Extent &extent);

enum class TensorKind { routed_expert, embedding, head, attention, ssm, shared_expert, router, norm, other };
std::string_view to_string(TensorKind kind);

enum class Projection { gate, up, down, gate_up };
std::string_view to_string(Projection projection);

struct TensorInfo {
    std::string name;
    int type = 0;                             // ggml_type
    std::string type_name;                    // "q4_K"
    std::array<int64_t, 4> shape{1, 1, 1, 1}; // ggml order: the first dimension is contiguous
    Extent extent;
    TensorKind kind = TensorKind::other;
    int layer = -1; // -1: not part of a layer
};

// One stacked weight of routed experts. Its slice e lies at tensors[tensor].extent.offset + e * slice_bytes.
struct ExpertTensor {
    uint32_t tensor = 0; // index into ModelLayout::tensors
    uint32_t layer = 0;
    // Expert tensors with the same number share one routing decision: their operations get the same ids. Numbered from
    // 0 in the order of the layers.
    uint32_t moe_layer = 0;
    Projection projection = Projection::gate;
    uint32_t n_expert = 0;
    uint32_t n_expert_used = 0; // experts that one token uses: min(top-k of the layer, n_expert)
    uint64_t slice_bytes = 0;
    uint32_t size_class = 0;  // index into ModelLayout::size_classes
    uint32_t first_slice = 0; // slices are numbered over the whole model: slice of expert e is first_slice + e
};

struct SizeClass {
    uint64_t slice_bytes = 0;
    uint64_t slot_bytes = 0; // the largest window of its slices, a multiple of direct_io_alignment
    uint64_t n_slices = 0;   // in the whole model
    // Slices that one token uses: the sum of n_expert_used over the expert tensors of the class, in the model's own
    // layers or in one prediction layer, whichever is larger.
    uint64_t n_slices_per_token = 0;
};

struct ModelLayout {
    std::vector<std::string> files;         // one file, or the shards in order
    std::vector<uint64_t> file_bytes;       // size of each file
    std::vector<FileIdentity> identities;   // of each file, from the descriptor that was used to read its metadata
    std::shared_ptr<gguf_context> metadata; // keys of the first shard, tensors of all shards; its offsets are invalid
    std::string architecture;               // "qwen3moe"
    std::string name;                       // general.name, printable, at most quoted_characters_max; may be empty

    uint32_t n_layer = 0;       // all layers, including prediction layers
    uint32_t n_layer_nextn = 0; // the last layers, which predict further tokens; a normal pass does not run them
    uint32_t n_expert = 0;      // 0 for a dense model
    uint32_t n_expert_used = 0; // top-k; the maximum if layers differ
    uint64_t context_length = 0;
    uint64_t sliding_window = 0; // tokens; 0: no layer has a sliding window
    // A layer with both attention and a recurrent state is in two of these lists. If the model has a sliding window but
    // the architecture determines its layers, all attention layers are in full_attention_layers.
    std::vector<uint32_t> full_attention_layers;
    std::vector<uint32_t> windowed_layers;
    std::vector<uint32_t> recurrent_layers;

    std::vector<TensorInfo> tensors;          // in file order
    std::vector<uint32_t> tensors_by_name;    // indices into `tensors`, see index_tensors()
    std::vector<ExpertTensor> expert_tensors; // ordered by layer, then as in the file
    std::vector<SizeClass> size_classes;      // ordered by slice_bytes
    uint32_t n_slice = 0;                     // over all expert tensors

    uint64_t total_bytes = 0;    // of all tensors
    uint64_t routed_bytes = 0;   // of the expert tensors
    uint64_t resident_bytes = 0; // total - routed
    // Expert bytes that one token uses: the slices counted by SizeClass::n_slices_per_token. All experts of a layer
    // have the same size, so this is exact for any choice of the router.
    uint64_t token_bytes = 0;

    // Null if there is no such tensor. Code that changes `tensors` must call index_tensors() before the next find().
    [[nodiscard]] const TensorInfo *find(std::string_view tensor_name) const;
    void index_tensors();
    [[nodiscard]] Extent slice_extent(const ExpertTensor &tensor, uint32_t expert) const;
};

// `path` is a GGUF, or any shard of a split model ("-00001-of-0000N.gguf"). The other shards must be in the same
// folder.
ModelLayout open_layout(const std::string &path);

} // namespace larder
