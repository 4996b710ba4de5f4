// rewritten_gguf.h — a copy of a GGUF with other keys, fewer tensors or other types.
#pragma once

#include <ggml-cpp.h>
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace larder::test {

class RewrittenGguf {
  public:
    explicit RewrittenGguf(const std::string &from) {
        ggml_context *tensors = nullptr;
        from_.reset(gguf_init_from_file(from.c_str(), {false, &tensors}));
        tensors_.reset(tensors);
        EXPECT_NE(from_, nullptr) << from;
        gguf_set_kv(keys_.get(), from_.get());
    }

    // For use with ggml's setters.
    [[nodiscard]] gguf_context *keys() { return keys_.get(); }

    RewrittenGguf &set(const std::string &key, uint32_t value) {
        gguf_set_val_u32(keys_.get(), key.c_str(), value);
        return *this;
    }
    RewrittenGguf &set(const std::string &key, const char *value) {
        gguf_set_val_str(keys_.get(), key.c_str(), value);
        return *this;
    }
    RewrittenGguf &drop_key(const std::string &key) {
        EXPECT_GE(gguf_remove_key(keys_.get(), key.c_str()), 0) << key;
        return *this;
    }
    RewrittenGguf &drop(const std::string &tensor) {
        EXPECT_GE(gguf_find_tensor(from_.get(), tensor.c_str()), 0) << tensor;
        dropped_.insert(tensor);
        return *this;
    }
    // The tensor's data become zeros.
    RewrittenGguf &set_type(const std::string &tensor, ggml_type type) {
        EXPECT_GE(gguf_find_tensor(from_.get(), tensor.c_str()), 0) << tensor;
        types_[tensor] = type;
        return *this;
    }

    std::string write(const std::string &path) {
        std::vector<std::vector<char>> zeros;
        for (int64_t i = 0; i < gguf_get_n_tensors(from_.get()); i++) {
            const char *name = gguf_get_tensor_name(from_.get(), i);
            if (dropped_.contains(name)) {
                continue;
            }
            ggml_tensor tensor = *ggml_get_tensor(tensors_.get(), name);
            if (const auto type = types_.find(name); type != types_.end()) {
                tensor.type = type->second;
                tensor.nb[0] = ggml_type_size(tensor.type);
                tensor.nb[1] = ggml_row_size(tensor.type, tensor.ne[0]);
                tensor.nb[2] = tensor.nb[1] * static_cast<size_t>(tensor.ne[1]);
                tensor.nb[3] = tensor.nb[2] * static_cast<size_t>(tensor.ne[2]);
                zeros.emplace_back(ggml_nbytes(&tensor));
                tensor.data = zeros.back().data();
            }
            gguf_add_tensor(keys_.get(), &tensor);
        }
        EXPECT_TRUE(gguf_write_to_file(keys_.get(), path.c_str(), false)) << path;
        return path;
    }

  private:
    gguf_context_ptr from_;
    ggml_context_ptr tensors_;
    gguf_context_ptr keys_{gguf_init_empty()};
    std::set<std::string> dropped_;
    std::map<std::string, ggml_type> types_;
};

} // namespace larder::test
