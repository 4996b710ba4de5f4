#include "layout/gguf_file.h"

#include "base/bytes.h"
#include "ggml_log/ggml_log.h"
#include "layout/metadata_source.h"
#include "layout/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace larder {

namespace {

// ggml compares each key and each tensor name with all previous ones, so a limit on their number bounds its time. It
// reserves space for as many strings as the remaining bytes could contain (32 bytes for 8, twice), so a limit on the
// bytes that it may read bounds its memory. The largest known models have about 2000 tensors, 100 keys and 20 MB of
// vocabulary.
constexpr uint64_t count_max = 32768;
constexpr uint64_t metadata_bytes_max = 64 * MiB;

// magic, version (u32), number of tensors (i64), number of keys (i64)
constexpr size_t header_bytes = 24;

size_t read_source(void *source, void *output, uint64_t offset, size_t length) {
    return static_cast<MetadataSource *>(source)->read(output, offset, length);
}

bool has_magic(MetadataSource &source, uint64_t offset) {
    std::array<char, 4> magic{};
    return source.read(magic.data(), offset, magic.size()) == magic.size() &&
           std::memcmp(magic.data(), GGUF_MAGIC, magic.size()) == 0;
}

void check_version(uint32_t version, const std::string &path) {
    if (version != 0 && (version & 0xffff) == 0) {
        throw refusal(path, "is a GGUF of the other byte order", "take the little-endian GGUF of the model");
    }
    if (version < 2 || version > GGUF_VERSION) {
        throw refusal(path, fmt::format("is a GGUF of version {}, only 2 to {} can be read", version, GGUF_VERSION),
                      convert_again);
    }
}

// Refuses files of other formats, for which ggml's message would be misleading, and counts that would take ggml very
// long. ggml itself reports a truncated header.
void check_header(MetadataSource &source, const std::string &path) {
    std::array<char, header_bytes> header{};
    const size_t got = source.read(header.data(), 0, header.size());
    if (got >= 4 && std::memcmp(header.data(), GGUF_MAGIC, 4) != 0) {
        throw refusal(path, "is not a GGUF file", "give a model in GGUF format");
    }
    if (got < header.size()) {
        return;
    }
    uint32_t version = 0;
    uint64_t n_tensor = 0;
    uint64_t n_key = 0;
    std::memcpy(&version, header.data() + 4, sizeof(version));
    std::memcpy(&n_tensor, header.data() + 8, sizeof(n_tensor));
    std::memcpy(&n_key, header.data() + 16, sizeof(n_key));
    check_version(version, path);
    if (n_tensor > count_max) {
        throw refusal(path, fmt::format("claims to hold {} tensors, more than any model has", n_tensor));
    }
    if (n_key > count_max) {
        throw refusal(path, fmt::format("claims to hold {} metadata keys, more than any model has", n_key));
    }
}

// ggml logs "function: reason". Returns the reason.
std::string reason_of(const LoggedErrors &logged) {
    std::string reason = logged.first();
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos && reason.find(' ') > colon) {
        reason.erase(0, colon + 2);
    }
    return reason.empty() ? "it cannot be read" : printable(reason, reason_characters_max);
}

// ggml ends the process when it merges metadata with an empty key.
void check_keys(const GgufFile &file) {
    for (int64_t id = 0; id < gguf_get_n_kv(file.context.get()); id++) {
        if (*gguf_get_key(file.context.get(), id) == '\0') {
            throw refusal(file.path, "has a metadata key whose name is empty");
        }
    }
}

// The end of the tensor data; 0 if the numbers overflow. open_layout() refuses such tensors by name.
uint64_t data_end(const gguf_context *context) {
    uint64_t end = 0;
    for (int64_t id = 0; id < gguf_get_n_tensors(context); id++) {
        uint64_t tensor_end = 0;
        if (__builtin_add_overflow(gguf_get_tensor_offset(context, id), gguf_get_tensor_size(context, id),
                                   &tensor_end)) {
            return 0;
        }
        end = std::max(end, tensor_end);
    }
    return __builtin_add_overflow(end, gguf_get_data_offset(context), &end) ? 0 : end;
}

// The data of the last tensor may or may not be padded to the alignment.
bool is_followed_by_another(MetadataSource &source, const gguf_context *context) {
    const uint64_t end = data_end(context);
    return end > 0 && end < source.bytes() &&
           (has_magic(source, end) || has_magic(source, align_up(end, gguf_get_alignment(context))));
}

} // namespace

GgufFile read_gguf(const std::string &path) {
    MetadataSource source(path);
    check_header(source, path);
    GgufFile file{path, source.identity(), nullptr};
    const LoggedErrors logged;
    try {
        const gguf_init_params params = {/*no_alloc=*/true, /*ctx=*/nullptr};
        file.context.reset(
            gguf_init_from_callback(&read_source, &source, 0, std::min(source.bytes(), metadata_bytes_max), params),
            &gguf_free);
    } catch (const std::bad_alloc &) {
        throw refusal(path, "its metadata does not fit into memory");
    }
    if (source.read_errno() != 0) {
        throw Error::from_errno(source.read_errno(), fmt::format("cannot read {}", path),
                                "check the disk (dmesg) and try again");
    }
    if (file.context == nullptr) {
        throw refusal(path, fmt::format("is not a readable GGUF model: {}", reason_of(logged)));
    }
    check_keys(file);
    file.followed_by_another = is_followed_by_another(source, file.context.get());
    source.check_unchanged();
    return file;
}

} // namespace larder
