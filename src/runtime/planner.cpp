#include "runtime/planner.h"

#include "base/bytes.h"
#include "base/check.h"
#include "compute/compute.h"
#include "machine/memory_claims.h"
#include "machine/memory_lock.h"
#include "machine/process_memory.h"
#include "runtime/address_needs.h"
#include "runtime/fixed_bytes.h"
#include "runtime/llama_log.h"
#include "runtime/look.h"
#include "runtime/params.h"

#include <fmt/format.h>
#include <malloc.h>

#include "llama.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace larder {

namespace {

constexpr uint64_t cell_bytes = 64; // llama.cpp's list of KV cells: about 50 measured

uint64_t heap_in_use() {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

// Opens the layout and adds the heap that its metadata takes to `metadata_bytes`. With a large vocabulary this is most
// of the heap that a model takes.
ModelLayout open_layout_measured(const std::string &path, uint64_t &metadata_bytes) {
    const uint64_t before = heap_in_use();
    ModelLayout layout = open_layout(path);
    const uint64_t with_layout = heap_in_use();
    const ModelLayout all_but_metadata = layout; // copies of the layout share the metadata
    const uint64_t others = heap_in_use() - with_layout;
    metadata_bytes += with_layout > before + others ? with_layout - before - others : 0;
    return layout;
}

// The Look allocates llama.cpp's list of KV cells. Throws Error(budget) if that list, together with the memory of the
// process, exceeds `most_bytes`.
void check_contexts_can_be_measured(uint64_t ctx_tokens, uint64_t most_bytes) {
    const uint64_t cells = ctx_tokens * cell_bytes;
    // A list that is a small part of the budget is not the cause of a refusal. The plan then reports the cause.
    if (cells > most_bytes / 8 && process_memory().rss_bytes + cells > most_bytes) {
        throw Error(
            ErrorKind::budget,
            fmt::format("a context of {} tokens (-c) does not fit into {}", ctx_tokens, format_bytes(most_bytes)),
            {{RemedyKind::shorter_context, "lower -c"}, {RemedyKind::larger_budget, "raise --ram"}});
    }
}

// The size classes of all models, one model after the other.
ModelLayout all_classes(const std::vector<ModelLayout> &layouts) {
    ModelLayout all;
    for (const ModelLayout &layout : layouts) {
        all.size_classes.insert(all.size_classes.end(), layout.size_classes.begin(), layout.size_classes.end());
        all.routed_bytes += layout.routed_bytes;
    }
    return all;
}

} // namespace

class Planner::Impl {
  public:
    Impl(const std::vector<ModelSpec> &wanted, const RuntimeOptions &wanted_options)
        : specs(wanted), options(wanted_options) {
        LARDER_CHECK(!specs.empty());
        start_llama(options.verbose);
        for (ModelSpec &spec : specs) {
            layouts.push_back(open_layout_measured(spec.path, held_.metadata_bytes));
            spec.context = resolve(spec.context, layouts.back().context_length);
        }
        classes_ = all_classes(layouts);
        machine = probe_memory("", other_claims());
        if (address_limits().any()) { // what the limits leave is known only after contexts were measured
            check_contexts_can_be_measured(ctx_tokens(), budget_of(options.plan, machine));
            const std::vector<Kernels> kernels = named_or(Kernels::plain);
            build(kernels);
            machine = within_limits(machine, address_limits(), idle_with(kernels, ubatches_or_largest()));
            measured_for_limits_ = true;
        }
    }

    void refuse_contexts_beyond_budget() const {
        if (options.plan.budget_bytes) {
            check_contexts_can_be_measured(ctx_tokens(), *options.plan.budget_bytes);
        }
    }

    ProcessPlan plan() {
        if (!measured_for_limits_) {
            // The limit is the machine's memory, not the budget, so that a refusal can list the parts.
            check_contexts_can_be_measured(ctx_tokens(), machine.usable_bytes);
        }
        const bool all_named =
            std::ranges::all_of(specs, [](const ModelSpec &spec) { return spec.kernels.has_value(); });
        return all_named ? plan_with(named_or(Kernels::plain)) : choose_kernels();
    }

    void check_lock(const ProcessPlan &plan) {
        const std::optional<uint64_t> limit_bytes = options.lock_memory ? lock_limit() : std::nullopt;
        if (!limit_bytes) {
            return;
        }
        std::vector<Kernels> kernels;
        std::vector<uint32_t> ubatches;
        for (const PlannedModel &model : plan.models) {
            kernels.push_back(model.kernels);
            ubatches.push_back(model.context.ubatch_tokens);
        }
        build(kernels);
        check_may_lock(*limit_bytes, planned_bytes(plan.memory) + plan.memory.fixed.transient,
                       idle_with(kernels, ubatches).writable);
    }

