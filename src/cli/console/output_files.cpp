#include "cli/console/output_files.h"

#include "base/error.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <regex>
#include <system_error>

namespace larder {

namespace {

constexpr int links_max = 40; // the kernel's limit

// The canonical path of a file that does not exist yet.
std::filesystem::path future_path(const std::string &path) {
    std::error_code error;
    const std::filesystem::path place = std::filesystem::absolute(end_of_links(path), error);
    std::filesystem::path resolved = std::filesystem::weakly_canonical(place, error);
    return error ? place.lexically_normal() : resolved;
}

bool same_file(const std::string &a, const std::string &b) {
    struct stat info_a = {};
    struct stat info_b = {};
    const bool exists_a = stat(a.c_str(), &info_a) == 0;
    const bool exists_b = stat(b.c_str(), &info_b) == 0;
    if (exists_a && exists_b) {
        return S_ISREG(info_a.st_mode) && info_a.st_dev == info_b.st_dev && info_a.st_ino == info_b.st_ino;
    }
    return !exists_a && !exists_b && future_path(a) == future_path(b);
}

void refuse_if_same(const NamedFile &output, const NamedFile &other, const char *effect) {
    if (!output.path.empty() && !other.path.empty() && same_file(output.path, other.path)) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: {} is also the file of {}{}", output.flag, output.path, other.flag, effect),
                    "use another file");
    }
}

} // namespace

std::string end_of_links(const std::string &path) {
    std::error_code error;
    std::filesystem::path place = path;
    for (int i = 0; std::filesystem::is_symlink(place, error); i++) {
        if (i == links_max) {
            return path;
        }
        place = place.parent_path() / std::filesystem::read_symlink(place, error);
    }
    return place;
}

std::vector<NamedFile> model_files(const std::string &flag, const std::string &path) {
    static const std::regex shard_name(R"(-\d{5}-of-(\d{5})\.gguf$)");
    std::vector<NamedFile> files = {{flag, path}};
    std::smatch suffix;
    if (!std::regex_search(path, suffix, shard_name)) {
        return files;
    }
    const std::string prefix = suffix.prefix();
    for (int i = 1, count = std::stoi(suffix[1]); i <= count; i++) {
        files.push_back({flag, fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i, count)});
    }
    return files;
}

void refuse_overwriting(const std::vector<NamedFile> &inputs, const std::vector<NamedFile> &outputs) {
    for (size_t i = 0; i < outputs.size(); i++) {
        for (const NamedFile &input : inputs) {
            refuse_if_same(outputs[i], input, ", which would be lost");
        }
        for (size_t j = 0; j < i; j++) {
            refuse_if_same(outputs[i], outputs[j], "");
        }
    }
}

} // namespace larder
