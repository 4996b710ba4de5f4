// unread_tokens.h — which sequences of a step are spoiled, as the graph tells it (private to runtime).
//
// llama.cpp evaluates a batch in ubatches, which it makes as the model's memory wants them. An op knows tokens by their
// place in the ubatch only. llm_graph_result::set_inputs() is called with each ubatch just before its graph runs; the
// linker's --wrap lets larder see it there (cmake/llama.cmake), and UbatchScope says whose step it belongs to.
//
// Threads: the scope's thread notes ubatches. unread() is called on a compute thread while a graph runs, which happens
// between two notes.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>

struct llama_batch;
struct llama_ubatch;

namespace larder {

class UnreadTokens {
  public:
    static constexpr size_t sequences_max = 256; // LLAMA_MAX_SEQ

    // A step begins on this batch.
    void begin(const llama_batch &batch);
    // Its graph runs next. Null: a graph without tokens.
    void note(const llama_ubatch *ubatch) noexcept;
    void end() { ubatch_ = nullptr; }

    // The experts of these tokens of an op are not there; the op has n_token tokens. True if no sequence of the step is
    // whole any more.
    bool unread(std::span<const int32_t> tokens, int64_t n_token) noexcept;
    // The ubatch that was noted last did not come to its end: its sequences are spoiled from its first token on.
    void spoil_ubatch() noexcept;
    // Every sequence is spoiled, from its first token in this step on.
    void spoil_step() noexcept;

    [[nodiscard]] bool any() const { return spoiled_.any(); }
    [[nodiscard]] bool all() const { return spoiled_ == stepped_; }
    [[nodiscard]] bool spoiled(size_t sequence) const { return spoiled_.test(sequence); }
    [[nodiscard]] const std::bitset<sequences_max> &stepped() const { return stepped_; }
    // Position of its first token that is spoiled.
    [[nodiscard]] int32_t first_spoiled(size_t sequence) const { return first_spoiled_[sequence]; }

  private:
    using Positions = std::array<int32_t, sequences_max>;
    void spoil(uint32_t token) noexcept;
    void spoil_from(const Positions &first, const std::bitset<sequences_max> &sequences) noexcept;

    const llama_ubatch *ubatch_ = nullptr; // while its graph runs
    std::bitset<sequences_max> stepped_;   // of the batch
    std::bitset<sequences_max> begun_;     // of the ubatches so far
    std::bitset<sequences_max> noted_;     // of the last one
    std::bitset<sequences_max> spoiled_;
    Positions first_of_step_{}; // of those in begun_, noted_ and spoiled_
    Positions first_of_ubatch_{};
    Positions first_spoiled_{};
};

// While it lives, ubatches that this thread's llama_decode() evaluates are noted in `tokens`.
class UbatchScope {
  public:
    explicit UbatchScope(UnreadTokens &tokens);
    ~UbatchScope();
    UbatchScope(const UbatchScope &) = delete;
    UbatchScope &operator=(const UbatchScope &) = delete;

  private:
    UnreadTokens *outer_;
};

} // namespace larder
