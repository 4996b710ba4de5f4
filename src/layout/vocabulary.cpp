#include "layout/vocabulary.h"

#include "layout/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace larder {

namespace {

constexpr const char *model_key = "tokenizer.ggml.model";
constexpr const char *tokens_key = "tokenizer.ggml.tokens";

// Rows of the token embedding, one per token. nullopt for a draft model that uses the embedding of its target.
std::optional<uint64_t> embedded_tokens(const ModelLayout &layout) {
    const TensorInfo *embedding = layout.find("token_embd.weight");
    return embedding != nullptr ? std::optional(static_cast<uint64_t>(embedding->shape[1])) : std::nullopt;
}

// llama.cpp's embedding has one row per token. A draft model with a map to its target's tokens may have a different
// number of rows.
void check_rows(const ModelLayout &layout, const Metadata &keys, size_t n_token) {
    const std::optional<uint64_t> rows = embedded_tokens(layout);
    if (rows && *rows != n_token && layout.find("d2t") == nullptr) {
        throw refusal(
            keys.path(),
            fmt::format("key '{}' has {} tokens, but the token embedding has {} rows", tokens_key, n_token, *rows),
            convert_again);
    }
}

// Without a tokenizer llama.cpp creates as many empty tokens as this key specifies.
void check_size_without_tokenizer(const ModelLayout &layout, const Metadata &keys) {
    const std::string key = layout.architecture + ".vocab_size";
    const std::optional<uint64_t> size = keys.number(key);
    const std::optional<uint64_t> rows = embedded_tokens(layout);
    if (size && rows && *size > *rows) {
        throw refusal(keys.path(),
                      fmt::format("key '{}' is {}, but the token embedding has {} rows", key, *size, *rows),
                      convert_again);
    }
}

std::vector<std::string_view> read_tokens(const Metadata &keys, const std::string &tokenizer) {
    const bool there = keys.count(tokens_key, {GGUF_TYPE_STRING}).has_value();
    std::vector<std::string_view> tokens = keys.texts(tokens_key);
    if (tokens.empty()) {
        throw refusal(keys.path(),
                      fmt::format("has {} '{}', which its tokenizer '{}' needs", there ? "an empty" : "no key",
                                  tokens_key, printable(tokenizer, quoted_characters_max)),
                      convert_again);
    }
    return tokens;
}

// An optional array. llama.cpp reads `n_least` elements without checking its length.
void check_array(const Metadata &keys, const std::string &key, std::initializer_list<gguf_type> types, size_t n_least) {
    const std::optional<size_t> n = keys.count(key, types);
    if (n && *n < n_least) {
        throw refusal(keys.path(), fmt::format("key '{}' has {} elements for {} tokens", key, *n, n_least),
                      convert_again);
    }
}

// llama.cpp gives empty tokens numbered names, so only non-empty tokens must differ.
void check_tokens_differ(const Metadata &keys, std::span<const std::string_view> tokens) {
    std::unordered_set<std::string_view> seen;
    seen.reserve(tokens.size());
    for (const std::string_view token : tokens) {
        if (!token.empty() && !seen.insert(token).second) {
            throw refusal(
                keys.path(),
                fmt::format("key '{}' has the token '{}' twice", tokens_key, printable(token, quoted_characters_max)),
                convert_again);
        }
    }
}

// The tokens of an RWKV vocabulary are stored with escapes. llama.cpp needs the newline token to tokenise a text.
void check_rwkv(const Metadata &keys, std::span<const std::string_view> tokens) {
    if (std::ranges::find(tokens, "\\n") == tokens.end()) {
        throw refusal(keys.path(),
                      fmt::format("key '{}' is 'rwkv', but '{}' is not an RWKV vocabulary: it has no token '\\n'",
                                  model_key, tokens_key),
                      convert_again);
    }
}

} // namespace

void check_vocabulary(const ModelLayout &layout, const Metadata &keys) {
    const std::optional<std::string> tokenizer = keys.text(model_key);
    if (!tokenizer) {
        return;
    }
    if (*tokenizer == "none" || *tokenizer == "no_vocab") {
        check_size_without_tokenizer(layout, keys);
        return;
    }
    const std::vector<std::string_view> tokens = read_tokens(keys, *tokenizer);
    check_rows(layout, keys, tokens.size());
    check_array(keys, "tokenizer.ggml.scores", {GGUF_TYPE_FLOAT32, GGUF_TYPE_INT32}, tokens.size());
    check_array(keys, "tokenizer.ggml.token_type", {GGUF_TYPE_INT32}, tokens.size());
    check_array(keys, "tokenizer.ggml.merges", {GGUF_TYPE_STRING}, 0);
    check_tokens_differ(keys, tokens);
    if (*tokenizer == "rwkv") {
        check_rwkv(keys, tokens);
    }
}

} // namespace larder
