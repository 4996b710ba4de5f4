// A target and a draft model in one process, as in speculative decoding: planned together, both stream experts, and
// their steps alternate. Prints JSON: a digest of each model's logits, and the memory of the process.
//
//   two_models TARGET DRAFT BUDGET_BYTES PROMPT_TOKENS DECODED_TOKENS
#include "base/error.h"
#include "machine/process.h"
#include "machine/process_memory.h"
#include "runtime/runtime.h"
#include "support/greedy_walk.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace larder;
using larder::test::GreedyWalk;

ModelSpec spec_of(const char *path) {
    ModelSpec spec;
    spec.path = path;
    spec.kernels = Kernels::plain;
    spec.context.ctx_tokens = 256;
    spec.context.ubatch_tokens = 32;
    spec.context.batch_tokens = 32;
    spec.context.threads = 2;
    return spec;
}

nlohmann::json figures_of(const LoadedModel &model, const GreedyWalk &walk) {
    const StoreStats stats = model.store_stats();
    return {{"logits", walk.digest()},
            {"evictions", stats.evictions},
            {"misses", stats.expert_misses},
            {"arena_bytes", model.plan().arena_bytes},
            {"routed_bytes", model.layout().routed_bytes}};
}

int run(char **argv) {
    RuntimeOptions options;
    options.plan.budget_bytes = std::stoull(argv[3]);
    const std::unique_ptr<Runtime> runtime = Runtime::prepare({spec_of(argv[1]), spec_of(argv[2])}, options);
    const std::unique_ptr<LoadedModel> target = runtime->load(0);
    const std::unique_ptr<AttachedContext> target_context = target->make_context();
    const std::unique_ptr<LoadedModel> draft = runtime->load(1); // after the target, as in llama.cpp's server
    const std::unique_ptr<AttachedContext> draft_context = draft->make_context();
    GreedyWalk of_target(*target_context);
    GreedyWalk of_draft(*draft_context);
    of_target.prefill(std::stoul(argv[4]));
    of_draft.prefill(std::stoul(argv[4]));
    for (unsigned long i = 0; i < std::stoul(argv[5]); i++) {
        of_draft.decode();
        of_target.decode();
    }
    const nlohmann::json found = {{"target", figures_of(*target, of_target)},
                                  {"draft", figures_of(*draft, of_draft)},
                                  {"planned_bytes", planned_bytes(runtime->plan().memory)},
                                  {"peak_rss_bytes", process_memory().peak_rss_bytes}};
    std::printf("%s\n", found.dump(2).c_str());
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    try {
        larder::set_up_process(argv);
        return run(argv);
    } catch (const larder::Error &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return larder::exit_code(error.kind());
    }
}
