// text_process_child.h — the process of text_process.h, as it runs itself (private to text).
//
// A request comes on a socket of its own: a RequestHeader, then the text. The answer on the same socket is an
// AnswerHeader, then the text. A child that was killed answers nothing, and the socket ends.
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

// Takes sockets from `control` until that ends, and answers each in a child. Does not return.
[[noreturn]] void serve_jobs(int control);

} // namespace larder
