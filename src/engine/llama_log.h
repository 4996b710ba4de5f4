// llama_log.h — llama.cpp's errors as larder's, and the part of its log that ggml does not know of.
#pragma once

#include "base/error.h"
#include "ggml_log/ggml_log.h"

#include <string>

namespace larder {

// Takes over the logs of ggml, llama.cpp and its common library. All lines go to standard error if `verbose`, else
// none.
void capture_llama_log(bool verbose);

// "what: llama.cpp's reason", from what it logged during the call that failed. Where it could not allocate and the
// process has an address limit (plan/address_space.h), the error names that limit.
Error llama_refused(ErrorKind kind, const std::string &what, const LoggedErrors &logged, std::string remedy = {});

} // namespace larder
