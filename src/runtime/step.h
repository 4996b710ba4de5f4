// step.h — one llama_decode() on experts that are read from a disk: what it left behind when a read failed or it was
// stopped.
//
// The experts of a layer are independent of each other, and so are the sequences of a step. An expert that cannot be
// read spoils the tokens that were routed to it, and with them what comes later in their sequences; all other sequences
// of the step get the bits they always get. A step in which every sequence is spoiled ends at once.
//
// step() takes back what was spoiled: a sequence keeps the positions before its first spoiled token where the model's
// memory can be cut there (attention), and none where it cannot (recurrent state, or a sliding window whose older
// positions are gone).
#pragma once

#include "base/error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

struct llama_batch;
struct llama_context;

namespace larder {

// A sequence that lost positions in a step.
struct CutSequence {
    int32_t sequence = 0;
    int32_t kept = 0; // positions that it still has; 0: its cache is empty
};

enum class StepEnd {
    done,    // every token of the batch is evaluated, but for those of the sequences that were cut
    stopped, // request_stop()
    failed,  // no sequence of the step is whole
};

struct StepResult {
    StepEnd end = StepEnd::done;
    std::optional<Error> error;   // why sequences were cut; none if nothing failed
    std::vector<CutSequence> cut; // ascending
};

class AttachedContext {
  public:
    class Impl;
    explicit AttachedContext(std::unique_ptr<Impl> impl);
    ~AttachedContext(); // frees the context if it was made here
    AttachedContext(const AttachedContext &) = delete;
    AttachedContext &operator=(const AttachedContext &) = delete;

    [[nodiscard]] llama_context *get() const;

    // Evaluates the batch. Not while another step of the same model is under way.
    StepResult step(const llama_batch &batch);

    // Any thread. Makes the step under way, and all later ones, end early, also where it waits for the disk.
    void request_stop();
    void clear_stop(); // between steps
    [[nodiscard]] bool stop_requested() const;

  private:
    std::unique_ptr<Impl> impl_;
};

// Whether the model's memory can be cut there: not where the state is recurrent, nor where a sliding window has lost
// the positions before it.
bool can_cut_sequence(const llama_context *context, int32_t sequence, int32_t keep);
// Cuts a sequence of the context to its first `keep` positions, or empties it where the model's memory cannot be cut
// there. Returns how many are left: `keep` or 0.
int32_t cut_sequence(llama_context *context, int32_t sequence, int32_t keep);

} // namespace larder
