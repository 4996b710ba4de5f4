#include "text/chat_template.h"

#include "base/error.h"
#include "text/text_process.h"

#include "chat.h"
#include "common.h"
#include "llama.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace larder {

namespace {

using Json = nlohmann::json;

// Memory for the template, and for the conversation, of which rendering makes several copies.
constexpr uint64_t memory_base_bytes = 32 * MiB;
constexpr uint64_t memory_bytes_per_byte = 64;
constexpr uint64_t prompt_bytes_base = 1 * MiB;
constexpr uint64_t prompt_bytes_per_byte = 8;

// Runs in the text process.
std::string render_job(const std::string &request) {
    const Json json = Json::parse(request);
    common_chat_templates_inputs inputs;
    for (const Json &message : json.at("messages")) {
        common_chat_msg converted;
        converted.role = message.at("role");
        converted.content = message.at("content");
        inputs.messages.push_back(std::move(converted));
    }
    const common_chat_templates_ptr templates =
        common_chat_templates_init(nullptr, json.at("template").get<std::string>(), json.at("bos").get<std::string>(),
                                   json.at("eos").get<std::string>());
    return common_chat_templates_apply(templates.get(), inputs).prompt;
}

std::string text_of(const llama_vocab *vocab, Token token) {
    return token == LLAMA_TOKEN_NULL ? "" : common_token_to_piece(vocab, token, true);
}

// llama.cpp's explanation has several lines, with an excerpt of the template between them.
std::string reason_in(const std::string &text) {
    constexpr std::string_view before = "Error: ";
    const size_t at = text.rfind(before);
    const std::string reason = at == std::string::npos ? text : text.substr(at + before.size());
    return reason.starts_with("std::exception")
               ? "llama.cpp gives no reason"
               : printable(reason.substr(0, reason.find('\n')), 4 * quoted_characters_max);
}

Error failed(const JobResult &result, const JobLimits &limits) {
    std::string how;
    // llama.cpp turns the exception into one of its own.
    const bool no_memory = result.end == JobEnd::refused && result.text.find("std::bad_alloc") != std::string::npos;
    switch (no_memory ? JobEnd::memory : result.end) {
    case JobEnd::refused:
        how = fmt::format("does not take this conversation: {}", reason_in(result.text));
        break;
    case JobEnd::memory:
        how = fmt::format("takes more than {} of memory", format_bytes(limits.memory_bytes));
        break;
    case JobEnd::stack:
        how = "is nested or recurses too deeply";
        break;
    case JobEnd::processor:
        how = fmt::format("takes more than {} s of processor time", limits.cpu_ms / 1000);
        break;
    case JobEnd::large:
        how = fmt::format("makes a prompt of more than {}", format_bytes(limits.result_bytes));
        break;
    case JobEnd::done:
    case JobEnd::crashed:
    case JobEnd::stopped:
        how = "crashes llama.cpp";
        break;
    }
    return {ErrorKind::model, fmt::format("the model's chat template {}", how), "use --raw for no template"};
}

// Replaces control tokens that are spelled out in a message. A marker is a number between two characters of the private
// use area; no template changes it.
class Markers {
  public:
    explicit Markers(const std::vector<ChatMessage> &messages) {
        // Chooses two characters that occur in no message.
        for (uint32_t c = 0xE000; c + 1 < 0xF8FF; c += 2) {
            begin_ = utf8_of(c);
            end_ = utf8_of(c + 1);
            if (std::ranges::none_of(messages, [&](const ChatMessage &m) {
                    return m.content.find(begin_) != std::string::npos || m.content.find(end_) != std::string::npos;
                })) {
                return;
            }
        }
    }

    // The text with markers in place of the spans.
    std::string mark(const std::string &text, const std::vector<TextSpan> &spans) {
        std::string marked;
        uint64_t done = 0;
        for (const TextSpan &span : spans) {
            marked += text.substr(done, span.begin - done);
            marked += begin_ + std::to_string(texts_.size()) + end_;
            texts_.push_back(text.substr(span.begin, span.end - span.begin));
            done = span.end;
        }
        return marked + text.substr(done);
    }

