// A model loaded by llama.cpp's own loader.
#include "lab/residency/hosts.h"
#include "lab/residency/mapped_host.h"

#include "base/error.h"
#include "compute/compute.h"
#include "machine/threads.h"
#include "runtime/address_needs.h"
#include "runtime/llama_log.h"
#include "runtime/look.h"
#include "runtime/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace larder {

namespace {

Kernels kernels_of(const OpenOptions &options) {
    const Kernels kernels = options.model.kernels.value_or(Kernels::plain);
    if (kernels == Kernels::fast) {
        throw Error(ErrorKind::usage, "stock llama.cpp has no kernels 'fast'", "use plain, mixed or repacked");
    }
    if (options.model.observer != nullptr) {
        throw Error(ErrorKind::usage, "stock llama.cpp does not tell its routes", "leave out --trace");
    }
    return kernels;
}

ModelHandle load_as_stock(const std::string &path, Kernels kernels) {
    llama_model_params params = model_params(repacks_resident(kernels));
    const std::array<llama_model_tensor_buft_override, 2> experts_plain = {
        {{expert_tensor_pattern, plain_buffer_type()}, {nullptr, nullptr}}};
    if (!repacks_experts(kernels) && repacks_resident(kernels)) {
        params.tensor_buft_overrides = experts_plain.data();
    }
    const LoggedErrors logged;
    ModelHandle model(llama_model_load_from_file(path.c_str(), params));
    if (model == nullptr) {
        throw llama_refused(ErrorKind::model, fmt::format("{}: llama.cpp cannot load the model", path), logged);
    }
    return model;
}

class StockHost final : public MappedHost {
  public:
    StockHost(const OpenOptions &options, ModelLayout layout, ContextSpec spec)
        : MappedHost(std::move(layout), std::move(spec), kernels_of(options)) {
        check_threads_can_start(threads_to_start(std::max(spec_.threads, spec_.threads_batch), options.runtime.reader));
        {
            Look look({&layout_});
            look.model(0, kernels_);
            look.context(0, spec_);
        }
        layout_.metadata.reset();
        model_ = load_as_stock(options.model.path, kernels_);
        make_own_context();
    }

    [[nodiscard]] std::string_view residency() const override { return "stock"; }
    [[nodiscard]] StepObserver *observer() const override { return nullptr; }
    void step_ended(uint32_t /*n_token*/) override {}
    void add_figures(RunFigures & /*figures*/) const override {}
};

} // namespace

std::unique_ptr<ModelHost> open_stock_host(const OpenOptions &options) {
    start_llama(options.runtime.verbose);
    ModelLayout layout = open_layout(options.model.path);
    ContextSpec spec = resolve_without_plan(options.model.context, layout);
    return std::make_unique<StockHost>(options, std::move(layout), std::move(spec));
}

} // namespace larder