    FixedBytes least(uint32_t ctx_tokens) {
        LARDER_CHECK(specs.size() == 1);
        const auto known = least_of_context_.find(ctx_tokens);
        if (known != least_of_context_.end()) {
            return known->second;
        }
        check_contexts_can_be_measured(ctx_tokens, machine.usable_bytes);
        check_kernels(layouts.front(), least_kernels());
        build({least_kernels()});
        ContextSpec context = specs.front().context;
        context.ctx_tokens = ctx_tokens;
        const FixedBytes fixed =
            fixed_of_all({fixed_of(0, least_kernels(), with_ubatch(context, least_ubatch(ctx_tokens)))});
        least_of_context_[ctx_tokens] = fixed;
        return fixed;
    }

    [[nodiscard]] uint32_t least_ubatch(uint32_t ctx_tokens) const {
        const uint32_t named = specs.front().context.ubatch_tokens;
        return named > 0 ? std::min(named, ctx_tokens) : ubatch_candidates(ctx_tokens).back();
    }
    [[nodiscard]] Kernels least_kernels() const { return specs.front().kernels.value_or(Kernels::plain); }

    std::vector<ModelSpec> specs; // with resolved contexts
    RuntimeOptions options;
    std::vector<ModelLayout> layouts;
    Machine machine;
    std::vector<PlacePatterns> places; // of the latest plan

  private:
    [[nodiscard]] uint64_t ctx_tokens() const {
        uint64_t tokens = 0;
        for (const ModelSpec &spec : specs) {
            tokens += spec.context.ctx_tokens;
        }
        return tokens;
    }
    [[nodiscard]] uint32_t threads() const {
        uint32_t most = 0;
        for (const ModelSpec &spec : specs) {
            most = std::max({most, spec.context.threads, spec.context.threads_batch});
        }
        return most;
    }
    [[nodiscard]] std::vector<Kernels> named_or(Kernels kernels) const {
        std::vector<Kernels> all;
        for (const ModelSpec &spec : specs) {
            all.push_back(spec.kernels.value_or(kernels));
        }
        return all;
    }
    [[nodiscard]] std::vector<uint32_t> ubatches_or_largest() const {
        std::vector<uint32_t> all;
        for (const ModelSpec &spec : specs) {
            all.push_back(spec.context.ubatch_tokens > 0 ? spec.context.ubatch_tokens
                                                         : ubatch_candidates(spec.context.ctx_tokens).front());
        }
        return all;
    }

    // Makes the child hold all models, built for these kernels.
    void build(const std::vector<Kernels> &kernels) {
        if (look_ == nullptr) {
            std::vector<const ModelLayout *> all;
            for (const ModelLayout &layout : layouts) {
                all.push_back(&layout);
            }
            look_ = std::make_unique<Look>(std::move(all));
        }
        built_.resize(specs.size());
        facts_.resize(specs.size());
        for (size_t i = 0; i < specs.size(); i++) {
            if (built_[i] != kernels[i]) {
                facts_[i] = look_->model(i, kernels[i]);
                built_[i] = kernels[i];
                contexts_.clear();
            }
        }
        // Measured once, with the first builds: freeing a model does not return all of its memory.
        if (held_.process_bytes == 0) {
            held_.process_bytes = look_->held_bytes();
        }
    }

    const ContextFacts &context_facts_of(size_t i, const ContextSpec &context) {
        for (const auto &[index, spec, facts] : contexts_) {
            if (index == i && spec == context) {
                return facts;
            }
        }
        contexts_.push_back({i, context, look_->context(i, context)});
        return contexts_.back().facts;
    }

    FixedBytes fixed_of(size_t i, Kernels kernels, const ContextSpec &context) {
        return fixed_of_model(layouts[i], kernels, facts_[i], context, context_facts_of(i, context));
    }
    [[nodiscard]] FixedBytes fixed_of_all(const std::vector<FixedBytes> &models) const {
        FixedBytes fixed = fixed_of_process(models, held_, threads());
        fixed.overhead += options.beside_bytes;
        return fixed;
    }

    // The context of spec i, with this ubatch if the spec names none.
    [[nodiscard]] ContextSpec context_with(size_t i, uint32_t ubatch_tokens) const {
        const ContextSpec &context = specs[i].context;
        return context.ubatch_tokens > 0 ? context : with_ubatch(context, ubatch_tokens);
    }
    std::vector<FixedBytes> fixed_with(const std::vector<Kernels> &kernels, uint32_t ubatch_tokens) {
        std::vector<FixedBytes> fixed;
        for (size_t i = 0; i < specs.size(); i++) {
            fixed.push_back(fixed_of(i, kernels[i], context_with(i, ubatch_tokens)));
        }
        return fixed;
    }
    // Candidates for the longest context. A shorter context uses those that fit it.
    [[nodiscard]] std::vector<uint32_t> candidates() const {
        uint32_t longest = 0;
        for (const ModelSpec &spec : specs) {
            longest = std::max(longest, spec.context.ubatch_tokens > 0 ? 0 : spec.context.ctx_tokens);
        }
        return longest > 0 ? ubatch_candidates(longest) : std::vector{specs.front().context.ubatch_tokens};
    }

