#include "cli/verify/logits_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

namespace larder {

namespace {

void check_open(bool open, const std::string &path) {
    if (!open && !path.empty()) {
        throw Error::from_errno(errno, path);
    }
}

} // namespace

LogitsWriter::LogitsWriter(const std::string &path) {
    if (!path.empty()) {
        file_.open(path, std::ios::binary);
    }
    check_open(file_.is_open(), path);
}

void LogitsWriter::append(Token token, std::span<const float> logits) {
    if (!file_.is_open()) {
        return;
    }
    file_.write(reinterpret_cast<const char *>(&token), sizeof(token));
    file_.write(reinterpret_cast<const char *>(logits.data()), static_cast<std::streamsize>(logits.size_bytes()));
    file_.flush(); // detects a full disk here
    if (!file_) {
        throw Error::from_errno(errno, "cannot write the logits for the comparison", "free some space in TMPDIR");
    }
}

LogitsReference::LogitsReference(const std::string &path) {
    if (!path.empty()) {
        file_.open(path, std::ios::binary);
    }
    check_open(file_.is_open(), path);
}

std::optional<Token> LogitsReference::next_token() {
    Token token = 0;
    if (!token_ && file_.is_open() && file_.read(reinterpret_cast<char *>(&token), sizeof(token))) {
        token_ = token;
    }
    return token_;
}

float LogitsReference::error_of(Token token, std::span<const float> logits) {
    constexpr float far = std::numeric_limits<float>::max();
    if (!file_.is_open()) {
        return 0;
    }
    const bool same_token = next_token() == token;
    token_.reset();
    logits_.resize(logits.size());
    file_.read(reinterpret_cast<char *>(logits_.data()), static_cast<std::streamsize>(logits_.size() * sizeof(float)));
    if (!file_ || !same_token) {
        return far;
    }
    float largest = 0;
    float farthest = 0;
    for (size_t i = 0; i < logits.size(); i++) {
        if (std::isnan(logits[i]) != std::isnan(logits_[i])) {
            return far;
        }
        largest = std::max(largest, std::abs(logits_[i]));
        farthest = std::max(farthest, std::abs(logits_[i] - logits[i]));
    }
    const float error = farthest / largest;
    return std::isfinite(error) ? error : far;
}

} // namespace larder
