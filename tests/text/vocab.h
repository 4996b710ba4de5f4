// vocab.h — small vocabularies from the first tokens of GPT-2's, loaded by llama.cpp.
#pragma once

#include "text/text.h"

#include "llama.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace larder::test {

struct ExtraToken {
    std::string text;
    llama_token_type type;
};

struct VocabOptions {
    std::string model = "gpt2"; // tokenizer.ggml.model
    std::string pre = "gpt-2";  // tokenizer.ggml.pre
    std::string name = "test";
    std::vector<ExtraToken> extra = {}; // after the other tokens
    bool add_bos = false;               // with the first control token in `extra`
    bool add_eos = false;               // with the last one
    int bos = -2;                       // -2: the first control token in `extra`
};

struct FreeModel {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
using VocabPtr = std::unique_ptr<llama_model, FreeModel>;

// The bytes and 1000 merges of GPT-2 if `model` is "gpt2"; otherwise some words, and one token per byte.
VocabPtr make_vocab(const VocabOptions &options);
inline const llama_vocab *vocab_of(const VocabPtr &model) { return llama_model_get_vocab(model.get()); }

struct Vocab {
    explicit Vocab(VocabPtr made) : model(std::move(made)), tokenizer(vocab_of(model)) {}
    VocabPtr model;
    Tokenizer tokenizer;
};
// GPT-2's vocabulary with this pre-tokenizer, made once for all tests.
const Vocab &vocab_with(const std::string &pre);

// One name for each kind of pre-tokenizer in llama.cpp.
const std::vector<std::string> &pre_tokenizers();

} // namespace larder::test
