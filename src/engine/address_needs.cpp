#include "engine/address_needs.h"

#include "base/bytes.h"
#include "engine/llama_log.h"
#include "engine/measure.h"
#include "engine/params.h"
#include "machine/cpus.h"
#include "machine/threads.h"

#include "ggml.h"

#include <malloc.h>

#include <algorithm>

namespace larder {
namespace {

constexpr uint32_t own_threads = 4; // which watch memory, touch the arena and take signals; one of llama.cpp's log
constexpr uint32_t read_threads_max = 16;
// What comes after the measurement: the arena's alignment, rings, what the heap rounds up and does not give back.
constexpr uint64_t slack_bytes = 6 * MiB;

} // namespace

uint32_t threads_to_start(const EngineOptions &options) {
    uint32_t threads = std::max(options.threads, options.threads_batch);
    if (threads == 0) {
        threads = usable_cpus().default_threads();
    }
    threads = std::min<uint32_t>(threads, GGML_MAX_N_THREADS) + own_threads - 1; // more are refused later
    if (options.reader.backend == IoBackend::pread) {
        threads += std::min(read_threads_max, options.reader.depth > 0 ? options.reader.depth : default_read_depth);
    }
    return threads;
}

IdleAddresses addresses_beside_the_plan(const ModelLayout &layout, const EngineOptions &resolved) {
    IdleAddresses idle;
    {
        const Measurement measured = measure(layout, resolved.kernels.value_or(Kernels::plain));
        const uint32_t ubatch_tokens =
            resolved.ubatch_tokens > 0 ? resolved.ubatch_tokens : ubatch_candidates(resolved.ctx_tokens).front();
        const ContextHandle context(
            llama_init_from_model(measured.model.get(), context_params(with_ubatch(resolved, ubatch_tokens))));
        if (context == nullptr) {
            throw llama_refused(ErrorKind::engine, "llama.cpp does not accept the context",
                                "check -c, --cache-type-k, --cache-type-v and -fa");
        }
        idle = idle_addresses();
        idle.writable += measured.aliased_bytes;
        idle.all += measured.aliased_bytes;
    }
    malloc_trim(0);
    const uint64_t threads = threads_to_start(resolved);
    // The stacks of those that run already are among the idle addresses.
    const uint64_t to_come = (threads - std::min(threads, threads_running())) * thread_stack_bytes + slack_bytes;
    idle.writable += to_come;
    idle.all += to_come + layout.routed_bytes;
    return idle;
}

Machine within_address_limits(const Machine &machine, const ModelLayout &layout, const EngineOptions &resolved) {
    const AddressLimits limits = address_limits();
    return limits.any() ? within_limits(machine, limits, addresses_beside_the_plan(layout, resolved)) : machine;
}

} // namespace larder
