// engine_impl.h — what an Engine holds, in the order it must be destroyed in reverse (private to engine).
#pragma once

#include "compute/compute.h"
#include "engine/engine.h"
#include "engine/llama_handles.h"
#include "engine/placement.h"
#include "engine/route_recorder.h"
#include "machine/memory_claims.h"
#include "pager/pager.h"
#include "pressure/pressure.h"

#include "chat.h"

#include <atomic>
#include <optional>

namespace larder {

// What tells that a file was written to.
struct FileState {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t changed_s = 0; // modification time
    int64_t changed_ns = 0;
};
FileState file_state(const std::string &path); // zeros if there is no such file

class Engine::Impl {
  public:
    EngineOptions options; // resolved
    ModelLayout layout;
    MemoryPlan plan;
    OwnClaim claim;                       // of that plan
    Kernels kernels = Kernels::plain;     // chosen
    std::unique_ptr<Placement> placement; // null for stock residency
    std::unique_ptr<Reader> reader;
    std::unique_ptr<ExpertStore> store;    // null for a dense model and for stock residency
    std::unique_ptr<RouteRecorder> routes; // null if no trace is wanted
    std::unique_ptr<ExpertBinding> binding;
    std::unique_ptr<ExpertPager> pager; // this and the next for page residency only
    std::unique_ptr<MappedExperts> mapped_experts;
    uint64_t read_bytes_at_load = 0; // what the process had read from storage when a page residency was loaded
    ModelHandle model;
    ContextHandle context;
    common_chat_templates_ptr chat_templates;
    // Null without a store. It ends before anything is freed: the kernel's figures are late, and for a moment what the
    // process has given back would look like a neighbour's.
    std::unique_ptr<PressureWatcher> watcher;
    std::atomic<bool> stop{false};

    // Written by the thread that drives the session, read by stats() from any.
    std::atomic<uint64_t> prompt_tokens{0};
    std::atomic<uint64_t> decode_tokens{0};
    std::atomic<double> prompt_ms{0};
    std::atomic<double> decode_ms{0};
    std::atomic<double> ttft_ms{0};
    double load_ms = 0;
    std::vector<FileState> file_states; // of layout.files, when they were opened

    void make_the_plan();
    void make_the_store();
    void open_arena();
    void open_page();
    void watch_pressure();
    void open_stock();
    void remember_file_states();
    void create_context();
    OnRoute record_routes();
    void refuse_text_too_long(uint64_t bytes) const; // throws Error(usage)
    [[nodiscard]] const llama_vocab *vocab() const { return llama_model_get_vocab(model.get()); }

    // llama.cpp's abort callback: a read failed, or the user wants to stop.
    static bool abort_requested(void *impl);
    // The cause of a failed decode, as an Error to throw; none if it was the user's stop.
    std::optional<Error> take_failure();
};

} // namespace larder