    ProcessPlan plan_with(const std::vector<Kernels> &kernels) {
        for (size_t i = 0; i < specs.size(); i++) {
            check_kernels(layouts[i], kernels[i]);
        }
        build(kernels);
        ProcessPlan plan;
        plan.memory = choose_ubatch(
            candidates(), [&](uint32_t tokens) { return fixed_of_all(fixed_with(kernels, tokens)); }, classes_, machine,
            options.plan);
        const std::vector<FixedBytes> fixed = fixed_with(kernels, plan.memory.ubatch_tokens);
        size_t next_class = 0;
        places.clear();
        for (size_t i = 0; i < specs.size(); i++) {
            PlannedModel model;
            model.fixed = fixed[i];
            model.kernels = kernels[i];
            model.context = context_with(i, plan.memory.ubatch_tokens);
            for (const SizeClass &size_class : layouts[i].size_classes) {
                model.slots.push_back(plan.memory.slots[next_class++]);
                model.arena_bytes += model.slots.back() * size_class.slot_bytes;
            }
            model.floor_bytes = floor_bytes(layouts[i]);
            plan.models.push_back(std::move(model));
            places.push_back(facts_[i].places);
        }
        return plan;
    }

    // Empty if there is no room or no such kernel. Other kernels may then be tried.
    std::optional<ProcessPlan> plan_if_it_fits(const std::vector<Kernels> &kernels) {
        try {
            return plan_with(kernels);
        } catch (const Error &) {
            return std::nullopt;
        }
    }

    // Repacking a slice takes as long as some tens of multiplications with it. So it pays only for slices that stay
    // cached, and always for resident matrices (docs/kernels.md).
    ProcessPlan choose_kernels() {
        const uint64_t most = budget_of(options.plan, machine);
        if (most >= classes_.routed_bytes) {
            const std::optional<ProcessPlan> repacked = plan_if_it_fits(named_or(Kernels::repacked));
            if (repacked && holds_all_experts(classes_, repacked->memory)) {
                return *repacked;
            }
        }
        const std::optional<ProcessPlan> mixed = plan_if_it_fits(named_or(Kernels::mixed));
        return mixed ? *mixed : plan_with(named_or(Kernels::plain));
    }

    // Addresses that will be mapped besides the planned memory, and never touched.
    IdleAddresses idle_with(const std::vector<Kernels> &kernels, const std::vector<uint32_t> &ubatches) {
        IdleAddresses idle;
        uint64_t routed_bytes = 0;
        for (size_t i = 0; i < specs.size(); i++) {
            LARDER_CHECK(built_[i] == kernels[i]);
            const IdleAddresses of_context = context_facts_of(i, with_ubatch(specs[i].context, ubatches[i])).idle;
            idle.writable = std::max(idle.writable, of_context.writable) + facts_[i].aliased_bytes;
            idle.all = std::max(idle.all, of_context.all) + facts_[i].aliased_bytes;
            routed_bytes += layouts[i].routed_bytes;
        }
        return with_what_is_to_come(idle, threads(), options.reader, routed_bytes);
    }

    struct KnownContext {
        size_t index = 0;
        ContextSpec spec;
        ContextFacts facts;
    };

    ModelLayout classes_;
    HeldBytes held_;
    std::unique_ptr<Look> look_;
    std::vector<std::optional<Kernels>> built_; // by model: the kernels of the child's current build
    std::vector<ModelFacts> facts_;
    std::vector<KnownContext> contexts_;
    std::map<uint32_t, FixedBytes> least_of_context_;
    bool measured_for_limits_ = false;
};

Planner::Planner(const std::vector<ModelSpec> &specs, const RuntimeOptions &options)
    : impl_(std::make_unique<Impl>(specs, options)) {}
Planner::~Planner() = default;

const ModelLayout &Planner::layout(size_t model) const { return impl_->layouts.at(model); }
const Machine &Planner::machine() const { return impl_->machine; }
const ModelSpec &Planner::spec(size_t model) const { return impl_->specs.at(model); }
const PlanOptions &Planner::plan_options() const { return impl_->options.plan; }
void Planner::refuse_contexts_beyond_budget() const { impl_->refuse_contexts_beyond_budget(); }
ProcessPlan Planner::plan() { return impl_->plan(); }
void Planner::check_lock(const ProcessPlan &plan) { impl_->check_lock(plan); }
FixedBytes Planner::least(uint32_t ctx_tokens) { return impl_->least(ctx_tokens); }
uint32_t Planner::least_ubatch(uint32_t ctx_tokens) const { return impl_->least_ubatch(ctx_tokens); }
Kernels Planner::least_kernels() const { return impl_->least_kernels(); }
std::vector<PlacePatterns> Planner::take_places() { return std::move(impl_->places); }
std::vector<ModelLayout> Planner::take_layouts() { return std::move(impl_->layouts); }

} // namespace larder
