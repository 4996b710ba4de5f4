// look.h — llama.cpp's look at model files before larder loads them, in a child process with limits (private to
// runtime).
//
// A file can contradict itself in ways that only llama.cpp knows, and that end the process it runs in: by a signal, by
// an assertion, by memory or by time without bound. So a child process, which is forked from this one, builds the
// models without their weights, and contexts on them, and answers what they take (measure.h). What ends the child
// becomes one Error that names the file. Nothing of what it allocates is ever in this process.
//
// The child lives as long as the Look and answers one question after the other. It may use a minute of processor time
// for each, and memory in proportion to the metadata of the files and to the context that is asked for.
//
// Threads: one. No OpenMP region must have been entered by the child's parent, or the child must not enter one: it does
// not.
// Errors: Error(model) for a file that llama.cpp does not survive or refuses, Error(engine) for a context, Error(io)
// where no process can be started.
#pragma once

#include "base/unique_fd.h"
#include "layout/layout.h"
#include "runtime/measure.h"

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace larder {

class Look {
  public:
    // The layouts must outlive this.
    explicit Look(std::vector<const ModelLayout *> layouts);
    ~Look();
    Look(const Look &) = delete;
    Look &operator=(const Look &) = delete;

    // Builds the model with these kernels, in the place of one with others.
    ModelFacts model(size_t index, Kernels kernels);
    // What the child holds now: with the models that are built, and no context. Bytes.
    uint64_t held_bytes();
    // Of the model as it was built last.
    ContextFacts context(size_t index, const ContextSpec &resolved);

  private:
    nlohmann::json ask(size_t index, const nlohmann::json &question);
    std::string read_line();
    [[nodiscard]] Error end_of_child(size_t index);

    std::vector<const ModelLayout *> layouts_;
    pid_t child_ = -1;
    UniqueFd socket_;
    std::string pending_;
};

} // namespace larder
