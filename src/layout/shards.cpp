#include "layout/shards.h"

#include "layout/hub_cache.h"
#include "layout/metadata.h"
#include "layout/refusal.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <set>

namespace larder {

namespace {

std::string shard_suffix(uint64_t index, uint64_t count) {
    return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

// The path without its shard suffix ("-00002-of-00005.gguf").
std::string shard_prefix(const GgufFile &file, uint64_t index, uint64_t count) {
    const std::string suffix = shard_suffix(index, count);
    if (!file.path.ends_with(suffix)) {
        const std::optional<std::string> names = names_of_blob(file.path);
        throw refusal(file.path, fmt::format("is shard {} of {} but is not named so", index + 1, count),
                      names ? fmt::format("a hub cache keeps the names apart from the files: give {}", *names)
                            : fmt::format("rename all shards as they were, this one ends in {}", suffix));
    }
    return file.path.substr(0, file.path.size() - suffix.size());
}

GgufFile read_sibling(const std::string &path, uint64_t index, uint64_t count) {
    if (::access(path.c_str(), F_OK) != 0) {
        throw refusal(path, fmt::format("shard {} of {} is missing", index + 1, count),
                      "put all shards of the model into one folder");
    }
    GgufFile file = read_gguf(path);
    const Metadata keys(file.context.get(), path);
    if (keys.number("split.no") != index || keys.number("split.count") != count) {
        throw refusal(path, fmt::format("does not say that it is shard {} of {}", index + 1, count));
    }
    return file;
}

// gguf_add_tensor() takes a ggml_tensor, but uses only its name, type and shape.
ggml_tensor describe(const gguf_context *context, int64_t id) {
    ggml_tensor tensor = {};
    tensor.type = gguf_get_tensor_type(context, id);
    const int64_t *shape = gguf_get_tensor_ne(context, id);
    std::copy(shape, shape + GGML_MAX_DIMS, tensor.ne);
    tensor.nb[0] = ggml_type_size(tensor.type);
    tensor.nb[1] = ggml_row_size(tensor.type, tensor.ne[0]);
    for (int dim = 2; dim < GGML_MAX_DIMS; dim++) {
        tensor.nb[dim] = tensor.nb[dim - 1] * static_cast<size_t>(tensor.ne[dim - 1]);
    }
    ggml_set_name(&tensor, gguf_get_tensor_name(context, id));
    return tensor;
}

// ggml ends the process if two tensors have the same name.
void refuse_doubles(const std::vector<GgufFile> &files) {
    std::set<std::string> names;
    for (const GgufFile &file : files) {
        for (int64_t id = 0; id < gguf_get_n_tensors(file.context.get()); id++) {
            const char *name = gguf_get_tensor_name(file.context.get(), id);
            if (!names.insert(name).second) {
                throw refusal(file.path, fmt::format("tensor '{}' is in an earlier shard too", name));
            }
        }
    }
}

std::shared_ptr<gguf_context> merge(const std::vector<GgufFile> &files) {
    refuse_doubles(files);
    std::shared_ptr<gguf_context> merged(gguf_init_empty(), &gguf_free);
    gguf_set_kv(merged.get(), files.front().context.get());
    for (const GgufFile &file : files) {
        for (int64_t id = 0; id < gguf_get_n_tensors(file.context.get()); id++) {
            const ggml_tensor tensor = describe(file.context.get(), id);
            gguf_add_tensor(merged.get(), &tensor);
        }
    }
    const Metadata keys(merged.get(), files.front().path);
    const auto n_tensor = static_cast<uint64_t>(gguf_get_n_tensors(merged.get()));
    const uint64_t n_expected = keys.number("split.tensors.count").value_or(n_tensor);
    if (n_tensor != n_expected) {
        throw refusal(files.front().path,
                      fmt::format("announces {} tensors, but its shards hold {}", n_expected, n_tensor));
    }
    return merged;
}

} // namespace

Shards read_shards(const std::string &path) {
    GgufFile given = read_gguf(path);
    const Metadata keys(given.context.get(), path);
    const uint64_t count = keys.number("split.count").value_or(1);
    Shards shards;
    if (count <= 1) {
        shards.files.push_back(std::move(given));
        shards.metadata = shards.files.front().context;
        return shards;
    }
    if (given.followed_by_another) {
        throw refusal(path, "is several shards written one after the other into one file",
                      "join shards with 'llama-gguf-split --merge FIRST-SHARD OUTPUT', or give the first of them");
    }
    const uint64_t given_index = keys.number("split.no").value_or(0);
    if (given_index >= count) {
        throw refusal(path, fmt::format("says that it is shard {} of {}", given_index + 1, count));
    }
    const std::string prefix = shard_prefix(given, given_index, count);
    for (uint64_t index = 0; index < count; index++) {
        shards.files.push_back(index == given_index ? given
                                                    : read_sibling(prefix + shard_suffix(index, count), index, count));
    }
    shards.metadata = merge(shards.files);
    return shards;
}

} // namespace larder
