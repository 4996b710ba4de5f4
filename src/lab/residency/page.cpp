// Experts in a file mapping.
#include "lab/residency/hosts.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/file_identity.h"
#include "compute/compute.h"
#include "lab/residency/mapped_host.h"
#include "lab/residency/page_load.h"
#include "machine/threads.h"
#include "runtime/address_needs.h"
#include "runtime/llama_log.h"
#include "runtime/loaded_model.h"
#include "runtime/look.h"
#include "runtime/params.h"
#include "runtime/placement.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <utility>

namespace larder {

namespace {

// The callback for llama_model_set_tensor_data_t.
void on_tensor(ggml_tensor *tensor, void *load) { static_cast<PageLoad *>(load)->add(tensor); }

void refuse_what_page_cannot_do(const OpenOptions &options, const ModelLayout &layout) {
    if (options.model.kernels && repacks_experts(*options.model.kernels)) {
        throw Error(ErrorKind::usage,
                    fmt::format("residency 'page' with kernels '{}': repacked experts are no longer in the file, and "
                                "dropped memory that is not a file's comes back as zeros",
                                to_string(*options.model.kernels)),
                    "use --kernels plain or mixed");
    }
    if (layout.expert_tensors.empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} is a dense model: residency 'page' is about experts", layout.files.front()),
                    "use --residency arena or stock");
    }
}

// A sweep follows each step, so a step must be one ubatch.
ContextSpec context_of(const OpenOptions &options, const ModelLayout &layout) {
    ContextSpec spec = resolve_without_plan(options.model.context, layout);
    spec.batch_tokens = spec.ubatch_tokens;
    return spec;
}

nlohmann::ordered_json page_json(const PagerStats &page, uint64_t disk_read_bytes) {
    auto samples = nlohmann::ordered_json::array();
    for (const RssSample &sample : page.rss) {
        samples.push_back({{"tokens", sample.n_token}, {"rss_bytes", sample.rss_bytes}});
    }
    return {{"evict", to_string(page.options.evict)},  {"hot_tokens", page.options.hot_tokens},
            {"mapped_bytes", page.mapped_bytes},       {"sweeps", page.sweeps},
            {"experts_dropped", page.experts_dropped}, {"bytes_dropped", page.bytes_dropped},
            {"bytes_reread", page.bytes_reread},       {"major_faults", page.major_faults},
            {"disk_read_bytes", disk_read_bytes},      {"rss_over_time", std::move(samples)}};
}

class PageHost final : public MappedHost {
  public:
    PageHost(const OpenOptions &options, const PagerOptions &pager, ModelLayout layout, ContextSpec spec)
        : MappedHost(std::move(layout), std::move(spec), options.model.kernels.value_or(Kernels::plain)),
          observer_(options.model.observer) {
        refuse_what_page_cannot_do(options, layout_);
        check_threads_can_start(threads_to_start(std::max(spec_.threads, spec_.threads_batch), options.runtime.reader));
        if (observer_ != nullptr) {
            observer_->model_opens(layout_);
        }
        pager_ = std::make_unique<ExpertPager>(layout_, pager);
        bind_experts();
        try {
            load(options.runtime);
            make_own_context();
        } catch (...) {
            unload(); // before the pager, whose memory the model uses
            throw;
        }
        read_bytes_at_load_ = process_memory().read_bytes;
    }
    ~PageHost() override { unload(); }
    PageHost(const PageHost &) = delete;
    PageHost &operator=(const PageHost &) = delete;

    [[nodiscard]] std::string_view residency() const override { return "page"; }
    [[nodiscard]] StepObserver *observer() const override { return observer_; }
    void step_ended(uint32_t n_token) override {
        pager_->end_evaluation(n_token);
        for (size_t i = 0; i < layout_.files.size(); i++) { // what is dropped is read again from there
            const std::optional<FileIdentity> now = identity_of(layout_.files[i]);
            if (!now || may_hold_other_bytes(layout_.identities[i], *now, true)) {
                throw file_changed(layout_.files[i]);
            }
        }
    }

    void add_figures(RunFigures &figures) const override {
        const PagerStats page = pager_->stats();
        const uint64_t disk_read_bytes = figures.memory.read_bytes - read_bytes_at_load_;
        figures.store.expert_hits = page.expert_hits;
        figures.store.expert_misses = page.expert_misses;
        figures.store.evictions = page.slices_dropped;
        figures.bytes_dropped = page.bytes_dropped;
        figures.bytes_reread = page.bytes_reread;
        figures.residency = page_json(page, disk_read_bytes);
        const uint64_t accesses = page.expert_hits + page.expert_misses;
        const double hit_rate =
            accesses > 0 ? static_cast<double>(page.expert_hits) / static_cast<double>(accesses) : 0;
        figures.residency_line = fmt::format(" | hit rate {:.1f} %, {} dropped, {} read", 100 * hit_rate,
                                             format_bytes(page.bytes_dropped), format_bytes(disk_read_bytes));
    }

  private:
    void bind_experts() {
        experts_ = std::make_unique<MappedExperts>(
            layout_, [this](const ExpertTensor &tensor) { return pager_->address_of(tensor); },
            [this](uint32_t moe_layer, uint32_t top_k, std::span<const int32_t> experts) {
                pager_->routed(moe_layer, top_k, experts);
                if (observer_ != nullptr) {
                    observer_->routed(moe_layer, top_k, experts);
                }
            });
    }

    void load(const RuntimeOptions &options) {
        PlacePatterns places;
        {
            Look look({&layout_});
            places = look.model(0, kernels_).places;
            look.context(0, spec_);
        }
        const Placement placement(std::move(places), mapped_buffer_type());
        const std::unique_ptr<Reader> reader = open_reader(layout_.files, options.reader);
        PageLoad load(layout_, *reader, *experts_, *pager_);
        llama_model_params params = model_params(false);
        params.tensor_buft_overrides = placement.overrides();
        const LoggedErrors logged;
        model_.reset(llama_model_init_from_user(layout_.metadata.get(), on_tensor, &load, params));
        if (model_ == nullptr) {
            throw llama_refused(ErrorKind::model,
                                fmt::format("{}: llama.cpp cannot build the model", layout_.files.front()), logged,
                                "free some memory: the file is mapped twice");
        }
        load.load(options);
        layout_.metadata.reset();
        malloc_trim(0);
    }

    StepObserver *observer_;
    std::unique_ptr<ExpertPager> pager_;
    std::unique_ptr<MappedExperts> experts_;
    uint64_t read_bytes_at_load_ = 0; // bytes that the process had read from storage when loading was finished
};

} // namespace

std::unique_ptr<ModelHost> open_page_host(const OpenOptions &options, const PagerOptions &pager) {
    start_llama(options.runtime.verbose);
    mapped_buffer_type(); // registered before the first model
    ModelLayout layout = open_layout(options.model.path);
    ContextSpec spec = context_of(options, layout);
    return std::make_unique<PageHost>(options, pager, std::move(layout), std::move(spec));
}

} // namespace larder
