#include "engine/planner.h"

#include "compute/compute.h"
#include "engine/address_needs.h"
#include "engine/llama_log.h"
#include "engine/measure.h"
#include "engine/params.h"
#include "machine/address_limits.h"
#include "machine/memory_claims.h"
#include "machine/memory_lock.h"

#include <malloc.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace larder {

namespace {

EngineOptions with_context(const EngineOptions &resolved, uint32_t ctx_tokens) {
    EngineOptions options = resolved;
    options.ctx_tokens = ctx_tokens;
    return options;
}

uint64_t heap_in_use() {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

// Opens the layout, and tells how much of the heap its metadata take: most of what it takes at all, where the
// vocabulary is large.
ModelLayout open_layout_measured(const std::string &path, uint64_t &metadata_bytes) {
    const uint64_t before = heap_in_use();
    ModelLayout layout = open_layout(path);
    const uint64_t with_layout = heap_in_use();
    const ModelLayout all_but_metadata = layout; // these are shared
    const uint64_t others = heap_in_use() - with_layout;
    metadata_bytes = with_layout > before + others ? with_layout - before - others : 0;
    return layout;
}

} // namespace

class Planner::Impl {
  public:
    explicit Impl(const EngineOptions &wanted) {
        capture_llama_log(wanted.verbose);
        llama_backend_init();
        expert_buffer_type(); // registered before the first model
        layout = open_layout_measured(wanted.model_path, held_.metadata_bytes);
        options = resolve(wanted, layout.context_length);
        machine = probe_memory("", other_claims());
        if (address_limits().any()) { // to know what they leave, a context has to be measured
            check_context_can_be_measured(options.ctx_tokens, budget_of(options.plan, machine));
            machine = within_address_limits(machine, layout, options);
        }
    }

    PlannedRun plan() {
        if (machine.ulimit.empty()) { // else it has been measured already, to know what the limit leaves
            check_context_can_be_measured(options.ctx_tokens, machine.usable_bytes); // who asks has no budget to keep
        }
        return options.kernels ? plan_with(*options.kernels) : choose_kernels();
    }

    void check_lock(const PlannedRun &planned) const {
        const std::optional<uint64_t> limit_bytes = options.lock_memory ? lock_limit() : std::nullopt;
        if (limit_bytes) {
            EngineOptions chosen = with_ubatch(options, planned.memory.ubatch_tokens);
            chosen.kernels = planned.kernels;
            check_may_lock(*limit_bytes, planned_bytes(planned.memory) + planned.memory.fixed.transient,
                           addresses_beside_the_plan(layout, chosen).writable);
        }
    }

    FixedBytes least(uint32_t ctx_tokens) {
        const auto known = least_of_context_.find(ctx_tokens);
        if (known != least_of_context_.end()) {
            return known->second;
        }
        const EngineOptions wanted = with_context(options, ctx_tokens);
        check_context_can_be_measured(ctx_tokens, machine.usable_bytes);
        if (!least_) {
            check_kernels(layout, least_kernels());
            least_ = measure(layout, least_kernels());
        }
        const FixedBytes fixed = fixed_of(*least_, with_ubatch(wanted, least_ubatch(ctx_tokens)));
        least_of_context_[ctx_tokens] = fixed;
        return fixed;
    }

    [[nodiscard]] uint32_t least_ubatch(uint32_t ctx_tokens) const {
        return options.ubatch_tokens > 0 ? std::min(options.ubatch_tokens, ctx_tokens)
                                         : ubatch_candidates(ctx_tokens).back();
    }
    [[nodiscard]] Kernels least_kernels() const { return options.kernels.value_or(Kernels::plain); }

    ModelLayout layout;
    EngineOptions options; // resolved
    Machine machine;
    std::unique_ptr<Placement> placement; // of the latest plan

  private:
    PlannedRun plan_with(Kernels wanted) {
        check_kernels(layout, wanted);
        Measurement measured = measure(layout, wanted);
        try {
            return plan_with(measured);
        } catch (const Error &) {
            if (wanted == least_kernels()) {
                least_ = std::move(measured); // who is refused asks for it next
            }
            throw;
        }
    }

    PlannedRun plan_with(Measurement &measured) {
        const auto with_tokens = [&](uint32_t tokens) { return fixed_of(measured, with_ubatch(options, tokens)); };
        const MemoryPlan plan = choose_ubatch(options.ubatch_tokens > 0 ? std::vector{options.ubatch_tokens}
                                                                        : ubatch_candidates(options.ctx_tokens),
                                              with_tokens, layout, machine, options.plan);
        placement = std::move(measured.placement);
        measured.model.reset();
        malloc_trim(0); // what the measurement used goes back before the weights come
        return {plan, measured.kernels, options.ctx_tokens, options.threads};
    }

    // None where there is no room, or no such kernel: another path may have what it needs.
    std::optional<PlannedRun> plan_if_it_fits(Kernels wanted) {
        try {
            return plan_with(wanted);
        } catch (const Error &) {
            malloc_trim(0);
            return std::nullopt;
        }
    }

    // Repacking a slice takes as long as some tens of products with it, so it pays where slices stay; resident matrices
    // always do (docs/kernels.md).
    PlannedRun choose_kernels() {
        const uint64_t most = budget_of(options.plan, machine);
        const auto repacked = most >= layout.routed_bytes ? plan_if_it_fits(Kernels::repacked) : std::nullopt;
        if (repacked && holds_all_experts(layout, repacked->memory)) {
            return *repacked;
        }
        const auto mixed = plan_if_it_fits(Kernels::mixed);
        return mixed ? *mixed : plan_with(Kernels::plain);
    }

    // What the process holds without a context is what it was with the first model: freeing one leaves a little behind.
    FixedBytes fixed_of(const Measurement &measured, const EngineOptions &wanted) {
        if (held_.rss_bytes == 0) {
            held_.rss_bytes = measured.rss_bytes;
        }
        return measure_context(measured, layout, wanted, held_);
    }

    HeldBefore held_;
    std::optional<Measurement> least_;
    std::map<uint32_t, FixedBytes> least_of_context_;
};

Planner::Planner(const EngineOptions &options) : impl_(std::make_unique<Impl>(options)) {}
Planner::~Planner() = default;

const ModelLayout &Planner::layout() const { return impl_->layout; }
const Machine &Planner::machine() const { return impl_->machine; }
const EngineOptions &Planner::options() const { return impl_->options; }
PlannedRun Planner::plan() { return impl_->plan(); }
void Planner::check_lock(const PlannedRun &planned) const { impl_->check_lock(planned); }
FixedBytes Planner::least(uint32_t ctx_tokens) { return impl_->least(ctx_tokens); }
uint32_t Planner::least_ubatch(uint32_t ctx_tokens) const { return impl_->least_ubatch(ctx_tokens); }
Kernels Planner::least_kernels() const { return impl_->least_kernels(); }
std::unique_ptr<Placement> Planner::take_placement() { return std::move(impl_->placement); }
ModelLayout Planner::take_layout() { return std::move(impl_->layout); }

} // namespace larder
