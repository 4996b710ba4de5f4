// look.h — measures model files with llama.cpp in a limited child process, before larder loads them (private to
// runtime).
//
// A file can contradict itself in ways that only llama.cpp detects, and that end the process: by a signal, a failed
// assertion, or unbounded memory or time. So a forked child builds the models without their weights, makes contexts on
// them, and reports how much memory they take (measure.h). Whatever ends the child becomes one Error that names the
// file. The child's allocations never touch this process.
//
// The child lives as long as the Look and answers one question at a time. Each question may use 60 seconds of processor
// time, and memory in proportion to the metadata of the files and to the requested context.
//
// Threads: one. If the parent has entered an OpenMP region, the child must not enter one; it does not.
// Errors: Error(model) for a file that llama.cpp refuses or crashes on, Error(engine) for a context, Error(io) if no
// process can be started or the kernel killed it.
#pragma once

#include "base/error.h"
#include "base/unique_fd.h"
#include "layout/layout.h"
#include "runtime/measure.h"

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace larder {

class Look {
  public:
    // The layouts must outlive this object.
    explicit Look(std::vector<const ModelLayout *> layouts);
    ~Look();
    Look(const Look &) = delete;
    Look &operator=(const Look &) = delete;

    // Builds the model for these kernels. Replaces a build for other kernels.
    ModelFacts model(size_t index, Kernels kernels);
    // Memory that the child holds now, in bytes: with the models built so far and no context.
    uint64_t held_bytes();
    // Measures a context on the model as it was last built.
    ContextFacts context(size_t index, const ContextSpec &resolved);

  private:
    nlohmann::json ask(size_t index, const nlohmann::json &question);
    std::string read_line();
    [[nodiscard]] Error end_of_child(size_t index);

    std::vector<const ModelLayout *> layouts_;
    pid_t child_ = -1;
    UniqueFd socket_;
    std::string pending_;
    bool timed_out_ = false;
    std::optional<Error> end_; // why the child has ended; every later question has this answer
};

} // namespace larder
