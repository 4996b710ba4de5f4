#include "stock_model.h"

#include <ggml-backend.h>

#include <algorithm>
#include <stdexcept>

namespace larder::test {
namespace {

constexpr uint32_t context_size = 128;

void silence_llama() {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
}

} // namespace

StockModel::StockModel(const std::filesystem::path &path) {
    silence_llama();
    llama_model_params params = llama_model_default_params();
    params.use_extra_bufts = false;
    model_.reset(llama_model_load_from_file(path.c_str(), params));
    if (!model_) {
        throw std::runtime_error("llama.cpp refuses " + path.string());
    }
}

std::vector<float> StockModel::decode(const std::vector<llama_token> &tokens) {
    const llama_context_ptr context = new_context();
    return feed(context.get(), tokens, 0);
}

std::vector<llama_token> StockModel::greedy(const std::vector<llama_token> &prompt, size_t count) {
    const llama_context_ptr context = new_context();
    std::vector<llama_token> answer;
    std::vector<llama_token> next = prompt;
    for (size_t position = 0; answer.size() < count; next = {answer.back()}) {
        const std::vector<float> logits = feed(context.get(), next, position);
        position += next.size();
        const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocab_size());
        answer.push_back(static_cast<llama_token>(std::max_element(last, logits.end()) - last));
    }
    return answer;
}

llama_context_ptr StockModel::new_context() {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = context_size;
    params.n_batch = context_size;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    params.cb_eval = &StockModel::watch;
    params.cb_eval_user_data = this;
    routing_.clear();
    return llama_context_ptr(llama_init_from_model(model_.get(), params));
}

std::vector<float> StockModel::feed(llama_context *context, const std::vector<llama_token> &tokens, size_t position) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
        batch.token[i] = tokens[i];
        batch.pos[i] = static_cast<llama_pos>(position + i);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = static_cast<int32_t>(tokens.size());
    const int32_t status = llama_decode(context, batch);
    llama_batch_free(batch);
    if (status != 0) {
        throw std::runtime_error("llama_decode failed");
    }
    const float *logits = llama_get_logits(context);
    return {logits, logits + tokens.size() * vocab_size()};
}

std::vector<llama_token> StockModel::tokenize(const std::string &text) const {
    std::vector<llama_token> tokens(text.size() + 8);
    const int32_t count = llama_tokenize(vocab(), text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                         static_cast<int32_t>(tokens.size()), true, true);
    tokens.resize(static_cast<size_t>(std::max(count, 0)));
    return tokens;
}

std::string StockModel::detokenize(const std::vector<llama_token> &tokens) const {
    std::string text;
    for (const llama_token token : tokens) {
        char piece[64];
        const int32_t length = llama_token_to_piece(vocab(), token, piece, sizeof piece, 0, true);
        text.append(piece, static_cast<size_t>(std::max(length, 0)));
    }
    return text;
}

bool StockModel::watch(ggml_tensor *tensor, bool ask, void *self) {
    const std::string name = tensor->name;
    if (!name.starts_with("ffn_moe_topk-")) {
        return !ask;
    }
    if (!ask) {
        // The tensor is a view of the experts sorted by preference, so its rows are not adjacent.
        auto &layer = static_cast<StockModel *>(self)->routing_[name];
        std::vector<int32_t> ids(static_cast<size_t>(tensor->ne[0]));
        for (int64_t row = 0; row < tensor->ne[1]; ++row) {
            ggml_backend_tensor_get(tensor, ids.data(), static_cast<size_t>(row) * tensor->nb[1],
                                    ids.size() * sizeof(int32_t));
            layer.emplace_back(ids.begin(), ids.end());
        }
    }
    return true;
}

} // namespace larder::test
