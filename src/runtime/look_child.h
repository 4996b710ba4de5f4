// look_child.h — the child of a Look: answers questions until there are no more (private to runtime).
//
// A question is one line of JSON, and so is its answer:
//   {"ask": "model", "index": 0, "kernels": "plain"}        {"repacked": "…", "tied": "…", "aliased_bytes": 0, …}
//   {"ask": "held"}                                         {"held_bytes": 0}
//   {"ask": "context", "index": 0, "context": {…}}          {"resident_bytes": 0, …}
// An answer to what cannot be done is {"error": {"kind": 0, "message": "…", "remedy": "…"}}.
#pragma once

#include "layout/layout.h"

#include <cstdint>
#include <vector>

namespace larder {

// The most processor time that one question may take.
inline constexpr uint64_t look_seconds_max = 60;

// Does not return. The child was forked from a process that held `file_rss_bytes` of file pages.
[[noreturn]] void answer_looks(int socket, const std::vector<const ModelLayout *> &layouts, uint64_t file_rss_bytes);

} // namespace larder
