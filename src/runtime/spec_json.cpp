#include "runtime/spec_json.h"

#include <array>

namespace larder {

namespace {

using Json = nlohmann::json;

template <typename Value> Json optional_json(const std::optional<Value> &value) {
    return value ? Json(*value) : Json(nullptr);
}

template <typename Value> std::optional<Value> optional_from(const Json &json) {
    return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}

template <typename Enum> Json enum_json(Enum value) { return static_cast<int>(value); }
template <typename Enum> Enum enum_from(const Json &json) { return static_cast<Enum>(json.get<int>()); }

Json to_json(const PlanOptions &options) {
    return {{"budget_bytes", optional_json(options.budget_bytes)},
            {"reserve_bytes", optional_json(options.reserve_bytes)},
            {"arena_bytes", optional_json(options.arena_bytes)},
            {"cache_share", optional_json(options.cache_share)},
            {"overcommit", options.overcommit}};
}

PlanOptions plan_options_from(const Json &json) {
    return {.budget_bytes = optional_from<uint64_t>(json.at("budget_bytes")),
            .reserve_bytes = optional_from<uint64_t>(json.at("reserve_bytes")),
            .arena_bytes = optional_from<uint64_t>(json.at("arena_bytes")),
            .cache_share = optional_from<double>(json.at("cache_share")),
            .overcommit = json.at("overcommit")};
}

Json to_json(const ReaderOptions &reader) {
    return {{"backend", enum_json(reader.backend)}, {"direct", enum_json(reader.direct)}, {"depth", reader.depth}};
}

ReaderOptions reader_from(const Json &json) {
    ReaderOptions reader;
    reader.backend = enum_from<IoBackend>(json.at("backend"));
    reader.direct = enum_from<DirectIo>(json.at("direct"));
    reader.depth = json.at("depth");
    return reader;
}

} // namespace

Json to_json(const ContextSpec &spec) {
    return {{"ctx_tokens", spec.ctx_tokens},
            {"sequences", spec.sequences},
            {"batch_tokens", spec.batch_tokens},
            {"ubatch_tokens", spec.ubatch_tokens},
            {"threads", spec.threads},
            {"threads_batch", spec.threads_batch},
            {"cache_type_k", spec.cache_type_k},
            {"cache_type_v", spec.cache_type_v},
            {"flash_attention", enum_json(spec.flash_attention)},
            {"logits_for_all", spec.logits_for_all}};
}

ContextSpec context_spec_from(const Json &json) {
    return {.ctx_tokens = json.at("ctx_tokens"),
            .sequences = json.at("sequences"),
            .batch_tokens = json.at("batch_tokens"),
            .ubatch_tokens = json.at("ubatch_tokens"),
            .threads = json.at("threads"),
            .threads_batch = json.at("threads_batch"),
            .cache_type_k = json.at("cache_type_k"),
            .cache_type_v = json.at("cache_type_v"),
            .flash_attention = enum_from<FlashAttention>(json.at("flash_attention")),
            .logits_for_all = json.at("logits_for_all")};
}

Json to_json(const ModelSpec &spec) {
    return {{"path", spec.path},
            {"context", to_json(spec.context)},
            {"kernels", spec.kernels ? Json(to_string(*spec.kernels)) : Json(nullptr)}};
}

ModelSpec model_spec_from(const Json &json) {
    ModelSpec spec;
    spec.path = json.at("path");
    spec.context = context_spec_from(json.at("context"));
    if (!json.at("kernels").is_null()) {
        spec.kernels = kernels_named(json.at("kernels").get<std::string>());
    }
    return spec;
}

Json to_json(const RuntimeOptions &options) {
    return {{"plan", to_json(options.plan)},
            {"reader", to_json(options.reader)},
            {"read_timeout_ms", options.read_timeout.count()},
            {"beside_bytes", options.beside_bytes},
            {"lock_memory", options.lock_memory},
            {"verbose", options.verbose}};
}

RuntimeOptions runtime_options_from(const Json &json) {
    RuntimeOptions options;
    options.plan = plan_options_from(json.at("plan"));
    options.reader = reader_from(json.at("reader"));
    options.read_timeout = std::chrono::milliseconds(json.at("read_timeout_ms").get<int64_t>());
    options.beside_bytes = json.at("beside_bytes");
    options.lock_memory = json.at("lock_memory");
    options.verbose = json.at("verbose");
    return options;
}

Json to_json(const Error &error) {
    Json remedies = Json::array();
    for (const Remedy &remedy : error.remedies()) {
        remedies.push_back({{"kind", enum_json(remedy.kind)}, {"text", remedy.text}, {"amount", remedy.amount}});
    }
    return {{"kind", enum_json(error.kind())}, {"message", error.message()}, {"remedies", std::move(remedies)}};
}

Error error_from(const Json &json) {
    std::vector<Remedy> remedies;
    for (const Json &remedy : json.at("remedies")) {
        remedies.push_back({enum_from<RemedyKind>(remedy.at("kind")), remedy.at("text"), remedy.at("amount")});
    }
    return {enum_from<ErrorKind>(json.at("kind")), json.at("message").get<std::string>(), std::move(remedies)};
}

Kernels kernels_named(std::string_view name) {
    for (const Kernels kernels : {Kernels::plain, Kernels::mixed, Kernels::repacked, Kernels::fast}) {
        if (name == to_string(kernels)) {
            return kernels;
        }
    }
    throw Error(ErrorKind::usage, "'" + std::string(name) + "' does not name a path of kernels");
}

} // namespace larder
