// step.h — llama_decode() on experts that are read from a disk, and the result of a step that failed or was stopped.
//
// The experts of a layer are independent of each other, and so are the sequences of a step. If an expert cannot be
// read, only the tokens routed to it, and the later tokens of their sequences, are invalid. All other sequences of the
// step get the same bits as without the failure. The step ends early if no sequence is intact.
//
// step() removes the invalid positions. Where the model's memory can be cut (attention), a sequence keeps the positions
// before its first invalid token. Elsewhere (recurrent state, or a sliding window that has discarded the older
// positions) it is emptied.
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
    int32_t kept = 0; // number of positions that are left; 0: the cache is empty
};

enum class StepEnd {
    done,    // all tokens of the batch were evaluated, except those of the sequences in `cut`
    stopped, // request_stop()
    failed,  // no sequence of the step is intact
};

struct StepResult {
    StepEnd end = StepEnd::done;
    std::optional<Error> error;   // why sequences were cut; empty if nothing failed
    std::vector<CutSequence> cut; // ascending
};

class AttachedContext {
  public:
    class Impl;
    explicit AttachedContext(std::unique_ptr<Impl> impl);
    ~AttachedContext(); // frees the context if make_context() made it
    AttachedContext(const AttachedContext &) = delete;
    AttachedContext &operator=(const AttachedContext &) = delete;

    [[nodiscard]] llama_context *get() const;

    // Evaluates the batch. No other step of the same model may be in progress.
    StepResult step(const llama_batch &batch);

    // Any thread. Ends the step in progress and all later steps early, even while they wait for the disk.
    void request_stop();
    void clear_stop(); // only between steps
    [[nodiscard]] bool stop_requested() const;

  private:
    std::unique_ptr<Impl> impl_;
};

// Whether the model's memory can be cut after `keep` positions: not with recurrent state, and not if a sliding window
// has discarded positions that are needed.
bool can_cut_sequence(const llama_context *context, int32_t sequence, int32_t keep);
// Cuts a sequence to its first `keep` positions, or empties it where the model's memory cannot be cut there. Returns
// the number of positions left: `keep` or 0.
int32_t cut_sequence(llama_context *context, int32_t sequence, int32_t keep);

} // namespace larder
