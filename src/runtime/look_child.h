// look_child.h — the child process of a Look: answers questions until its socket closes (private to runtime).
//
// A question is one line of JSON, and so is its answer:
//   {"ask": "model", "index": 0, "kernels": "plain"}        {"repacked": "…", "tied": "…", "aliased_bytes": 0, …}
//   {"ask": "held"}                                         {"held_bytes": 0}
//   {"ask": "context", "index": 0, "context": {…}}          {"resident_bytes": 0, …}
// The answer to a question that fails is {"error": {"kind": 0, "message": "…", "remedy": "…"}}.
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

// Limit of processor time for one question, in seconds.
inline constexpr uint64_t look_seconds_max = 60;

// Does not return. `file_rss_bytes`: the file pages that the parent held at the fork.
[[noreturn]] void answer_looks(int socket, const std::vector<const ModelLayout *> &layouts, uint64_t file_rss_bytes);

} // namespace larder
