#include "text/vocab.h"

#include "support/scratch.h"

#include "gguf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

namespace larder::test {

namespace {

struct FreeGguf {
    void operator()(gguf_context *file) const { gguf_free(file); }
};
using GgufPtr = std::unique_ptr<gguf_context, FreeGguf>;

constexpr size_t merges_kept = 1000;

std::vector<std::string> strings_of(const gguf_context *file, const char *key, size_t count) {
    const int64_t id = gguf_find_key(file, key);
    std::vector<std::string> strings;
    for (size_t i = 0; i < count; i++) {
        strings.emplace_back(gguf_get_arr_str(file, id, i));
    }
    return strings;
}

void set_strings(gguf_context *file, const char *key, const std::vector<std::string> &strings) {
    std::vector<const char *> pointers;
    for (const std::string &text : strings) {
        pointers.push_back(text.c_str());
    }
    gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

struct Words {
    std::vector<std::string> texts;
    std::vector<int32_t> types;
    std::vector<float> scores;

    void add(const std::string &text, int32_t type) {
        texts.push_back(text);
        types.push_back(type);
        scores.push_back(-static_cast<float>(texts.size()));
    }
};

// Runs and words; ▁ stands for a space.
Words words_and_bytes(const std::string &model) {
    const auto byte_type = model == "bert" ? LLAMA_TOKEN_TYPE_NORMAL : LLAMA_TOKEN_TYPE_BYTE; // bert has no byte tokens
    Words words;
    words.add("<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
    words.add("<s>", LLAMA_TOKEN_TYPE_CONTROL);
    words.add("</s>", LLAMA_TOKEN_TYPE_CONTROL);
    for (int byte = 0; byte < 256; byte++) {
        words.add(fmt::format("<0x{:02X}>", byte), byte_type);
    }
    for (char c = 33; c < 127; c++) {
        words.add(std::string(1, c), LLAMA_TOKEN_TYPE_NORMAL);
    }
    for (const char *word : {"\xE2\x96\x81",
                             "\xE2\x96\x81"
                             "a",
                             "he", "llo", "hello", "\xE2\x96\x81hello", "th", "the"}) {
        words.add(word, LLAMA_TOKEN_TYPE_NORMAL);
    }
    for (size_t length = 2; length <= 32; length *= 2) {
        words.add(std::string(length, 'a'), LLAMA_TOKEN_TYPE_NORMAL);
        words.add(std::string(length, '-'), LLAMA_TOKEN_TYPE_NORMAL);
    }
    return words;
}

Words of_gpt2(const gguf_context *file) {
    Words words;
    for (const std::string &text : strings_of(file, "tokenizer.ggml.tokens", 256 + merges_kept)) {
        words.add(text, LLAMA_TOKEN_TYPE_NORMAL);
    }
    return words;
}

void set_ends(gguf_context *file, const VocabOptions &options, size_t n_word) {
    int bos = options.bos;
    int eos = -1;
    for (size_t i = 0; i < options.extra.size(); i++) {
        if (options.extra[i].type == LLAMA_TOKEN_TYPE_CONTROL) {
            eos = static_cast<int>(n_word + i);
            bos = bos == -2 ? eos : bos;
        }
    }
    for (const auto &[key, token] :
         {std::pair{"tokenizer.ggml.bos_token_id", bos}, {"tokenizer.ggml.eos_token_id", eos}}) {
        if (token >= 0) {
            gguf_set_val_u32(file, key, static_cast<uint32_t>(token));
        } else {
            gguf_remove_key(file, key);
        }
    }
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", options.add_bos);
    gguf_set_val_bool(file, "tokenizer.ggml.add_eos_token", options.add_eos);
}

} // namespace

VocabPtr make_vocab(const VocabOptions &options) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const GgufPtr file(gguf_init_from_file(LARDER_GPT2_VOCAB, {/*.no_alloc = */ true, /*.ctx = */ nullptr}));
    EXPECT_NE(file, nullptr) << LARDER_GPT2_VOCAB;
    Words words = options.model == "gpt2" ? of_gpt2(file.get()) : words_and_bytes(options.model);
    const size_t n_word = words.texts.size();
    for (const ExtraToken &token : options.extra) {
        words.add(token.text, token.type);
    }
    gguf_set_val_str(file.get(), "general.name", options.name.c_str());
    gguf_set_val_str(file.get(), "tokenizer.ggml.model", options.model.c_str());
    gguf_set_val_str(file.get(), "tokenizer.ggml.pre", options.pre.c_str());
    const std::vector<std::string> merges = strings_of(file.get(), "tokenizer.ggml.merges", merges_kept);
    set_strings(file.get(), "tokenizer.ggml.merges", merges);
    set_strings(file.get(), "tokenizer.ggml.tokens", words.texts);
    gguf_set_arr_data(file.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, words.types.data(), words.types.size());
    gguf_set_arr_data(file.get(), "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, words.scores.data(), words.scores.size());
    set_ends(file.get(), options, n_word);
    const Scratch scratch;
    const std::string path = scratch / "vocab.gguf";
    gguf_write_to_file(file.get(), path.c_str(), true);
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    VocabPtr model(llama_model_load_from_file(path.c_str(), params));
    EXPECT_NE(model, nullptr) << options.model << ' ' << options.pre;
    return model;
}

const Vocab &vocab_with(const std::string &pre) {
    static std::map<std::string, std::unique_ptr<Vocab>> made;
    std::unique_ptr<Vocab> &vocab = made[pre];
    if (vocab == nullptr) {
        vocab = std::make_unique<Vocab>(make_vocab({.pre = pre}));
    }
    return *vocab;
}

const std::vector<std::string> &pre_tokenizers() {
    static const std::vector<std::string> names = {"default",
                                                   "minicpm5",
                                                   "llama3",
                                                   "deepseek-llm",
                                                   "deepseek-coder",
                                                   "deepseek-v3",
                                                   "spark2_5",
                                                   "youtu",
                                                   "falcon",
                                                   "mpt",
                                                   "starcoder",
                                                   "gpt-2",
                                                   "jais-2",
                                                   "gemma4",
                                                   "sarvam-moe",
                                                   "whitespace",
                                                   "refact",
                                                   "command-r",
                                                   "qwen2",
                                                   "qwen35",
                                                   "stablelm2",
                                                   "olmo",
                                                   "dbrx",
                                                   "smaug-bpe",
                                                   "poro-chat",
                                                   "glm4",
                                                   "viking",
                                                   "jais",
                                                   "tekken",
                                                   "smollm",
                                                   "codeshell",
                                                   "bloom",
                                                   "gpt3-finnish",
                                                   "exaone",
                                                   "exaone4",
                                                   "exaone-moe",
                                                   "chameleon",
                                                   "minerva-7b",
                                                   "megrez",
                                                   "gpt-4o",
                                                   "tiny_aya",
                                                   "superbpe",
                                                   "trillion",
                                                   "bailingmoe",
                                                   "seed-coder",
                                                   "hunyuan",
                                                   "hunyuan-dense",
                                                   "hy_v4",
                                                   "joyai-llm",
                                                   "kimi-k2",
                                                   "ufakzeka",
                                                   "grok-2",
                                                   "afmoe",
                                                   "laguna",
                                                   "minimax-m2",
                                                   "solar-open",
                                                   "mellum2",
                                                   "granite-docling",
                                                   "granite-embed-multi-97m"};
    return names;
}

} // namespace larder::test
