// spec_json.h — specs, options and errors as JSON, for jobs and answers between larder processes.
//
// Callbacks and observers are not written. The input must come from the same program; any other input throws
// nlohmann::json::exception.
#pragma once

#include "base/error.h"
#include "runtime/spec.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace larder {

nlohmann::json to_json(const ContextSpec &spec);
ContextSpec context_spec_from(const nlohmann::json &json);

nlohmann::json to_json(const ModelSpec &spec);
ModelSpec model_spec_from(const nlohmann::json &json);

nlohmann::json to_json(const RuntimeOptions &options);
RuntimeOptions runtime_options_from(const nlohmann::json &json);

nlohmann::json to_json(const Error &error);
Error error_from(const nlohmann::json &json);

Kernels kernels_named(std::string_view name); // inverse of to_string(Kernels)

} // namespace larder
