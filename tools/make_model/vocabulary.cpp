#include "vocabulary.h"

#include "base/error.h"

#include <fmt/format.h>
#include <ggml-cpp.h>
#include <llama.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace larder::make_model {
namespace {

constexpr uint32_t special_count = vocab_min - 256;

constexpr const char *chat_template =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::vector<std::string> read_strings(const gguf_context *file, const char *key) {
    const int64_t id = gguf_find_key(file, key);
    if (id < 0 || gguf_get_kv_type(file, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(file, id) != GGUF_TYPE_STRING) {
        throw Error(ErrorKind::model, fmt::format("{} has no list {}", LARDER_VOCAB_GGUF, key));
    }
    std::vector<std::string> strings;
    strings.reserve(gguf_get_arr_n(file, id));
    for (size_t i = 0; i < gguf_get_arr_n(file, id); ++i) {
        strings.emplace_back(gguf_get_arr_str(file, id, i));
    }
    return strings;
}

void write_strings(gguf_context *metadata, const char *key, const std::vector<std::string> &strings) {
    std::vector<const char *> pointers;
    pointers.reserve(strings.size());
    std::ranges::transform(strings, std::back_inserter(pointers), &std::string::c_str);
    gguf_set_arr_str(metadata, key, pointers.data(), pointers.size());
}

// The merges whose parts and result are tokens, in their original order.
std::vector<std::string> merges_among(const std::vector<std::string> &tokens, const std::vector<std::string> &merges) {
    const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
    std::vector<std::string> kept;
    for (const std::string &merge : merges) {
        const size_t space = merge.find(' ', 1);
        const std::string first = merge.substr(0, space);
        const std::string second = merge.substr(space + 1);
        if (known.contains(first) && known.contains(second) && known.contains(first + second)) {
            kept.push_back(merge);
        }
    }
    return kept;
}

} // namespace

void write_vocabulary(gguf_context *metadata, uint32_t size) {
    if (size < vocab_min) {
        throw Error(ErrorKind::usage, fmt::format("--vocab must be at least {}", vocab_min));
    }
    const gguf_context_ptr file(gguf_init_from_file(LARDER_VOCAB_GGUF, {.no_alloc = true, .ctx = nullptr}));
    if (!file) {
        throw Error(ErrorKind::io, fmt::format("cannot read the vocabulary {}", LARDER_VOCAB_GGUF),
                    "configure the build again, which fetches llama.cpp");
    }
    // GPT-2 numbers its tokens in the order of the merges that create them; its end of text is last.
    std::vector<std::string> tokens = read_strings(file.get(), "tokenizer.ggml.tokens");
    tokens.pop_back();
    tokens.resize(std::min<size_t>(tokens.size(), size - special_count));
    const auto merges = merges_among(tokens, read_strings(file.get(), "tokenizer.ggml.merges"));
    std::vector<int32_t> types(tokens.size(), LLAMA_TOKEN_TYPE_NORMAL);

    while (tokens.size() + special_count < size) {
        tokens.push_back(fmt::format("<|unused_{}|>", tokens.size()));
        types.push_back(LLAMA_TOKEN_TYPE_UNUSED);
    }
    const auto end_of_text = static_cast<uint32_t>(tokens.size());
    const uint32_t end_of_turn = end_of_text + 2;
    for (const char *special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
        tokens.emplace_back(special);
        types.push_back(LLAMA_TOKEN_TYPE_CONTROL);
    }

    gguf_set_val_str(metadata, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(metadata, "tokenizer.ggml.pre", "gpt-2");
    write_strings(metadata, "tokenizer.ggml.tokens", tokens);
    gguf_set_arr_data(metadata, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    write_strings(metadata, "tokenizer.ggml.merges", merges);
    gguf_set_val_u32(metadata, "tokenizer.ggml.bos_token_id", end_of_text);
    gguf_set_val_u32(metadata, "tokenizer.ggml.eos_token_id", end_of_turn);
    gguf_set_val_u32(metadata, "tokenizer.ggml.padding_token_id", end_of_text);
    gguf_set_val_bool(metadata, "tokenizer.ggml.add_bos_token", false);
    gguf_set_val_str(metadata, "tokenizer.chat_template", chat_template);
}

} // namespace larder::make_model
