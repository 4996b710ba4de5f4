#include "session/open_model.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/fixed_bytes.h"
#include "session/open_model_impl.h"

#include "common.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace larder {

// A text that fits into the context has far fewer bytes per token. Rendering and tokenising a longer one would take
// memory that the plan does not include.
void OpenModel::Impl::refuse_text_too_long(uint64_t bytes) const {
    const uint32_t ctx_tokens = llama_n_ctx(context());
    if (bytes > uint64_t{text_bytes_per_token} * ctx_tokens) {
        throw Error(
            ErrorKind::usage,
            fmt::format("a text of {} is more than a context of {} tokens holds", format_bytes(bytes), ctx_tokens),
            {{RemedyKind::shorter_text, "shorten it or raise -c"}});
    }
}

const Tokenizer &OpenModel::Impl::tokenizer() const {
    if (tokenizer_made == nullptr) {
        tokenizer_made = std::make_unique<const Tokenizer>(vocab());
    }
    return *tokenizer_made;
}

// The plan includes the transient memory of a usual text in the reserve. A larger reserve allows more.
uint64_t OpenModel::Impl::tokenise_bytes_max() const {
    const MemoryPlan &plan = host->plan();
    return plan.budget_bytes == 0 ? UINT64_MAX : std::max(plan.fixed.transient, plan.reserve_bytes / 4 * 3);
}

OpenModel::OpenModel(std::unique_ptr<ModelHost> host, double load_ms)
    : impl_(std::make_unique<Impl>(std::move(host), load_ms)) {}
OpenModel::~OpenModel() = default;

const ModelHost &OpenModel::host() const { return *impl_->host; }
const ModelLayout &OpenModel::layout() const { return impl_->host->layout(); }
const MemoryPlan &OpenModel::plan() const { return impl_->host->plan(); }
std::string_view OpenModel::residency() const { return impl_->host->residency(); }
Kernels OpenModel::kernels() const { return impl_->host->kernels(); }
const ReaderInfo &OpenModel::reader_info() const { return impl_->host->reader_info(); }
uint32_t OpenModel::ctx_tokens() const { return llama_n_ctx(impl_->context()); }
uint32_t OpenModel::ubatch_tokens() const { return impl_->host->context_spec().ubatch_tokens; }
uint32_t OpenModel::threads() const { return impl_->host->context_spec().threads; }
uint32_t OpenModel::n_vocab() const { return static_cast<uint32_t>(llama_vocab_n_tokens(impl_->vocab())); }

std::vector<Token> OpenModel::tokenize(const PromptText &text) const {
    impl_->refuse_text_too_long(text.text.size());
    TokeniseOptions options;
    options.add_special = true;
    options.parse_special = true;
    options.bytes_max = impl_->tokenise_bytes_max();
    options.tokens_max = ctx_tokens();
    return impl_->tokenizer().tokenise(text, options);
}

std::string OpenModel::piece(Token token, bool special) const {
    return common_token_to_piece(impl_->vocab(), token, special);
}

bool OpenModel::is_end_of_generation(Token token) const { return llama_vocab_is_eog(impl_->vocab(), token); }

bool OpenModel::has_chat_template() const {
    const char *source = llama_model_chat_template(impl_->host->model(), nullptr);
    return source != nullptr && *source != '\0';
}

PromptText OpenModel::render_chat(const std::vector<ChatMessage> &messages, bool read_control_tokens) const {
    uint64_t bytes = 0;
    for (const ChatMessage &message : messages) {
        impl_->refuse_text_too_long(bytes += message.content.size());
    }
    const char *source = llama_model_chat_template(impl_->host->model(), nullptr);
    LARDER_CHECK(source != nullptr);
    return ChatTemplate(impl_->tokenizer(), source).render(messages, read_control_tokens, [this] {
        return stop_requested();
    });
}

void OpenModel::request_stop() { impl_->host->context().request_stop(); }
void OpenModel::clear_stop() { impl_->host->context().clear_stop(); }
bool OpenModel::stop_requested() const { return impl_->host->context().stop_requested(); }

RunFigures OpenModel::figures() const {
    RunFigures figures;
    figures.prompt_tokens = impl_->prompt_tokens;
    figures.decode_tokens = impl_->decode_tokens;
    figures.prompt_ms = impl_->prompt_ms;
    figures.decode_ms = impl_->decode_ms;
    figures.ttft_ms = impl_->ttft_ms;
    figures.load_ms = impl_->load_ms;
    figures.memory = process_memory();
    impl_->host->add_figures(figures);
    return figures;
}

} // namespace larder
