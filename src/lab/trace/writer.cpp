#include "base/check.h"
#include "base/error.h"
#include "lab/trace/trace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <fstream>

namespace larder {

class TraceWriter::Impl {
  public:
    Impl(const std::string &path, uint32_t top_k, size_t n_layer) : path_(path), top_k_(top_k), n_layer_(n_layer) {
        errno = 0;
        file_.open(path, std::ios::binary | std::ios::trunc);
        if (!file_) {
            throw Error::from_errno(errno, fmt::format("cannot write the trace {}", path),
                                    "name a file that can be written");
        }
    }

    void line(std::string_view text) {
        errno = 0;
        file_ << text << '\n';
        check();
    }

    void token(const TraceToken &token) {
        LARDER_CHECK(token.experts.size() == n_layer_ * top_k_);
        text_.clear();
        fmt::format_to(std::back_inserter(text_), R"({{"tok":{},"phase":"{}","layers":[)", count_++,
                       token.phase == TracePhase::prefill ? "prefill" : "decode");
        for (size_t i = 0; i < token.experts.size(); i++) {
            const bool first = i % top_k_ == 0;
            text_ += first ? (i > 0 ? "],[" : "[") : ",";
            fmt::format_to(std::back_inserter(text_), "{}", token.experts[i]);
        }
        text_ += "]]}";
        line(text_);
    }

    void close() {
        errno = 0;
        file_.close();
        check();
    }

  private:
    void check() {
        if (!file_) {
            throw Error::from_errno(errno, fmt::format("cannot write the trace {}", path_),
                                    "free some space or name another file");
        }
    }

    std::string path_;
    std::ofstream file_;
    std::string text_;
    size_t top_k_;
    size_t n_layer_;
    uint64_t count_ = 0;
};

TraceWriter::TraceWriter(const std::string &path, const std::string &architecture, uint32_t n_expert, uint32_t top_k,
                         std::span<const uint32_t> layers)
    : impl_(std::make_unique<Impl>(path, top_k, layers.size())) {
    LARDER_CHECK(top_k > 0 && top_k <= n_expert && !layers.empty());
    const nlohmann::ordered_json header = {{"larder_trace", 1},
                                           {"architecture", architecture},
                                           {"experts", n_expert},
                                           {"top_k", top_k},
                                           {"layers", std::vector<uint32_t>(layers.begin(), layers.end())}};
    impl_->line(header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::write(const TraceToken &token) { impl_->token(token); }

void TraceWriter::close() { impl_->close(); }

} // namespace larder
