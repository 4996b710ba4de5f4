// llama_log.h — llama.cpp's log: its last complaint kept for our error messages, the rest shown only on demand.
//
// Threads: any. The log is one for the process, as llama.cpp's is.
#pragma once

#include "base/error.h"

#include <string>

namespace larder {

// What must come before llama.cpp is used: its log is taken over, larder's buffer types are registered. Any number of
// times; with `verbose` the log goes to standard error from then on.
void start_llama(bool verbose);

// Takes over llama.cpp's and ggml's log. Everything goes to standard error if `verbose`, else nothing.
void capture_llama_log(bool verbose);

// The errors logged since the last call, in one line; empty if there were none.
std::string take_llama_errors();

// "what: llama.cpp's reason" as an Error; where it could not allocate and addresses are limited, the one that names the
// limit.
Error llama_refused(ErrorKind kind, const std::string &what, std::string remedy = {});

} // namespace larder
