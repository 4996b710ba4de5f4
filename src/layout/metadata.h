// metadata.h — typed access to the keys of a GGUF. ggml's getters abort the process if the type is wrong; these throw.
#pragma once

#include <gguf.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

// llama.cpp ends the process above these limits.
inline constexpr uint32_t layers_max = 512;
inline constexpr uint32_t experts_max = 1024;

// Does not own the context. For an absent key the functions return an empty value. A key of the wrong type and a
// negative number throw Error(model).
class Metadata {
  public:
    Metadata(const gguf_context *context, std::string path) : context_(context), path_(std::move(path)) {}

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] bool is_array(const std::string &key) const;
    [[nodiscard]] std::optional<std::string> text(const std::string &key) const;
    [[nodiscard]] std::optional<uint64_t> number(const std::string &key) const;
    // For integers of any width and bools. Throws for more than `count_max` elements.
    [[nodiscard]] std::vector<uint64_t> numbers(const std::string &key, size_t count_max) const;
    // One element for a number, all elements for an array, none if the key is absent.
    [[nodiscard]] std::vector<uint64_t> number_or_numbers(const std::string &key, size_t count_max) const;
    // The number of elements of an array with one of these element types.
    [[nodiscard]] std::optional<size_t> count(const std::string &key, std::initializer_list<gguf_type> types) const;
    // The elements of an array of strings; none if the key is absent. They are valid as long as the context.
    [[nodiscard]] std::vector<std::string_view> texts(const std::string &key) const;

    // The key must exist and its number must be in [low, high].
    [[nodiscard]] uint32_t required_number(const std::string &key, uint32_t low, uint32_t high) const;

  private:
    [[nodiscard]] uint64_t element(const std::string &key, gguf_type type, const void *data, size_t index) const;

    const gguf_context *context_;
    std::string path_;
};

} // namespace larder
