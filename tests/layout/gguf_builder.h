// gguf_builder.h — writes GGUF files byte by byte, valid ones and all kinds of broken ones.
#pragma once

#include <ggml.h>
#include <gguf.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

// A temporary folder for one test, removed by the destructor.
class TempDir {
  public:
    TempDir() {
        std::string pattern = (std::filesystem::temp_directory_path() / "larder-layout-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TempDir() { std::filesystem::remove_all(path_); }
    TempDir(const TempDir &) = delete;
    TempDir &operator=(const TempDir &) = delete;

    [[nodiscard]] std::string file(const std::string &name) const { return (path_ / name).string(); }

    // Writes `head`, then extends the file to `bytes` with a hole, which takes no disk space.
    std::string write(const std::string &name, std::string_view head, uint64_t bytes) const {
        std::filesystem::remove(file(name)); // ext4 flushes a file that is truncated and rewritten
        std::ofstream(file(name), std::ios::binary).write(head.data(), static_cast<std::streamsize>(head.size()));
        std::filesystem::resize_file(file(name), bytes);
        return file(name);
    }
    std::string write(const std::string &name, std::string_view head) const { return write(name, head, head.size()); }

  private:
    std::filesystem::path path_;
};

class GgufBuilder {
  public:
    uint32_t version = GGUF_VERSION;
    uint64_t extra_keys = 0;    // counted in the header, but absent
    uint64_t extra_tensors = 0; // counted in the header, but absent

    template <typename T> static std::string raw(T value) {
        return {reinterpret_cast<const char *>(&value), sizeof(T)};
    }
    static std::string text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

    GgufBuilder &key_raw(std::string_view key, int32_t type, std::string_view value) {
        keys_ += text(key) + raw(type) + std::string(value);
        n_key_++;
        return *this;
    }
    GgufBuilder &key(std::string_view key, uint32_t value) { return key_raw(key, GGUF_TYPE_UINT32, raw(value)); }
    GgufBuilder &key_u16(std::string_view key, uint16_t value) { return key_raw(key, GGUF_TYPE_UINT16, raw(value)); }
    GgufBuilder &key_text(std::string_view key, std::string_view value) {
        return key_raw(key, GGUF_TYPE_STRING, text(value));
    }
    GgufBuilder &key_texts(std::string_view key, const std::vector<std::string> &values) {
        std::string bytes = raw<int32_t>(GGUF_TYPE_STRING) + raw<uint64_t>(values.size());
        for (const std::string &value : values) {
            bytes += text(value);
        }
        return key_raw(key, GGUF_TYPE_ARRAY, bytes);
    }
    template <typename T>
    GgufBuilder &key_array(std::string_view key, gguf_type element_type, const std::vector<T> &values) {
        std::string bytes = raw<int32_t>(element_type) + raw<uint64_t>(values.size());
        for (const T &value : values) {
            bytes += raw(value);
        }
        return key_raw(key, GGUF_TYPE_ARRAY, bytes);
    }

    // Tensors are adjacent, as the format requires; tensor_at() sets another offset.
    GgufBuilder &tensor(std::string_view name, ggml_type type, const std::vector<int64_t> &shape) {
        return tensor_at(data_bytes_, name, type, shape);
    }
    GgufBuilder &tensor_at(uint64_t offset, std::string_view name, ggml_type type, const std::vector<int64_t> &shape) {
        tensors_ += text(name) + raw(static_cast<uint32_t>(shape.size()));
        auto bytes = static_cast<uint64_t>(ggml_type_size(type)); // may overflow for hostile shapes, as intended
        uint64_t elements = 1;
        for (const int64_t extent : shape) {
            tensors_ += raw(extent);
            elements *= static_cast<uint64_t>(extent);
        }
        bytes *= elements / static_cast<uint64_t>(ggml_blck_size(type));
        tensors_ += raw<int32_t>(type) + raw(offset);
        data_bytes_ += (bytes + alignment - 1) / alignment * alignment;
        n_tensor_++;
        return *this;
    }

    [[nodiscard]] std::string header() const {
        return "GGUF" + raw(version) + raw(n_tensor_ + extra_tensors) + raw(n_key_ + extra_keys);
    }
    // Everything except the data of the tensors.
    [[nodiscard]] std::string metadata() const {
        std::string bytes = header() + keys_ + tensors_;
        bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
        return bytes;
    }
    [[nodiscard]] uint64_t file_bytes() const { return metadata().size() + data_bytes_; }

    std::string write(const TempDir &dir, const std::string &name = "model.gguf") const {
        return dir.write(name, metadata(), file_bytes());
    }

  private:
    static constexpr uint64_t alignment = GGUF_DEFAULT_ALIGNMENT;
    std::string keys_;
    std::string tensors_;
    uint64_t n_key_ = 0;
    uint64_t n_tensor_ = 0;
    uint64_t data_bytes_ = 0;
};

struct SmallMoe {
    uint32_t n_layer = 2;
    uint32_t n_expert = 4;
    uint32_t n_expert_used = 2;
};

inline GgufBuilder moe_keys(const SmallMoe &shape = {}) {
    GgufBuilder gguf;
    gguf.key_text("general.architecture", "testmoe").key_text("general.name", "Test MoE");
    gguf.key("testmoe.block_count", shape.n_layer).key("testmoe.context_length", 512);
    gguf.key("testmoe.expert_count", shape.n_expert).key("testmoe.expert_used_count", shape.n_expert_used);
    return gguf;
}

// Slices: gate and up Q8_0 of 32 x 8 (272 bytes), down Q8_0 of 32 x 32 (1088 bytes).
inline void add_moe_layer(GgufBuilder &gguf, uint32_t layer, int64_t n_expert) {
    const std::string block = fmt::format("blk.{}.", layer);
    gguf.tensor(block + "attn_norm.weight", GGML_TYPE_F32, {32});
    gguf.tensor(block + "attn_q.weight", GGML_TYPE_Q8_0, {32, 32});
    gguf.tensor(block + "attn_k.weight", GGML_TYPE_Q8_0, {32, 32});
    gguf.tensor(block + "ffn_gate_inp.weight", GGML_TYPE_F32, {32, n_expert});
    gguf.tensor(block + "ffn_gate_exps.weight", GGML_TYPE_Q8_0, {32, 8, n_expert});
    gguf.tensor(block + "ffn_up_exps.weight", GGML_TYPE_Q8_0, {32, 8, n_expert});
    gguf.tensor(block + "ffn_down_exps.weight", GGML_TYPE_Q8_0, {32, 32, n_expert});
}

inline void add_small_moe_tensors(GgufBuilder &gguf, const SmallMoe &shape) {
    gguf.tensor("token_embd.weight", GGML_TYPE_Q8_0, {32, 10});
    for (uint32_t layer = 0; layer < shape.n_layer; layer++) {
        add_moe_layer(gguf, layer, shape.n_expert);
    }
    gguf.tensor("output.weight", GGML_TYPE_Q8_0, {32, 10});
}

inline GgufBuilder small_moe(const SmallMoe &shape = {}) {
    GgufBuilder gguf = moe_keys(shape);
    add_small_moe_tensors(gguf, shape);
    return gguf;
}

} // namespace larder
