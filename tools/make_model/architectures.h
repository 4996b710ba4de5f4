// architectures.h — the architectures that the tool can write, and their hyper-parameters.
#pragma once

#include <gguf.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace larder::make_model {

// The sizes that a caller may choose. `experts` and `top_k` are 0 in a dense model.
struct Shape {
    uint32_t layers;
    uint32_t experts;
    uint32_t top_k;
    uint32_t embd;
    uint32_t ff; // hidden size of one expert, or of the feed-forward network of a dense model
    uint32_t heads;
    uint32_t vocab;
    uint32_t ctx;
    // 0: derived from the other sizes.
    uint32_t kv_heads = 0;
    uint32_t head_dim = 0;
    uint32_t ssm_state = 0;

    [[nodiscard]] uint32_t head_size() const { return head_dim > 0 ? head_dim : embd / heads; }
};

// Writes keys with the architecture's prefix.
class KeyWriter;

struct Architecture {
    std::string_view name;
    std::string_view quant; // the default quantisation
    Shape defaults;
    uint32_t layers_min;  // llama.cpp aborts on a hybrid model that has layers of one kind only
    bool small_embedding; // the model scales token embeddings up, or multiplies with them to compute logits
    void (*write_keys)(const KeyWriter &keys, const Shape &shape);
    // Names of the tensors that are optional for llama.cpp and that this model has.
    std::vector<std::string> (*optional_tensors)(const Shape &shape);
};

std::span<const Architecture> architectures();

// Throws Error(usage) that lists the known names.
const Architecture &find_architecture(std::string_view name);

// Throws Error(usage) that names the flag, for sizes that no model of this architecture can have.
void check_shape(const Architecture &architecture, const Shape &shape);

// Writes all keys of the model except those of the vocabulary and of the file.
void write_hyper_parameters(gguf_context *metadata, const Architecture &architecture, const Shape &shape);

} // namespace larder::make_model
