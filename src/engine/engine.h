// engine.h — a loaded model and its timelines: the whole of larder behind one door. No llama.cpp types here.
//
// Engine::open() does, in this order: read the layout, measure what llama.cpp will allocate (without allocating it),
// make the memory plan (and refuse here, before any weight is read), load the resident weights, allocate the arena,
// create the context. A Session is one conversation: a sequence of tokens, its KV cache, its sampler.
//
// Threads: one thread drives an Engine and its Session; stats() and request_stop() may be called from any thread.
// Errors: Error of any kind from open(). Session calls throw Error(io) when an expert could not be read: what the
// session had cached is dropped then, and the next call starts clean. Units: bytes, tokens, milliseconds where a name
// says _ms.
#pragma once

#include "compute/compute.h"
#include "io/io.h"
#include "layout/layout.h"
#include "machine/process_memory.h"
#include "pager/pager.h"
#include "plan/plan.h"
#include "pressure/pressure.h"
#include "store/store.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

using Token = int32_t;

std::string llama_version(); // of the linked llama.cpp, "0.5.0"

enum class Residency {
    arena, // the product: resident weights in RAM, experts streamed through the arena
    page,  // for comparison: experts in a file mapping, cold ones dropped from it (docs/residency.md)
    stock, // llama.cpp's own loader, everything mapped: what verify compares with
};
std::string_view to_string(Residency residency);
enum class FlashAttention { automatic, on, off };

struct EngineOptions {
    std::string model_path;
    Residency residency = Residency::arena;
    uint32_t ctx_tokens = 0; // 0: the model's own context, at most 4096
    uint32_t sequences = 1;  // that share the context, as llama.cpp's --parallel; a Session uses one
    uint32_t batch_tokens = 2048;
    uint32_t ubatch_tokens = 0; // 0: chosen by the plan, at most 512; without an arena 512
    uint32_t threads = 0;       // 0: the cores that affinity mask and CPU quota leave (machine/cpus.h)
    uint32_t threads_batch = 0; // 0: as threads
    std::string cache_type_k = "f16";
    std::string cache_type_v = "f16";
    FlashAttention flash_attention = FlashAttention::automatic;
    // None: repacked if all experts fit into the arena, else mixed, or plain where that cannot be. Without an arena:
    // plain. Residency::page takes plain and mixed only.
    std::optional<Kernels> kernels;
    bool logits_for_all = false; // keep logits of every token of a batch, not of the last only
    PlanOptions plan;
    ReaderOptions reader;
    PagerOptions pager;       // of Residency::page
    bool lock_memory = false; // --mlock: no page of it is ever swapped out
    bool verbose = false;     // llama.cpp's own log to standard error
    std::string trace_path;   // record the routes here (trace/trace.h); empty for none, always with Residency::stock
    // Both are called from the thread that opens: when the plan is made and nothing is read yet (with an arena), and
    // while resident weights load. Either may be empty.
    std::function<void(const ModelLayout &, const MemoryPlan &)> on_plan;
    std::function<void(uint64_t bytes_done, uint64_t bytes_total)> progress;
    // Told, in a line for people, when the arena shrinks or regrows: on another thread, at any time from the plan on
    // until the engine is gone. Must not throw. May be empty.
    std::function<void(const std::string &what)> on_resize;
};

// llama.cpp's sampling parameters under its names; the defaults are its own.
struct SamplingOptions {
    uint32_t seed = 0xFFFFFFFF; // random
    int32_t top_k = 40;
    float top_p = 0.95F;
    float min_p = 0.05F;
    float typical_p = 1.0F;
    float temperature = 0.8F; // <= 0: greedy
    int32_t repeat_last_n = 64;
    float repeat_penalty = 1.0F;
    float presence_penalty = 0.0F;
    float frequency_penalty = 0.0F;
    bool ignore_eos = false;
    std::string grammar; // GBNF, empty for none
};

struct ChatMessage {
    std::string role; // "system", "user", "assistant"
    std::string content;
};

