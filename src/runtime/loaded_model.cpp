// Loads a model, and holds the state that its contexts share during a step.
#include "runtime/loaded_model.h"

#include "base/check.h"
#include "base/file_identity.h"
#include "runtime/attached_context.h"
#include "runtime/llama_log.h"
#include "runtime/params.h"
#include "runtime/resident_weights.h"
#include "runtime/weight_reads.h"

#include "llama.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace larder {

namespace {

constexpr const char *take_file_again = "get the file again, or a conversion made for llama.cpp";

struct LoadTargets {
    ResidentWeights weights;
    ExpertBinding *binding;
    std::string unbound; // first expert tensor that the layout does not contain
};

// llama_model_set_tensor_data_t: llama.cpp calls it for each tensor while it builds the model. Must not throw.
void on_tensor(ggml_tensor *tensor, void *user) {
    auto *targets = static_cast<LoadTargets *>(user);
    if (ggml_backend_buffer_get_type(tensor->buffer) != expert_buffer_type()) {
        targets->weights.add(tensor);
    } else if ((targets->binding == nullptr || !targets->binding->bind(tensor)) && targets->unbound.empty()) {
        targets->unbound = tensor->name;
    }
}

} // namespace

LoadedModel::Impl::Impl(Budget &budget, size_t index, const ModelLayout &of, const ModelSpec &spec,
                        const PlannedModel &plan, const Placement &placement, const RuntimeOptions &options)
    : layout(of), planned(plan), observer(spec.observer), identities_(of.identities) {
    if (observer != nullptr) {
        observer->model_opens(layout);
    }
    open_files(options);
    if (!layout.expert_tensors.empty()) {
        open_experts(options);
    }
    member = std::make_unique<Budget::Member>(budget, index, store.get());
    build(placement, options);
}

void LoadedModel::Impl::open_files(const RuntimeOptions &options) {
    // The store never has more reads in flight than slots, and slot indices have 32 bits.
    const auto slots = static_cast<uint32_t>(std::accumulate(planned.slots.begin(), planned.slots.end(), uint64_t{0}));
    ReaderOptions reading = options.reader;
    reading.requests_max = std::max(weight_reads_at_once, slots);
    reader = open_reader(layout.files, reading);
    writes_.emplace(layout.files); // before the check below, so that no write falls between them
    for (uint32_t file = 0; file < layout.files.size(); file++) {
        watched_ =
            watched_ && identity_of(layout.files[file]) == reader->identity(file); // else the path leads elsewhere
        if (may_hold_other_bytes(identities_[file], reader->identity(file), true)) {
            throw file_changed(layout.files[file]);
        }
        identities_[file] = reader->identity(file);
    }
}

void LoadedModel::Impl::open_experts(const RuntimeOptions &options) {
    store = std::make_unique<ExpertStore>(layout, planned.slots, *reader, StoreOptions{options.read_timeout});
    OnRoute on_route;
    if (observer != nullptr) {
        on_route = [this](uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) {
            observer->routed(moe_layer, top_k, experts);
        };
    }
    binding = std::make_unique<ExpertBinding>(
        layout, *store, planned.kernels, std::move(on_route),
        [this](std::span<const int32_t> tokens, int64_t n_token) { tell_unread(tokens, n_token); });
}

void LoadedModel::Impl::build(const Placement &placement, const RuntimeOptions &options) {
    LoadTargets targets{{layout, *reader}, binding.get(), {}};
    llama_model_params params = model_params(false);
    params.tensor_buft_overrides = placement.overrides();
    const LoggedErrors logged;
    model.reset(llama_model_init_from_user(layout.metadata.get(), on_tensor, &targets, params));
    if (model == nullptr) {
        throw llama_refused(
            ErrorKind::model, fmt::format("{}: llama.cpp cannot build the model", layout.files.front()), logged,
            "free some memory, or raise 'ulimit -v', which must allow the addresses of all experts too");
    }
    if (!targets.unbound.empty()) {
        throw Error(ErrorKind::model,
                    fmt::format("{}: expert tensor '{}' does not have the shape the model's settings ask for",
                                layout.files.front(), targets.unbound),
                    take_file_again);
    }
    targets.weights.load(options.progress, options.read_timeout);
}

