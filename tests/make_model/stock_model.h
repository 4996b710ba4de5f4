// stock_model.h — runs a model with llama.cpp alone and records the choices of its router.
#pragma once

#include <llama-cpp.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace larder::test {

// Loads the model with llama.cpp's own loader, without repacking. Throws if llama.cpp refuses it.
class StockModel {
  public:
    explicit StockModel(const std::filesystem::path &path);

    // The logits of each position, in rows of vocab_size().
    std::vector<float> decode(const std::vector<llama_token> &tokens);

    // Decodes `count` tokens greedily after `prompt`, with one llama_decode() each.
    std::vector<llama_token> greedy(const std::vector<llama_token> &prompt, size_t count);

    [[nodiscard]] std::vector<llama_token> tokenize(const std::string &text) const;
    [[nodiscard]] std::string detokenize(const std::vector<llama_token> &tokens) const;
    [[nodiscard]] const llama_vocab *vocab() const { return llama_model_get_vocab(model_.get()); }
    [[nodiscard]] size_t vocab_size() const { return static_cast<size_t>(llama_vocab_n_tokens(vocab())); }
    [[nodiscard]] const llama_model *model() const { return model_.get(); }

    // For each layer, the set of experts of each token in the last decode() or greedy().
    using Routing = std::map<std::string, std::vector<std::set<int32_t>>>;
    [[nodiscard]] const Routing &routing() const { return routing_; }

  private:
    [[nodiscard]] llama_context_ptr new_context();
    // The logits of each of `tokens`, the first of which is at `position`.
    std::vector<float> feed(llama_context *context, const std::vector<llama_token> &tokens, size_t position);
    static bool watch(ggml_tensor *tensor, bool ask, void *self);

    llama_model_ptr model_;
    Routing routing_;
};

} // namespace larder::test
