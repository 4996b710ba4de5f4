// vocab.h — small vocabularies, made from the first tokens of GPT-2's, as llama.cpp loads them.
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
    std::vector<ExtraToken> extra = {}; // behind the others
    bool add_bos = false;               // of the first control token in `extra`
    bool add_eos = false;               // of the last one
    int bos = -2;                       // -2: as above
};

struct FreeModel {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
using VocabPtr = std::unique_ptr<llama_model, FreeModel>;

// The bytes and 1000 merges of GPT-2 for "gpt2"; else some words, and a token for each byte.
VocabPtr make_vocab(const VocabOptions &options);
inline const llama_vocab *vocab_of(const VocabPtr &model) { return llama_model_get_vocab(model.get()); }

struct Vocab {
    explicit Vocab(VocabPtr made) : model(std::move(made)), tokenizer(vocab_of(model)) {}
    VocabPtr model;
    Tokenizer tokenizer;
};
// GPT-2's with this pre-tokenizer: made once for all tests.
const Vocab &vocab_with(const std::string &pre);

// One name of each kind of pre-tokenizer that llama.cpp has.
const std::vector<std::string> &pre_tokenizers();

} // namespace larder::test
