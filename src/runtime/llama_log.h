// llama_log.h — turns llama.cpp's errors into larder's, and captures the part of the log that bypasses ggml.
#pragma once

#include "base/error.h"
#include "ggml_log/ggml_log.h"

#include <string>

namespace larder {

// Call before any use of llama.cpp: takes over its log and registers larder's buffer types. May be called any number of
// times. Once it was called with `verbose`, the log goes to standard error.
void start_llama(bool verbose);

// Takes over the logs of ggml, llama.cpp and its common library. Writes all lines to standard error if `verbose`, and
// no line otherwise.
void capture_llama_log(bool verbose);

// "what: llama.cpp's reason". The reason is taken from what llama.cpp logged during the failed call. If an allocation
// failed and the process has an address limit (machine/address_limits.h), the error names that limit.
Error llama_refused(ErrorKind kind, const std::string &what, const LoggedErrors &logged, std::string remedy = {});

} // namespace larder
