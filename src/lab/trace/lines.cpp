#include "lab/trace/lines.h"

#include <fmt/format.h>

#include <cerrno>

namespace larder {

Lines::Lines(const std::string &path) : path_(path) {
    errno = 0;
    file_.open(path, std::ios::binary);
    if (!file_) {
        throw Error::from_errno(errno, fmt::format("opening the trace {}", path), "check its name");
    }
}

bool Lines::next() {
    errno = 0;
    while (std::getline(file_, text_)) {
        number_++;
        if (text_.ends_with('\r')) {
            text_.pop_back();
        }
        if (!text_.empty()) {
            return true;
        }
    }
    if (file_.bad()) {
        throw Error::from_errno(errno, fmt::format("reading the trace {}", path_));
    }
    return false;
}

Error Lines::fault_at(size_t number, std::string_view what) const {
    return {ErrorKind::model, fmt::format("{}:{}: {}", path_, number, what),
            "record the trace again; docs/traces.md describes the formats"};
}

} // namespace larder
