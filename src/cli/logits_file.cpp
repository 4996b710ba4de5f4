#include "cli/logits_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

namespace larder {

namespace {

FileHandle open_file(const std::string &path, const char *mode) {
    FileHandle file(path.empty() ? nullptr : std::fopen(path.c_str(), mode));
    if (file == nullptr && !path.empty()) {
        throw Error::from_errno(errno, path);
    }
    return file;
}

} // namespace

LogitsWriter::LogitsWriter(const std::string &path) : file_(open_file(path, "wb")) {}

void LogitsWriter::append(Token token, std::span<const float> logits) {
    if (file_ != nullptr && (std::fwrite(&token, sizeof(token), 1, file_.get()) != 1 ||
                             std::fwrite(logits.data(), sizeof(float), logits.size(), file_.get()) != logits.size())) {
        throw Error::from_errno(errno, "cannot write the logits to compare with", "make room in TMPDIR");
    }
}

LogitsReference::LogitsReference(const std::string &path) : file_(open_file(path, "rb")) {}

std::optional<Token> LogitsReference::next_token() {
    Token token = 0;
    if (!token_ && file_ != nullptr && std::fread(&token, sizeof(token), 1, file_.get()) == 1) {
        token_ = token;
    }
    return token_;
}

float LogitsReference::error_of(Token token, std::span<const float> logits) {
    constexpr float far = std::numeric_limits<float>::max();
    if (file_ == nullptr) {
        return 0;
    }
    const bool same_token = next_token() == token;
    token_.reset();
    logits_.resize(logits.size());
    if (std::fread(logits_.data(), sizeof(float), logits_.size(), file_.get()) != logits_.size() || !same_token) {
        return far;
    }
    float largest = 0;
    float farthest = 0;
    for (size_t i = 0; i < logits.size(); i++) {
        largest = std::max(largest, std::abs(logits_[i]));
        farthest = std::max(farthest, std::abs(logits_[i] - logits[i]));
    }
    const float error = farthest / largest;
    return std::isfinite(error) ? error : far;
}

} // namespace larder
