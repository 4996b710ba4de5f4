#include "words.h"

#include "base/check.h"

#include <fmt/format.h>
#include <llama.h>

#include <string>
#include <vector>

namespace larder::make_recite {

namespace {

constexpr const char *space = "\xe2\x96\x81"; // represents a space in SentencePiece

// A chat has no special tokens, so that the message "t0 t1 t2" has the same tokens as the plain text.
constexpr const char *chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}";

class TokenList {
  public:
    uint32_t add(std::string text, llama_token_type type) {
        texts_.push_back(std::move(text));
        types_.push_back(type);
        // Pairs of pieces are joined by score. Two joins never compete for a piece, so any score works.
        scores_.push_back(0.0F);
        return static_cast<uint32_t>(texts_.size() - 1);
    }
    [[nodiscard]] size_t size() const { return texts_.size(); }

    void write(gguf_context *metadata) const {
        std::vector<const char *> pointers;
        pointers.reserve(texts_.size());
        for (const std::string &text : texts_) {
            pointers.push_back(text.c_str());
        }
        gguf_set_arr_str(metadata, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
        gguf_set_arr_data(metadata, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores_.data(), scores_.size());
        gguf_set_arr_data(metadata, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types_.data(), types_.size());
    }

  private:
    std::vector<std::string> texts_;
    std::vector<float> scores_;
    std::vector<int32_t> types_;
};

} // namespace

void write_words(gguf_context *metadata, uint32_t words, uint32_t size) {
    LARDER_CHECK(uint64_t{words} + other_tokens <= size);
    TokenList tokens;
    for (uint32_t word = 0; word < words; word++) {
        tokens.add(fmt::format("{}t{}", space, word), LLAMA_TOKEN_TYPE_NORMAL);
    }
    // A word is joined from the left: the space and the letter, then one digit after the other through shorter words.
    tokens.add(space, LLAMA_TOKEN_TYPE_NORMAL);
    tokens.add(fmt::format("{}t", space), LLAMA_TOKEN_TYPE_NORMAL);
    for (int byte = 0; byte < 256; byte++) {
        tokens.add(fmt::format("<0x{:02X}>", byte), LLAMA_TOKEN_TYPE_BYTE);
    }
    while (tokens.size() + 3 < size) {
        tokens.add(fmt::format("<unused_{}>", tokens.size()), LLAMA_TOKEN_TYPE_UNUSED);
    }
    const uint32_t unknown = tokens.add("<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
    const uint32_t begin = tokens.add("<s>", LLAMA_TOKEN_TYPE_CONTROL);
    const uint32_t end = tokens.add("</s>", LLAMA_TOKEN_TYPE_CONTROL);

    gguf_set_val_str(metadata, "tokenizer.ggml.model", "llama");
    tokens.write(metadata);
    gguf_set_val_u32(metadata, "tokenizer.ggml.unknown_token_id", unknown);
    gguf_set_val_u32(metadata, "tokenizer.ggml.bos_token_id", begin);
    gguf_set_val_u32(metadata, "tokenizer.ggml.eos_token_id", end);
    gguf_set_val_bool(metadata, "tokenizer.ggml.add_bos_token", false);
    gguf_set_val_str(metadata, "tokenizer.chat_template", chat_template);
}

} // namespace larder::make_recite
