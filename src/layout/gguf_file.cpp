#include "layout/gguf_file.h"

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "layout/refusal.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace larder {

namespace {

// ggml compares each key and each tensor name with all before it, so a count bounds its time; and it makes room for as
// many strings as the remaining bytes could hold (32 bytes for 8, twice), so what it may read bounds its memory. The
// largest models known have some 2000 tensors, 100 keys and 20 MB of vocabulary.
constexpr uint64_t count_max = 32768;
constexpr uint64_t metadata_bytes_max = 64 * MiB;

// magic, version (u32), number of tensors (i64), number of keys (i64)
constexpr size_t header_bytes = 24;

// Buffered reads of the head of one file. ggml asks for a few bytes at a time.
class MetadataSource {
  public:
    explicit MetadataSource(const std::string &path) : buffer_(256 * KiB) {
        // Without O_NONBLOCK the open of a pipe would wait for a writer.
        fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        struct stat status = {};
        if (!fd_.valid() || ::fstat(fd_.get(), &status) != 0) {
            throw cannot_open(path, errno);
        }
        if (S_ISDIR(status.st_mode)) {
            throw refusal(path, "is a directory", "give the .gguf file in it");
        }
        if (!S_ISREG(status.st_mode)) {
            throw refusal(path, "is not a regular file", "give a .gguf file");
        }
        if (status.st_size == 0) {
            throw refusal(path, "is empty", "download it again");
        }
        bytes_ = static_cast<uint64_t>(status.st_size);
    }

    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    [[nodiscard]] int read_errno() const { return read_errno_; } // 0: every read succeeded

    // Returns how many of `length` bytes at `offset` there were.
    size_t read(void *output, uint64_t offset, size_t length) {
        size_t done = 0;
        while (done < length) {
            const uint64_t at = offset + done;
            if ((at < buffer_offset_ || at >= buffer_offset_ + buffer_filled_) && !fill(at)) {
                break;
            }
            const auto skip = static_cast<size_t>(at - buffer_offset_);
            const size_t part = std::min(length - done, buffer_filled_ - skip);
            std::memcpy(static_cast<char *>(output) + done, buffer_.data() + skip, part);
            done += part;
        }
        return done;
    }

  private:
    bool fill(uint64_t offset) {
        buffer_offset_ = offset;
        buffer_filled_ = 0;
        ssize_t got = 0;
        do {
            got = ::pread(fd_.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(offset));
        } while (got < 0 && errno == EINTR);
        if (got < 0) {
            read_errno_ = errno;
            return false;
        }
        buffer_filled_ = static_cast<size_t>(got);
        return got > 0;
    }

    UniqueFd fd_;
    uint64_t bytes_ = 0;
    int read_errno_ = 0;
    std::vector<char> buffer_;
    uint64_t buffer_offset_ = 0;
    size_t buffer_filled_ = 0;
};

size_t read_source(void *source, void *output, uint64_t offset, size_t length) {
    return static_cast<MetadataSource *>(source)->read(output, offset, length);
}

// ggml tells why it refuses a file through its process-wide log only. While a LogCapture lives, that log ends here: it
// keeps the first error, which is the precise one (those after it say what failed in turn). One lives at a time.
class LogCapture {
  public:
    LogCapture() : lock_(mutex_) {
        ggml_log_get(&callback_, &user_data_);
        ggml_log_set(&LogCapture::keep_first_error, this);
    }
    ~LogCapture() { ggml_log_set(callback_, user_data_); }
    LogCapture(const LogCapture &) = delete;
    LogCapture &operator=(const LogCapture &) = delete;

    // "function: reason\n" is what ggml writes; this is the reason.
    [[nodiscard]] std::string reason() const {
        std::string text = first_error_;
        const size_t colon = text.find(": ");
        if (colon != std::string::npos && text.find(' ') > colon) {
            text.erase(0, colon + 2);
        }
        while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
            text.pop_back();
        }
        return text.empty() ? "it cannot be read" : text;
    }

  private:
    static void keep_first_error(ggml_log_level level, const char *text, void *self) {
        auto &first_error = static_cast<LogCapture *>(self)->first_error_;
        if (level == GGML_LOG_LEVEL_ERROR && first_error.empty()) {
            first_error = text;
        }
    }

    static inline std::mutex mutex_;
    std::lock_guard<std::mutex> lock_;
    ggml_log_callback callback_ = nullptr;
    void *user_data_ = nullptr;
    std::string first_error_;
};

void check_version(uint32_t version, const std::string &path) {
    if (version != 0 && (version & 0xffff) == 0) {
        throw refusal(path, "is a GGUF of the other byte order", "take the little-endian GGUF of the model");
    }
    if (version < 2 || version > GGUF_VERSION) {
        throw refusal(path, fmt::format("is a GGUF of version {}, only 2 to {} can be read", version, GGUF_VERSION),
                      convert_again);
    }
}

// What ggml would answer badly (a foreign file) or slowly (hostile counts). A header that is cut short is left to it.
void check_header(MetadataSource &source, const std::string &path) {
    std::array<char, header_bytes> header{};
    const size_t got = source.read(header.data(), 0, header.size());
    if (got >= 4 && std::memcmp(header.data(), GGUF_MAGIC, 4) != 0) {
        throw refusal(path, "is not a GGUF file", "give a model in GGUF format");
    }
    if (got < header.size()) {
        return;
    }
    uint32_t version = 0;
    uint64_t n_tensor = 0;
    uint64_t n_key = 0;
    std::memcpy(&version, header.data() + 4, sizeof(version));
    std::memcpy(&n_tensor, header.data() + 8, sizeof(n_tensor));
    std::memcpy(&n_key, header.data() + 16, sizeof(n_key));
    check_version(version, path);
    if (n_tensor > count_max) {
        throw refusal(path, fmt::format("claims to hold {} tensors, more than any model has", n_tensor));
    }
    if (n_key > count_max) {
        throw refusal(path, fmt::format("claims to hold {} metadata keys, more than any model has", n_key));
    }
}

} // namespace

GgufFile read_gguf(const std::string &path) {
    MetadataSource source(path);
    check_header(source, path);
    GgufFile file{path, source.bytes(), nullptr};
    const LogCapture log;
    try {
        const gguf_init_params params = {/*no_alloc=*/true, /*ctx=*/nullptr};
        file.context.reset(
            gguf_init_from_callback(&read_source, &source, 0, std::min(source.bytes(), metadata_bytes_max), params),
            &gguf_free);
    } catch (const std::bad_alloc &) {
        throw refusal(path, "its metadata does not fit into memory");
    }
    if (source.read_errno() != 0) {
        throw Error::from_errno(source.read_errno(), fmt::format("cannot read {}", path), "check the disk (dmesg)");
    }
    if (file.context == nullptr) {
        throw refusal(path, fmt::format("is not a readable GGUF model: {}", log.reason()));
    }
    return file;
}

} // namespace larder