std::optional<Error> LoadedModel::Impl::changed_file() {
    for (uint32_t file = 0; file < layout.files.size(); file++) {
        const FileIdentity now = reader->identity(file);
        if (now == identities_[file]) {
            continue;
        }
        if (may_hold_other_bytes(identities_[file], now, !watched_ || writes_->may_have_written())) {
            return file_changed(layout.files[file]);
        }
        identities_[file] = now;
    }
    return std::nullopt;
}

Error file_changed(const std::string &path) {
    return {ErrorKind::io, fmt::format("{} was replaced or written to since its metadata were read", path),
            "do not change the file while larder runs; start again"};
}

void LoadedModel::Impl::begin_step(const AttachedContext::Impl &context, UnreadTokens &unread) {
    const std::lock_guard lock(step_mutex_);
    LARDER_CHECK(stepping_ == nullptr);
    stepping_ = &context;
    unread_ = &unread;
    if (store != nullptr) {
        binding->clear_abort();
        context.stop_requested() ? store->request_stop() : store->clear_stop();
    }
}

void LoadedModel::Impl::end_step() {
    const std::lock_guard lock(step_mutex_);
    stepping_ = nullptr;
    unread_ = nullptr;
}

void LoadedModel::Impl::stop_changed(const AttachedContext::Impl &context) {
    const std::lock_guard lock(step_mutex_);
    if (stepping_ == &context && store != nullptr && context.stop_requested()) {
        store->request_stop();
    }
}

// Runs on a compute thread, while the stepping thread waits for the graph.
void LoadedModel::Impl::tell_unread(std::span<const int32_t> tokens, int64_t n_token) noexcept {
    if (unread_ != nullptr && unread_->unread(tokens, n_token)) {
        binding->request_abort();
    }
}

LoadedModel::LoadedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadedModel::~LoadedModel() = default;
llama_model *LoadedModel::get() const { return impl_->model.get(); }
const ModelLayout &LoadedModel::layout() const { return impl_->layout; }
const PlannedModel &LoadedModel::plan() const { return impl_->planned; }
const ReaderInfo &LoadedModel::reader_info() const { return impl_->reader->info(); }
StoreStats LoadedModel::store_stats() const { return impl_->store != nullptr ? impl_->store->stats() : StoreStats{}; }
ArenaUse LoadedModel::arena_use() const { return impl_->store != nullptr ? impl_->store->arena_use() : ArenaUse{}; }

std::unique_ptr<AttachedContext> LoadedModel::make_context() {
    ContextHandle context = larder::make_context(get(), impl_->planned.context, impl_->layout.files.front());
    llama_context *borrowed = context.get();
    return std::make_unique<AttachedContext>(
        std::make_unique<AttachedContext::Impl>(impl_.get(), borrowed, std::move(context)));
}

std::unique_ptr<AttachedContext> LoadedModel::attach(llama_context *context) {
    const ContextSpec &planned = impl_->planned.context;
    const auto check = [](const char *what, uint64_t is, uint64_t is_planned) {
        if (is > is_planned) {
            throw Error(ErrorKind::budget,
                        fmt::format("a context of {} {} was made, but {} were planned", is, what, is_planned),
                        "plan for the context that is made");
        }
    };
    LARDER_CHECK(llama_get_model(context) == get());
    check("tokens", llama_n_ctx(context), planned.ctx_tokens);
    check("tokens a batch", llama_n_batch(context), planned.batch_tokens);
    check("tokens a ubatch", llama_n_ubatch(context), planned.ubatch_tokens);
    check("sequences", llama_n_seq_max(context), planned.sequences);
    return std::make_unique<AttachedContext>(std::make_unique<AttachedContext::Impl>(impl_.get(), context, nullptr));
}

} // namespace larder
