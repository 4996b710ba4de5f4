// llama_log.h — llama.cpp's errors as larder's, and the part of its log that ggml does not know of.
#pragma once

#include "base/error.h"
#include "ggml_log/ggml_log.h"

#include <string>

namespace larder {

// What must come before llama.cpp is used: its log is taken over, larder's buffer types are registered. Any number of
// times; with `verbose` the log goes to standard error from then on.
void start_llama(bool verbose);

// Takes over the logs of ggml, llama.cpp and its common library. All lines go to standard error if `verbose`, else
// none.
void capture_llama_log(bool verbose);

// "what: llama.cpp's reason", from what it logged during the call that failed. Where it could not allocate and the
// process has an address limit (machine/address_limits.h), the error names that limit.
Error llama_refused(ErrorKind kind, const std::string &what, const LoggedErrors &logged, std::string remedy = {});

} // namespace larder
