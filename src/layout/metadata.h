// metadata.h — typed access to the keys of a GGUF. ggml's getters abort the process on a wrong type; these throw.
#pragma once

#include <gguf.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

// llama.cpp ends the process above these.
inline constexpr uint32_t layers_max = 512;
inline constexpr uint32_t experts_max = 1024;

// Borrows the context. Absent keys give nothing; a key of the wrong type or a negative number throws Error(model).
class Metadata {
  public:
    Metadata(const gguf_context *context, std::string path) : context_(context), path_(std::move(path)) {}

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] bool is_array(const std::string &key) const;
    [[nodiscard]] std::optional<std::string> text(const std::string &key) const;
    [[nodiscard]] std::optional<uint64_t> number(const std::string &key) const;
    // Of integers of any width or of bools, at most `count_max` of them.
    [[nodiscard]] std::vector<uint64_t> numbers(const std::string &key, size_t count_max) const;
    // A number as itself, an array as its elements, nothing if the key is absent.
    [[nodiscard]] std::vector<uint64_t> number_or_numbers(const std::string &key, size_t count_max) const;
    // How many elements an array of one of these types has.
    [[nodiscard]] std::optional<size_t> count(const std::string &key, std::initializer_list<gguf_type> types) const;
    // The elements of an array of texts, none if the key is absent. They live as long as the context.
    [[nodiscard]] std::vector<std::string_view> texts(const std::string &key) const;

    // The number, which must be there and within [low, high].
    [[nodiscard]] uint32_t required_number(const std::string &key, uint32_t low, uint32_t high) const;

  private:
    [[nodiscard]] uint64_t element(const std::string &key, gguf_type type, const void *data, size_t index) const;

    const gguf_context *context_;
    std::string path_;
};

} // namespace larder