// Everything measured so far. Names are those of the stats file.
struct EngineStats {
    uint64_t prompt_tokens = 0;
    uint64_t decode_tokens = 0;
    double prompt_ms = 0;
    double decode_ms = 0;
    double ttft_ms = 0; // from the latest generation's beginning to its first token
    double load_ms = 0;
    StoreStats store; // with Residency::page: hits, misses and evictions as the pager counts them
    ArenaUse arena;
    PressureFigures pressure;
    ProcessMemory memory;
    std::optional<PagerStats> page;    // of Residency::page
    uint64_t page_disk_read_bytes = 0; // read from storage by the process since such a model was loaded
};

class Session;

// What Engine::open() would decide with these options, without reading a weight. Throws what it would throw up to
// there.
struct PlannedRun {
    MemoryPlan memory; // with the ubatch
    Kernels kernels = Kernels::plain;
    uint32_t ctx_tokens = 0;
    uint32_t threads = 0;
};
PlannedRun plan_only(const EngineOptions &options);

class Engine {
  public:
    static std::unique_ptr<Engine> open(const EngineOptions &options);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    [[nodiscard]] const ModelLayout &layout() const;
    [[nodiscard]] const MemoryPlan &plan() const; // all zero without an arena
    [[nodiscard]] Residency residency() const;
    [[nodiscard]] Kernels kernels() const; // those in use
    [[nodiscard]] const ReaderInfo &reader_info() const;
    [[nodiscard]] uint32_t ctx_tokens() const;
    [[nodiscard]] uint32_t ubatch_tokens() const; // in use
    [[nodiscard]] uint32_t threads() const;
    [[nodiscard]] uint32_t n_vocab() const;

    // With `special`, the model's own begin-of-text is added where it wants one and control tokens in the text are
    // read.
    [[nodiscard]] std::vector<Token> tokenize(const std::string &text, bool special) const;
    [[nodiscard]] std::string piece(Token token) const; // bytes of a token; empty for control tokens
    [[nodiscard]] bool is_end_of_generation(Token token) const;

    [[nodiscard]] bool has_chat_template() const;
    // The conversation as the model's chat template writes it, ready for the assistant's answer.
    [[nodiscard]] std::string render_chat(const std::vector<ChatMessage> &messages) const;

    // A file of the model that was written to in place since it was opened or this was last asked; empty if there is
    // none. A file that was replaced or deleted does not count: the one that is open stays what it was.
    std::string take_changed_file();

    // Any thread. Makes the session call under way return early (stopped() is true then).
    void request_stop();
    void clear_stop();

    // The end of the trace, if one is recorded: all of it is in the file then. Throws Error(io).
    void close_trace();
    [[nodiscard]] bool stop_requested() const;

    [[nodiscard]] EngineStats stats() const;

  private:
    friend class Session;
    class Impl;
    explicit Engine(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// The engine's figures as the JSON text of the stats file.
std::string stats_json(const Engine &engine);
// The same in one line for people.
std::string stats_line(const Engine &engine);

// One conversation. At most one Session per Engine at a time; the Engine must outlive it.
class Session {
  public:
    Session(Engine &engine, const SamplingOptions &sampling);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    // Makes `tokens` the content of the session. What is cached of a common prefix is kept; at least the last token is
    // evaluated, so that logits() are there. Throws Error(usage) if they do not fit into the context. Returns false if
    // stopped; the cache is empty then.
    bool prefill(std::span<const Token> tokens);
    // Evaluates one more token. False if stopped.
    bool decode(Token token);
    // Takes back the last `n` tokens, as if they had not been evaluated; there are no logits then until the next call.
    // What the sampler remembers stays.
    // False, and nothing has changed, where the model cannot forget a token (recurrent state) or none would be left.
    bool rewind(uint32_t n);
    // Chooses the next token from the latest logits.
    Token sample();

    [[nodiscard]] uint32_t n_token() const; // in the context
    // Logits after the latest call. With logits_for_all, of the i-th token that the latest prefill() or decode()
    // evaluated; otherwise i must be 0 and it is the last token's. n_vocab floats, valid until the next call.
    [[nodiscard]] std::span<const float> logits(uint32_t i = 0) const;

    // With logits_for_all a prefill's logits are only there batch by batch: called after each, with the position of its
    // first token and the number of them.
    std::function<void(uint32_t first, uint32_t count)> on_batch;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace larder
