// stock_model.h — runs a model with llama.cpp alone and watches what its router chooses.
#pragma once

#include <llama-cpp.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace larder::test {

// Loads with llama.cpp's own loader, weights as they are in the file. Throws if llama.cpp refuses.
class StockModel {
  public:
    explicit StockModel(const std::filesystem::path &path);

    // Logits of every position, one row of vocab_size() each.
    std::vector<float> decode(const std::vector<llama_token> &tokens);

    // The `count` tokens that greedy decode makes of `prompt`, one call of llama_decode each.
    std::vector<llama_token> greedy(const std::vector<llama_token> &prompt, size_t count);

    [[nodiscard]] std::vector<llama_token> tokenize(const std::string &text) const;
    [[nodiscard]] std::string detokenize(const std::vector<llama_token> &tokens) const;
    [[nodiscard]] const llama_vocab *vocab() const { return llama_model_get_vocab(model_.get()); }
    [[nodiscard]] size_t vocab_size() const { return static_cast<size_t>(llama_vocab_n_tokens(vocab())); }
    [[nodiscard]] const llama_model *model() const { return model_.get(); }

    // By layer, the sets of experts that tokens were routed to in the last decode() or greedy().
    using Routing = std::map<std::string, std::vector<std::set<int32_t>>>;
    [[nodiscard]] const Routing &routing() const { return routing_; }

  private:
    [[nodiscard]] llama_context_ptr new_context();
    // Logits of each of `tokens`, which begin at `position`.
    std::vector<float> feed(llama_context *context, const std::vector<llama_token> &tokens, size_t position);
    static bool watch(ggml_tensor *tensor, bool ask, void *self);

    llama_model_ptr model_;
    Routing routing_;
};

} // namespace larder::test
