// unread_tokens.h — finds the sequences of a step that a failed read made invalid (private to runtime).
//
// llama.cpp splits a batch into ubatches, in a way that depends on the model's memory. An operation knows a token only
// by its index in the ubatch. llama.cpp calls llm_graph_result::set_inputs() with each ubatch just before it runs the
// graph. The linker's --wrap lets larder intercept this call (cmake/llama.cmake), and UbatchScope connects it with the
// step.
//
// Threads: the thread of the UbatchScope notes ubatches. unread() is called on a compute thread while a graph runs,
// that is, between two calls of note().
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

    // A step begins with this batch.
    void begin(const llama_batch &batch);
    // The graph of this ubatch runs next. Null: a graph without tokens.
    void note(const llama_ubatch *ubatch) noexcept;
    void end() { ubatch_ = nullptr; }

    // The experts of these tokens of an operation are missing. The operation has n_token tokens. Returns true if no
    // sequence of the step is intact any more.
    bool unread(std::span<const int32_t> tokens, int64_t n_token) noexcept;
    // The last noted ubatch was not completed: its sequences are invalid from their first token in it on.
    void spoil_ubatch() noexcept;
    // All sequences are invalid from their first token in this step on.
    void spoil_step() noexcept;

    [[nodiscard]] bool any() const { return spoiled_.any(); }
    [[nodiscard]] bool all() const { return spoiled_ == stepped_; }
    [[nodiscard]] bool spoiled(size_t sequence) const { return spoiled_.test(sequence); }
    [[nodiscard]] const std::bitset<sequences_max> &stepped() const { return stepped_; }
    // Position of the sequence's first invalid token.
    [[nodiscard]] int32_t first_spoiled(size_t sequence) const { return first_spoiled_[sequence]; }

  private:
    using Positions = std::array<int32_t, sequences_max>;
    void spoil(uint32_t token) noexcept;
    void spoil_from(const Positions &first, const std::bitset<sequences_max> &sequences) noexcept;

    const llama_ubatch *ubatch_ = nullptr; // null while no graph runs
    std::bitset<sequences_max> stepped_;   // sequences of the batch
    std::bitset<sequences_max> begun_;     // sequences of the ubatches so far
    std::bitset<sequences_max> noted_;     // sequences of the last ubatch
    std::bitset<sequences_max> spoiled_;
    Positions first_of_step_{}; // valid for the sequences in begun_, noted_ and spoiled_ respectively
    Positions first_of_ubatch_{};
    Positions first_spoiled_{};
};

// While it exists, the ubatches of this thread's llama_decode() are noted in `tokens`.
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
