#include "layout/metadata.h"

#include "layout/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace larder {

namespace {

template <typename T> T load(const void *data, size_t index) {
    T value;
    std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T), sizeof(T));
    return value;
}

} // namespace

bool Metadata::is_array(const std::string &key) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    return id >= 0 && gguf_get_kv_type(context_, id) == GGUF_TYPE_ARRAY;
}

std::optional<std::string> Metadata::text(const std::string &key) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    if (gguf_get_kv_type(context_, id) != GGUF_TYPE_STRING) {
        throw refusal(path_, fmt::format("key '{}' is not a text", key), convert_again);
    }
    return gguf_get_val_str(context_, id);
}

std::optional<uint64_t> Metadata::number(const std::string &key) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    const gguf_type type = gguf_get_kv_type(context_, id);
    if (type == GGUF_TYPE_ARRAY || type == GGUF_TYPE_STRING) {
        throw refusal(path_, fmt::format("key '{}' is not a number", key), convert_again);
    }
    return element(key, type, gguf_get_val_data(context_, id), 0);
}

std::vector<uint64_t> Metadata::numbers(const std::string &key, size_t count_max) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    if (id < 0) {
        return {};
    }
    if (!is_array(key) || gguf_get_arr_type(context_, id) == GGUF_TYPE_STRING) {
        throw refusal(path_, fmt::format("key '{}' is not an array of numbers", key), convert_again);
    }
    if (gguf_get_arr_n(context_, id) > count_max) {
        throw refusal(path_, fmt::format("key '{}' is an array of more than {}", key, count_max), convert_again);
    }
    std::vector<uint64_t> values(gguf_get_arr_n(context_, id));
    const void *data = gguf_get_arr_data(context_, id);
    for (size_t i = 0; i < values.size(); i++) {
        values[i] = element(key, gguf_get_arr_type(context_, id), data, i);
    }
    return values;
}

std::vector<uint64_t> Metadata::number_or_numbers(const std::string &key, size_t count_max) const {
    if (is_array(key)) {
        return numbers(key, count_max);
    }
    const std::optional<uint64_t> single = number(key);
    return single ? std::vector{*single} : std::vector<uint64_t>{};
}

std::optional<size_t> Metadata::count(const std::string &key, std::initializer_list<gguf_type> types) const {
    const int64_t id = gguf_find_key(context_, key.c_str());
    if (id < 0) {
        return std::nullopt;
    }
    if (!is_array(key) || std::ranges::find(types, gguf_get_arr_type(context_, id)) == types.end()) {
        throw refusal(path_, fmt::format("key '{}' is not an array of {}", key, gguf_type_name(*types.begin())),
                      convert_again);
    }
    return gguf_get_arr_n(context_, id);
}

std::vector<std::string_view> Metadata::texts(const std::string &key) const {
    std::vector<std::string_view> elements(count(key, {GGUF_TYPE_STRING}).value_or(0));
    const int64_t id = gguf_find_key(context_, key.c_str());
    for (size_t i = 0; i < elements.size(); i++) {
        elements[i] = gguf_get_arr_str(context_, id, i);
    }
    return elements;
}

uint32_t Metadata::required_number(const std::string &key, uint32_t low, uint32_t high) const {
    const std::optional<uint64_t> value = number(key);
    if (!value) {
        throw refusal(path_, fmt::format("has no key '{}'", key), "give a complete language model in GGUF format");
    }
    if (*value < low || *value > high) {
        throw refusal(path_, fmt::format("key '{}' is {}, outside {} to {}", key, *value, low, high), convert_again);
    }
    return static_cast<uint32_t>(*value);
}

uint64_t Metadata::element(const std::string &key, gguf_type type, const void *data, size_t index) const {
    int64_t number = 0;
    switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_BOOL:
        return load<uint8_t>(data, index);
    case GGUF_TYPE_UINT16:
        return load<uint16_t>(data, index);
    case GGUF_TYPE_UINT32:
        return load<uint32_t>(data, index);
    case GGUF_TYPE_UINT64:
        return load<uint64_t>(data, index);
    case GGUF_TYPE_INT8:
        number = int64_t{load<int8_t>(data, index)};
        break;
    case GGUF_TYPE_INT16:
        number = load<int16_t>(data, index);
        break;
    case GGUF_TYPE_INT32:
        number = load<int32_t>(data, index);
        break;
    case GGUF_TYPE_INT64:
        number = load<int64_t>(data, index);
        break;
    default:
        throw refusal(path_, fmt::format("key '{}' is not a whole number", key), convert_again);
    }
    if (number < 0) {
        throw refusal(path_, fmt::format("key '{}' holds {}, a negative number", key, number), convert_again);
    }
    return static_cast<uint64_t>(number);
}

} // namespace larder
