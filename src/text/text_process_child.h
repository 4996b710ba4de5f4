// text_process_child.h — the main loop of the text process (private to text).
//
// A request arrives on a socket of its own: a RequestHeader, then the text. The answer uses the same socket: an
// AnswerHeader, then the text. A child that was killed sends no answer; its socket closes.
#pragma once

#include "text/text_process.h"

#include <cstdint>

namespace larder {

struct RequestHeader {
    Job job;
    JobLimits limits;
    uint64_t request_bytes;
};

struct AnswerHeader {
    JobEnd end;
    uint64_t text_bytes;
};

// Receives sockets from `control` until it closes, and answers each in a child. Does not return.
[[noreturn]] void serve_jobs(int control);

} // namespace larder