    // The text with each marker replaced by its original, as literal text.
    [[nodiscard]] PromptText unmark(const std::string &marked) const {
        PromptText prompt;
        size_t done = 0;
        while (const std::optional<Found> found = find(marked, done)) {
            prompt.text += marked.substr(done, found->begin - done);
            const uint64_t begin = prompt.text.size();
            prompt.text += texts_[found->index];
            prompt.literal.push_back({begin, prompt.text.size()});
            done = found->end;
        }
        prompt.text += marked.substr(done);
        return prompt;
    }

  private:
    struct Found {
        size_t begin = 0;
        size_t end = 0;
        size_t index = 0; // index into texts_
    };

    [[nodiscard]] std::optional<Found> find(const std::string &marked, size_t from) const {
        for (size_t begin = marked.find(begin_, from); begin != std::string::npos;
             begin = marked.find(begin_, begin + 1)) {
            size_t at = begin + begin_.size();
            size_t index = 0;
            while (at < marked.size() && marked[at] >= '0' && marked[at] <= '9' && index < texts_.size()) {
                index = index * 10 + static_cast<size_t>(marked[at++] - '0');
            }
            if (index < texts_.size() && marked.compare(at, end_.size(), end_) == 0) {
                return Found{begin, at + end_.size(), index};
            }
        }
        return std::nullopt;
    }

    static std::string utf8_of(uint32_t c) {
        return {static_cast<char>(0xE0U | (c >> 12U)), static_cast<char>(0x80U | ((c >> 6U) & 0x3FU)),
                static_cast<char>(0x80U | (c & 0x3FU))};
    }

    std::string begin_;
    std::string end_;
    std::vector<std::string> texts_;
};

// Tokenising adds begin-of-text and end-of-text where the model requires them, so the template's own ones are removed.
std::string without_added_tokens(std::string prompt, const llama_vocab *vocab, const std::string &bos,
                                 const std::string &eos) {
    if (llama_vocab_get_add_bos(vocab) && !bos.empty() && prompt.starts_with(bos)) {
        prompt.erase(0, bos.size());
    }
    if (llama_vocab_get_add_eos(vocab) && !eos.empty() && prompt.ends_with(eos)) {
        prompt.resize(prompt.size() - eos.size());
    }
    return prompt;
}

// An answer that was stopped may end in the middle of a character. The replacement character takes its place.
std::string with_whole_characters(const std::string &text) {
    return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

} // namespace

PromptText ChatTemplate::render(const std::vector<ChatMessage> &messages, bool read_control_tokens,
                                const std::function<bool()> &stop) const {
    const llama_vocab *vocab = tokenizer_.vocab();
    const std::string bos = text_of(vocab, llama_vocab_bos(vocab));
    const std::string eos = text_of(vocab, llama_vocab_eos(vocab));
    Markers markers(messages);
    Json request = {{"template", source_}, {"bos", bos}, {"eos", eos}, {"messages", Json::array()}};
    uint64_t bytes = source_.size();
    for (const ChatMessage &original : messages) {
        const ChatMessage message = {
            original.role, original.role == "assistant" ? with_whole_characters(original.content) : original.content};
        const std::string content = read_control_tokens
                                        ? message.content
                                        : markers.mark(message.content, tokenizer_.control_tokens_in(message.content));
        bytes += content.size();
        request["messages"].push_back({{"role", message.role}, {"content", content}});
    }
    std::string text;
    try {
        text = request.dump();
    } catch (const Json::exception &) {
        throw Error(ErrorKind::usage, "a message is not valid UTF-8", "give text in UTF-8");
    }
    JobLimits limits;
    limits.memory_bytes = memory_base_bytes + memory_bytes_per_byte * bytes;
    limits.result_bytes = prompt_bytes_base + prompt_bytes_per_byte * bytes;
    JobResult result = run_job(render_job, text, limits, stop);
    if (result.end == JobEnd::stopped) {
        return {};
    }
    if (result.end != JobEnd::done) {
        throw failed(result, limits);
    }
    return markers.unmark(without_added_tokens(std::move(result.text), vocab, bos, eos));
}

} // namespace larder
