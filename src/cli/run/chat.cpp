#include "cli/run/chat.h"

#include "base/bytes.h"
#include "cli/console/terminal.h"
#include "runtime/fixed_bytes.h"

#include <unistd.h>

#include <vector>

namespace larder {

namespace {

class Chat {
  public:
    Chat(Answerer &answerer, const OpenModel &model, Signals &signals, const ChatOptions &options)
        : answerer_(answerer), model_(model), signals_(signals), system_prompt_(options.system_prompt),
          templated_(model.has_chat_template() && !options.raw), terminal_(isatty(STDIN_FILENO) != 0) {
        clear();
        if (terminal_ && !options.quiet) {
            say("Type a message and press Enter. /clear forgets the conversation, /exit or Ctrl-D ends, "
                "Ctrl-C stops an answer.\n");
        }
    }

    int operator()() {
        for (std::string line; next_line(line);) {
            if (line == "/exit") {
                return code_;
            }
            if (line == "/clear") {
                clear();
            } else if (!line.empty()) {
                send(line);
            }
        }
        return code_;
    }

  private:
    bool next_line(std::string &line) {
        // Longer lines do not fit into the context.
        const uint64_t bytes_max = uint64_t{text_bytes_per_token} * model_.ctx_tokens();
        while (!signals_.quit_requested()) {
            if (terminal_) {
                say("> ");
            }
            switch (signals_.read_line(line, bytes_max)) {
            case Signals::Line::text:
                return true;
            case Signals::Line::too_long:
                say("error: a message is longer than {}; shorten it or raise -c\n", format_bytes(bytes_max));
                code_ = exit_code(ErrorKind::usage);
                continue;
            case Signals::Line::end:
                break;
            }
            break;
        }
        if (terminal_) {
            say("\n");
        }
        return false;
    }

    void clear() {
        messages_.clear();
        text_.clear();
        if (!system_prompt_.empty()) {
            messages_.push_back({"system", system_prompt_});
        }
    }

    void send(const std::string &line) {
        const size_t text_before = text_.size();
        const size_t messages_before = messages_.size();
        try {
            if (templated_) {
                messages_.push_back({"user", line});
                messages_.push_back({"assistant", answerer_.answer(messages_)});
            } else {
                text_ += line;
                text_ += answerer_.continuation(text_);
            }
            if (signals_.quit_requested()) { // during the answer, which was stopped
                code_ = exit_interrupted;
            }
            print_now("\n");
        } catch (const Error &error) { // only this answer failed; the conversation before it remains
            signals_.answer_ends();
            messages_.resize(messages_before);
            text_.resize(text_before);
            const bool full = error.find_remedy(RemedyKind::shorter_text) != nullptr;
            const Remedy clear = {RemedyKind::shorter_text, "/clear the conversation"};
            say("\nerror: {}\n", full ? error.with_remedy(clear).what() : error.what());
            code_ = exit_code(error.kind());
        }
    }

    Answerer &answerer_;
    const OpenModel &model_;
    Signals &signals_;
    std::string system_prompt_;
    bool templated_;
    bool terminal_;
    std::vector<ChatMessage> messages_;
    std::string text_; // the whole conversation, if there is no template
    int code_ = 0;
};

} // namespace

int run_chat(Answerer &answerer, const OpenModel &model, Signals &signals, const ChatOptions &options) {
    return Chat(answerer, model, signals, options)();
}

} // namespace larder
