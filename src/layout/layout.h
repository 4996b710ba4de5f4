// layout.h — where every weight of a model lies on disk, read from its metadata.
//
// open_layout() reads the GGUF header (of every shard of a split model) and nothing else: no weight is read, no memory
// of the model's size is allocated. A ModelLayout is immutable afterwards and may be read from any thread.
//
// llama.cpp loads files that it crashes on later. open_layout() refuses what the metadata alone show: a type that ggml
// cannot compute with (types.h), a missing tensor (missing_tensors.h), a number that contradicts the tensors
// (hyperparameters.h), a tokenizer that does not fit (vocabulary.h). It refuses nothing that llama.cpp can run. What
// only llama.cpp knows, the shapes of an architecture above all, is left to it.
//
// Words: an *expert tensor* is one stacked weight of all routed experts of a layer, shape [in, out, n_expert]. Its
// *slice* e is the contiguous part that belongs to expert e. A routed *expert* is the set of slices of one (layer,
// expert) pair: gate, up and down, or gate_up and down. Slices of equal bytes form a *size class*.
//
// Units: sizes and offsets in bytes; offsets are absolute in their file.
// Errors: Error(model) for what is not a model, is damaged or cannot be run, naming the file and the tensor or key;
// Error(io) for a file that cannot be opened or read, or that changes while it is read.
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

// An extent widened at both ends to direct_io_alignment. `skew` bytes lie before the extent inside it.
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
    std::array<int64_t, 4> shape{1, 1, 1, 1}; // ggml order: the first is contiguous
    Extent extent;
    TensorKind kind = TensorKind::other;
    int layer = -1; // -1: belongs to no layer
};

// One stacked weight of routed experts. Its slice e lies at tensors[tensor].extent.offset + e * slice_bytes.
struct ExpertTensor {
    uint32_t tensor = 0; // index into ModelLayout::tensors
    uint32_t layer = 0;
    // Expert tensors with the same number share one routing decision: their ops get the same ids. Numbered from 0 in
    // the order of the layers.
    uint32_t moe_layer = 0;
    Projection projection = Projection::gate;
    uint32_t n_expert = 0;
    uint32_t n_expert_used = 0; // of them by one token: min(the layer's top-k, n_expert)
    uint64_t slice_bytes = 0;
    uint32_t size_class = 0;  // index into ModelLayout::size_classes
    uint32_t first_slice = 0; // slices are numbered through the model: slice of expert e is first_slice + e
};

struct SizeClass {
    uint64_t slice_bytes = 0;
    uint64_t slot_bytes = 0; // room for the widest window of its slices, a multiple of direct_io_alignment
    uint64_t n_slices = 0;   // in the whole model
    // What one token touches: the sum over its expert tensors of n_expert_used, over the model's own layers or over one
    // prediction layer, whichever is more.
    uint64_t n_slices_per_token = 0;
};

struct ModelLayout {
    std::vector<std::string> files;         // one, or the shards in order
    std::vector<uint64_t> file_bytes;       // size of each file
    std::vector<FileIdentity> identities;   // of each file, taken from the descriptor that its metadata was read from
    std::shared_ptr<gguf_context> metadata; // keys of the first shard, tensors of all; offsets in it mean nothing
    std::string architecture;               // "qwen3moe"
    std::string name;                       // general.name, printable and cut to quoted_characters_max; may be empty

    uint32_t n_layer = 0;       // all, prediction layers included
    uint32_t n_layer_nextn = 0; // the last of them, which predict further tokens: a normal pass does not run them
    uint32_t n_expert = 0;      // 0 for a dense model
    uint32_t n_expert_used = 0; // top-k, the largest where layers differ
    uint64_t context_length = 0;
    uint64_t sliding_window = 0; // tokens; 0: no layer is limited to a window
    // A layer that has attention and a recurrent state side by side is in two of these. If there is a sliding window
    // but the file leaves to the architecture which layers have it, all attention layers count as full.
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
    // Bytes of routed experts one token touches: of the slices in SizeClass::n_slices_per_token. All experts of a layer
    // are of one size, so this is exact whatever the router picks.
    uint64_t token_bytes = 0;

    // Null if there is none. Whoever changes `tensors` calls index_tensors() before the next find().
    [[nodiscard]] const TensorInfo *find(std::string_view tensor_name) const;
    void index_tensors();
    [[nodiscard]] Extent slice_extent(const ExpertTensor &tensor, uint32_t expert) const;
};

// `path` is a GGUF, or any shard of a split one ("-00001-of-0000N.gguf"); the others are found beside it.
ModelLayout open_layout(const std::string &path);

} // namespace larder
