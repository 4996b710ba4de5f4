// proc_files.h — reads the small text files in /proc and /sys.
//
// A file that cannot be read or parsed is not an error: the functions then return an empty value. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace larder {

// The whole file; empty if it cannot be read. Costs two or three system calls and one allocation.
std::string read_text(const std::string &path);

// The number in a file that contains nothing else; none for any other text ("max", "-1").
std::optional<uint64_t> read_number(const std::string &path);

// Parses all of `text` as a decimal number; none if it is anything else.
std::optional<uint64_t> to_number(std::string_view text);

// Parses a set of processors or nodes in the kernel's format, "0-3,8". Ascending; empty for any other text.
std::vector<uint32_t> parse_list(std::string_view text);

// Calls `use` with each line of `text`, without its newline.
template <typename Use> void for_each_line(std::string_view text, Use use) {
    while (!text.empty()) {
        const size_t end = text.find('\n');
        use(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
}

// The words of a line, separated by spaces or tabs.
std::vector<std::string_view> words_of(std::string_view line);

// A file of lines "key value" or "key: value unit", read once.
class KeyedFile {
  public:
    explicit KeyedFile(const std::string &path) : text_(read_text(path)) {}
    // The text after the key in the first line that begins with it; empty if there is none.
    [[nodiscard]] std::string_view value(std::string_view key) const;
    // The number at the beginning of value(); none if there is none.
    [[nodiscard]] std::optional<uint64_t> find(std::string_view key) const;
    // The number in bytes; a unit of "kB" is taken into account. 0 without the key.
    [[nodiscard]] uint64_t bytes(std::string_view key) const;

  private:
    std::string text_;
};

} // namespace larder
