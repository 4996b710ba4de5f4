#include "gguf_writer.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/unique_fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ggml-cpp.h>
#include <llama.h>

#include <array>
#include <cerrno>
#include <deque>
#include <numeric>
#include <span>
#include <string>

namespace larder::make_model {
namespace {

namespace fs = std::filesystem;

// A file with a temporary name. It is removed unless it is published.
class PendingFile {
  public:
    explicit PendingFile(fs::path path)
        : path_(std::move(path)), pending_(path_.string() + ".tmp"),
          fd_(::open(pending_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
        if (!fd_.valid()) {
            const int error = errno;
            pending_.clear();
            throw Error::from_errno(error, fmt::format("creating {}", path_.string()), "check --out");
        }
    }
    PendingFile(const PendingFile &) = delete;
    PendingFile &operator=(const PendingFile &) = delete;
    ~PendingFile() {
        if (!pending_.empty()) {
            std::error_code ignored;
            fs::remove(pending_, ignored);
        }
    }

    void write(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
            if (written < 0 && errno != EINTR) {
                throw Error::from_errno(errno, fmt::format("writing {}", path_.string()));
            }
            if (written > 0) {
                bytes = bytes.subspan(static_cast<size_t>(written));
            }
        }
    }

    void publish() {
        std::error_code error;
        fs::rename(pending_, path_, error);
        if (error) {
            throw Error::from_errno(error.value(), fmt::format("renaming {} to {}", pending_.string(), path_.string()));
        }
        pending_.clear();
    }

  private:
    fs::path path_;
    fs::path pending_; // empty after publish()
    UniqueFd fd_;
};

void declare_tensors(gguf_context *metadata, std::span<const Tensor> tensors) {
    const ggml_context_ptr context(ggml_init(
        {.mem_size = (tensors.size() + 1) * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    for (const Tensor &tensor : tensors) {
        // Trailing extents of 1 do not count as dimensions, so a vector may be declared with four.
        ggml_tensor *declared = ggml_new_tensor(context.get(), tensor.type, GGML_MAX_DIMS, tensor.shape.extent.data());
        ggml_set_name(declared, tensor.shape.name.c_str());
        gguf_add_tensor(metadata, declared);
    }
}

void write_file(PendingFile &file, gguf_context *metadata, std::span<const Tensor> tensors, const Generate &generate) {
    declare_tensors(metadata, tensors);
    std::vector<std::byte> header(gguf_get_meta_size(metadata));
    gguf_get_meta_data(metadata, header.data());
    file.write(header);

    const size_t alignment = gguf_get_alignment(metadata);
    const std::vector<std::byte> zeros(alignment);
    uint64_t at = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
        LARDER_CHECK(at == gguf_get_tensor_offset(metadata, static_cast<int64_t>(i)));
        generate(tensors[i], [&](std::span<const std::byte> bytes) {
            file.write(bytes);
            at += bytes.size();
        });
        const uint64_t padding = align_up(at, alignment) - at;
        file.write(std::span(zeros).first(padding));
        at += padding;
    }
}

// The end of each shard in the list of tensors. Shards are as equal in bytes as whole tensors allow; none is empty.
std::vector<size_t> shard_ends(const std::vector<Tensor> &tensors, size_t shards) {
    const uint64_t total = std::accumulate(tensors.begin(), tensors.end(), uint64_t{0},
                                           [](uint64_t sum, const Tensor &tensor) { return sum + tensor.bytes(); });
    std::vector<size_t> ends;
    uint64_t written = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
        written += tensors[i].bytes();
        const size_t shards_left = shards - ends.size();
        const size_t tensors_left = tensors.size() - i - 1;
        const bool share_reached = written >= total * (ends.size() + 1) / shards;
        const bool rest_needed = tensors_left < shards_left;
        if (shards_left > 1 && (share_reached || rest_needed)) {
            ends.push_back(i + 1);
        }
    }
    ends.push_back(tensors.size());
    return ends;
}

} // namespace

std::vector<fs::path> model_paths(const fs::path &out, uint32_t shards) {
    if (shards == 1) {
        return {out};
    }
    const std::string prefix = out.extension() == ".gguf" ? fs::path(out).replace_extension().string() : out.string();
    std::vector<fs::path> paths;
    for (uint32_t shard = 0; shard < shards; ++shard) {
        std::array<char, 4096> path{};
        const int length = llama_split_path(path.data(), path.size(), prefix.c_str(), static_cast<int32_t>(shard),
                                            static_cast<int32_t>(shards));
        paths.emplace_back(std::string(path.data(), static_cast<size_t>(length)));
    }
    return paths;
}

void write_model(const std::vector<fs::path> &paths, const gguf_context *metadata, const std::vector<Tensor> &tensors,
                 const Generate &generate) {
    for (const fs::path &path : paths) {
        // Renaming over a device file would replace it for all programs.
        if (fs::exists(path) && !fs::is_regular_file(path)) {
            throw Error(ErrorKind::io, fmt::format("{} exists and is not a file", path.string()),
                        "choose another --out");
        }
    }
    std::deque<PendingFile> files;
    const std::vector<size_t> ends = shard_ends(tensors, paths.size());
    size_t begin = 0;
    for (size_t shard = 0; shard < paths.size(); ++shard) {
        const gguf_context_ptr shard_metadata(gguf_init_empty());
        if (shard == 0) {
            gguf_set_kv(shard_metadata.get(), metadata);
        }
        if (paths.size() > 1) {
            gguf_set_val_u16(shard_metadata.get(), "split.no", static_cast<uint16_t>(shard));
            gguf_set_val_u16(shard_metadata.get(), "split.count", static_cast<uint16_t>(paths.size()));
            gguf_set_val_i32(shard_metadata.get(), "split.tensors.count", static_cast<int32_t>(tensors.size()));
        }
        write_file(files.emplace_back(paths[shard]), shard_metadata.get(),
                   std::span(tensors).subspan(begin, ends[shard] - begin), generate);
        begin = ends[shard];
    }
    for (PendingFile &file : files) {
        file.publish();
    }
}

} // namespace larder::make_model
