#include "engine/engine.h"

#include "base/bytes.h"
#include "base/check.h"
#include "engine/address_needs.h"
#include "engine/engine_impl.h"
#include "engine/llama_log.h"
#include "engine/measure.h"
#include "engine/memory_lock.h"
#include "engine/page_stats.h"
#include "engine/params.h"
#include "engine/planner.h"
#include "engine/resident_weights.h"
#include "plan/address_space.h"

#include "common.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>

namespace larder {

namespace {

constexpr size_t long_text_bytes = 64 * KiB;

struct LoadTargets {
    ResidentWeights weights;
    ExpertBinding *binding;
    std::string unbound; // the first expert tensor that the layout does not know
};

// llama_model_set_tensor_data_t: called for every tensor of the model being built. No exception leaves it.
void on_tensor(ggml_tensor *tensor, void *user) {
    auto *targets = static_cast<LoadTargets *>(user);
    if (ggml_backend_buffer_get_type(tensor->buffer) != expert_buffer_type()) {
        targets->weights.add(tensor);
    } else if ((targets->binding == nullptr || !targets->binding->bind(tensor)) && targets->unbound.empty()) {
        targets->unbound = tensor->name;
    }
}

// Each read of the store is into a slot of its own.
uint32_t store_reads_max(const std::vector<uint64_t> &slots) {
    return static_cast<uint32_t>(std::accumulate(slots.begin(), slots.end(), uint64_t{0})); // slots have 32-bit indices
}

} // namespace

FileState file_state(const std::string &path) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) {
        return {};
    }
    return {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::string llama_version() { return ::llama_version(); }

std::string_view to_string(Residency residency) {
    switch (residency) {
    case Residency::arena:
        return "arena";
    case Residency::page:
        return "page";
    case Residency::stock:
        return "stock";
    }
    check_failed("a residency has a name", __FILE__, __LINE__);
}

bool Engine::Impl::abort_requested(void *impl) {
    auto *self = static_cast<Engine::Impl *>(impl);
    return self->stop.load(std::memory_order_relaxed) ||
           (self->binding != nullptr && ExpertBinding::abort_requested(self->binding.get()));
}

std::optional<Error> Engine::Impl::take_failure() { return store != nullptr ? store->take_error() : std::nullopt; }

void Engine::Impl::make_the_plan() {
    Planner planner(options);
    if (options.wishes.budget_bytes) {
        check_context_can_be_measured(planner.options().ctx_tokens, *options.wishes.budget_bytes);
    }
    const PlannedRun planned = planner.plan();
    planner.check_lock(planned);
    options = with_ubatch(planner.options(), planned.memory.ubatch_tokens);
    layout = planner.take_layout();
    placement = planner.take_placement();
    plan = planned.memory;
    kernels = planned.kernels;
    check_threads_can_start(threads_to_start(options)); // while nothing has been read
    if (options.on_plan) {
        options.on_plan(layout, plan);
    }
}

OnRoute Engine::Impl::record_routes() {
    if (options.trace_path.empty()) {
        return {};
    }
    routes = std::make_unique<RouteRecorder>(options.trace_path, layout);
    return [this](uint32_t group, uint32_t top_k, std::span<const int32_t> experts) {
        routes->add(group, top_k, experts);
    };
}

void Engine::Impl::watch_pressure() {
    PressureWatcher::Options watching;
    if (options.on_resize) {
        watching.on_resize = [this](const ArenaResize &resize) { options.on_resize(to_string(resize)); };
    }
    uint64_t overcommitted_bytes = 0;
    if (options.wishes.overcommit) {
        overcommitted_bytes = plan.budget_bytes - std::min(plan.budget_bytes, probe_memory().usable_bytes);
    }
    watcher = std::make_unique<PressureWatcher>(*store, pressure_bounds(layout, plan, overcommitted_bytes),
                                                std::move(watching));
}

void Engine::Impl::make_the_store() {
    try {
        store = std::make_unique<ExpertStore>(layout, plan.slots, *reader);
    } catch (const Error &error) {
        throw error.kind() == ErrorKind::io && address_limits().any() ? out_of_memory(error.message()) : error;
    }
}

void Engine::Impl::remember_file_states() {
    for (const std::string &file : layout.files) {
        file_states.push_back(file_state(file));
    }
}

void Engine::Impl::open_arena() {
    make_the_plan();
    ReaderOptions reading = options.reader;
    reading.requests_max = std::max(ResidentWeights::reads_max, store_reads_max(plan.slots));
    reader = open_reader(layout.files, reading);
    remember_file_states();
    if (!layout.expert_tensors.empty()) {
        make_the_store();
        watch_pressure();
        binding = std::make_unique<ExpertBinding>(layout, *store, kernels, record_routes());
    } else if (!options.trace_path.empty()) {
        throw Error(ErrorKind::usage, fmt::format("{} is a dense model: it has no routes", layout.files.front()),
                    "leave out --trace");
    }

    LoadTargets targets{{layout, *reader}, binding.get(), {}};
    llama_model_params params = model_params(false);
    params.tensor_buft_overrides = placement->overrides();
    model.reset(llama_model_init_from_user(layout.metadata.get(), on_tensor, &targets, params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model, fmt::format("{}: llama.cpp cannot build the model", layout.files.front()),
                            "make room, or raise 'ulimit -v', which must hold the addresses of all experts too");
    }
    if (!targets.unbound.empty()) {
        throw Error(ErrorKind::model,
                    fmt::format("{}: expert tensor '{}' does not have the shape the model's settings ask for",
                                layout.files.front(), targets.unbound),
                    "get the file again, or a conversion made for llama.cpp");
    }
    targets.weights.load(options.progress);
    layout.metadata.reset(); // llama.cpp has its own copy of what it needs of it
    malloc_trim(0);
}

void Engine::Impl::open_stock() {
    layout = open_layout(options.model_path);
    options = resolve(options, layout.context_length);
    layout.metadata.reset();
    kernels = options.kernels.value_or(Kernels::plain);
    if (kernels == Kernels::fast) {
        throw Error(ErrorKind::usage, "stock llama.cpp has no kernels 'fast'", "use plain, mixed or repacked");
    }
    if (!options.trace_path.empty()) {
        throw Error(ErrorKind::usage, "stock llama.cpp does not tell its routes", "leave out --trace");
    }
    llama_model_params params = model_params(repacks_resident(kernels));
    const std::array<llama_model_tensor_buft_override, 2> experts_plain = {
        {{expert_tensor_pattern, plain_buffer_type()}, {nullptr, nullptr}}};
    if (!repacks_experts(kernels) && repacks_resident(kernels)) {
        params.tensor_buft_overrides = experts_plain.data();
    }
    model.reset(llama_model_load_from_file(options.model_path.c_str(), params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model, fmt::format("{}: llama.cpp cannot load the model", options.model_path));
    }
}

void Engine::Impl::create_context() {
    llama_context_params params = context_params(options);
    params.abort_callback = abort_requested;
    params.abort_callback_data = this;
    context.reset(llama_init_from_model(model.get(), params));
    if (context == nullptr) {
        throw llama_refused(ErrorKind::engine, "llama.cpp cannot create the context",
                            "lower -c, or check --cache-type-k, --cache-type-v and -fa");
    }
}

PlannedRun plan_only(const EngineOptions &options) {
    Planner planner(options);
    PlannedRun planned = planner.plan();
    planner.check_lock(planned);
    return planned;
}

// What fits into the context has far fewer bytes a token; to render and tokenise more would take memory that the plan
// does not hold.
void Engine::Impl::refuse_text_too_long(uint64_t bytes) const {
    const uint32_t ctx_tokens = llama_n_ctx(context.get());
    if (bytes > uint64_t{text_bytes_per_token} * ctx_tokens) {
        throw Error(
            ErrorKind::usage,
            fmt::format("a text of {} is more than a context of {} tokens holds", format_bytes(bytes), ctx_tokens),
            "shorten it or raise -c");
    }
}

std::unique_ptr<Engine> Engine::open(const EngineOptions &options) {
    const auto begin = std::chrono::steady_clock::now();
    capture_llama_log(options.verbose);
    llama_backend_init();
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    if (options.residency != Residency::arena) { // there the plan comes first
        check_threads_can_start(threads_to_start(options));
    }
    switch (options.residency) {
    case Residency::arena:
        impl->open_arena();
        break;
    case Residency::page:
        impl->open_page();
        break;
    case Residency::stock:
        impl->open_stock();
        break;
    }
    impl->create_context();
    if (options.lock_memory) {
        lock_memory();
    }
    impl->load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

const ModelLayout &Engine::layout() const { return impl_->layout; }
const MemoryPlan &Engine::plan() const { return impl_->plan; }
Residency Engine::residency() const { return impl_->options.residency; }
Kernels Engine::kernels() const { return impl_->kernels; }
uint32_t Engine::ctx_tokens() const { return llama_n_ctx(impl_->context.get()); }
uint32_t Engine::ubatch_tokens() const { return impl_->options.ubatch_tokens; }
uint32_t Engine::threads() const { return impl_->options.threads; }
uint32_t Engine::n_vocab() const { return static_cast<uint32_t>(llama_vocab_n_tokens(impl_->vocab())); }

const ReaderInfo &Engine::reader_info() const {
    static const ReaderInfo mapped{"mmap", false, ""};
    return impl_->reader != nullptr ? impl_->reader->info() : mapped;
}

std::vector<Token> Engine::tokenize(const std::string &text, bool special) const {
    impl_->refuse_text_too_long(text.size());
    try {
        std::vector<Token> tokens = common_tokenize(impl_->vocab(), text, special, special);
        if (text.size() >= long_text_bytes) {
            malloc_trim(0); // what this took is the reserve's
        }
        return tokens;
    } catch (const std::exception &error) {
        throw Error(ErrorKind::usage, fmt::format("the text cannot be tokenised: {}", error.what()),
                    "give text in valid UTF-8");
    }
}

std::string Engine::piece(Token token) const { return common_token_to_piece(impl_->vocab(), token, false); }

bool Engine::is_end_of_generation(Token token) const { return llama_vocab_is_eog(impl_->vocab(), token); }

bool Engine::has_chat_template() const { return llama_model_chat_template(impl_->model.get(), nullptr) != nullptr; }

std::string Engine::render_chat(const std::vector<ChatMessage> &messages) const {
    common_chat_templates_inputs inputs;
    uint64_t bytes = 0;
    for (const ChatMessage &message : messages) {
        impl_->refuse_text_too_long(bytes += message.content.size());
        common_chat_msg converted;
        converted.role = message.role;
        converted.content = message.content;
        inputs.messages.push_back(std::move(converted));
    }
    try {
        if (impl_->chat_templates == nullptr) { // only now: a template may be broken, and --raw needs none
            impl_->chat_templates = common_chat_templates_init(impl_->model.get(), "");
        }
        return common_chat_templates_apply(impl_->chat_templates.get(), inputs).prompt;
    } catch (const std::exception &error) {
        throw Error(ErrorKind::model,
                    fmt::format("the model's chat template does not take this conversation: {}", error.what()),
                    "use --raw for no template");
    }
}

std::string Engine::take_changed_file() {
    for (size_t i = 0; i < impl_->file_states.size(); i++) {
        FileState &before = impl_->file_states[i];
        const FileState now = file_state(impl_->layout.files[i]);
        const bool same_file = now.device == before.device && now.inode == before.inode;
        if (same_file && (now.changed_s != before.changed_s || now.changed_ns != before.changed_ns)) {
            before = now;
            return impl_->layout.files[i];
        }
    }
    return {};
}

void Engine::request_stop() { impl_->stop = true; }
void Engine::close_trace() {
    if (impl_->routes != nullptr) {
        impl_->routes->close();
    }
}

void Engine::clear_stop() { impl_->stop = false; }
bool Engine::stop_requested() const { return impl_->stop; }

EngineStats Engine::stats() const {
    EngineStats stats;
    stats.prompt_tokens = impl_->prompt_tokens;
    stats.decode_tokens = impl_->decode_tokens;
    stats.prompt_ms = impl_->prompt_ms;
    stats.decode_ms = impl_->decode_ms;
    stats.ttft_ms = impl_->ttft_ms;
    stats.load_ms = impl_->load_ms;
    if (impl_->store != nullptr) {
        stats.store = impl_->store->stats();
        stats.arena = impl_->store->arena_use();
    }
    stats.memory = process_memory();
    if (impl_->pager != nullptr) {
        add_page_stats(stats, *impl_->pager, impl_->read_bytes_at_load);
    }
    if (impl_->watcher != nullptr) {
        stats.pressure = impl_->watcher->figures();
        stats.pressure.peak_rss_bytes = std::max(stats.pressure.peak_rss_bytes, stats.memory.rss_bytes);
    }
    return stats;
}

} // namespace larder
