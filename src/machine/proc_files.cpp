#include "machine/proc_files.h"

#include "base/bytes.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace larder {

namespace {

constexpr size_t read_bytes = 4096; // most of these files are smaller
constexpr uint32_t list_number_max = 1U << 20;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && (is_blank(text.back()) || text.back() == '\n')) {
        text.remove_suffix(1);
    }
    return text;
}

} // namespace

std::string read_text(const std::string &path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    if (!file.valid()) {
        return text;
    }
    for (size_t end = 0;;) {
        text.resize(end + read_bytes);
        const ssize_t n = ::read(file.get(), text.data() + end, read_bytes);
        end += n > 0 ? static_cast<size_t>(n) : 0;
        if (n <= 0) {
            text.resize(end);
            return text;
        }
    }
}

std::optional<uint64_t> to_number(std::string_view text) {
    uint64_t number = 0;
    const char *const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, number);
    if (code != std::errc() || stopped != end) {
        return std::nullopt;
    }
    return number;
}

// The pressure watcher reads a number every few milliseconds, so this uses one read and allocates nothing.
std::optional<uint64_t> read_number(const std::string &path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 32> text{};
    const ssize_t n = file.valid() ? ::read(file.get(), text.data(), text.size()) : -1;
    return n > 0 ? to_number(trimmed({text.data(), static_cast<size_t>(n)})) : std::nullopt;
}

std::vector<uint32_t> parse_list(std::string_view text) {
    std::vector<uint32_t> numbers;
    text = trimmed(text);
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const size_t dash = part.find('-');
        const auto first = to_number(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : to_number(part.substr(dash + 1));
        if (!first || !last || *first > *last || *last > list_number_max) {
            return {};
        }
        for (uint64_t number = *first; number <= *last; number++) {
            numbers.push_back(static_cast<uint32_t>(number));
        }
    }
    return numbers;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (size_t i = 0; i < line.size();) {
        const size_t begin = i;
        while (i < line.size() && !is_blank(line[i])) {
            i++;
        }
        if (i > begin) {
            words.push_back(line.substr(begin, i - begin));
        } else {
            i++;
        }
    }
    return words;
}

std::string_view KeyedFile::value(std::string_view key) const {
    std::string_view found;
    for_each_line(text_, [&](std::string_view line) {
        if (found.empty() && line.size() > key.size() && line.starts_with(key) &&
            (line[key.size()] == ':' || is_blank(line[key.size()]))) {
            found = trimmed(line.substr(key.size() + 1));
        }
    });
    return found;
}

std::optional<uint64_t> KeyedFile::find(std::string_view key) const {
    const std::vector<std::string_view> words = words_of(value(key));
    return words.empty() ? std::nullopt : to_number(words.front());
}

uint64_t KeyedFile::bytes(std::string_view key) const {
    return find(key).value_or(0) * (value(key).ends_with("kB") ? KiB : 1);
}

} // namespace larder
