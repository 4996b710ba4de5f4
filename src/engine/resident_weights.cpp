#include "engine/resident_weights.h"

#include "base/bytes.h"
#include "compute/compute.h"
#include "plan/address_space.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

namespace larder {

namespace {

// Measured on NVMe and virtual disks: rates are flat from 256 KiB on, and 8 reads under way saturate them.
constexpr uint64_t chunk_bytes = MiB;
constexpr size_t chunk_count = ResidentWeights::reads_max;

std::string shape_text(const int64_t *ne) { return fmt::format("[{}, {}, {}, {}]", ne[0], ne[1], ne[2], ne[3]); }

// llama.cpp asks for a few tensors in more dimensions than they have in the file (its TENSOR_ALLOW_RESHAPE). Their
// bytes are the same ones in the same order.
bool has_shape_of(const TensorInfo &info, const ggml_tensor &tensor) {
    const auto ones = std::find_if(info.shape.rbegin(), info.shape.rend(), [](int64_t extent) { return extent != 1; });
    const bool reshaped = std::max<int64_t>(1, info.shape.rend() - ones) != ggml_n_dims(&tensor);
    return reshaped || std::equal(info.shape.begin(), info.shape.end(), tensor.ne);
}

bool is_in_ram(const ggml_tensor *tensor) {
    const ggml_backend_buffer_type *type = ggml_backend_buffer_get_type(tensor->buffer);
    return ggml_backend_buffer_is_host(tensor->buffer) || type == repack_buffer_type() || type == tied_buffer_type();
}

// Page-aligned memory for the reads under way.
class Buffers {
  public:
    Buffers() : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) {
            throw out_of_memory("cannot map buffers to read weights");
        }
    }
    ~Buffers() { munmap(memory_, bytes); }
    Buffers(const Buffers &) = delete;
    Buffers &operator=(const Buffers &) = delete;
    [[nodiscard]] char *at(size_t i) const { return static_cast<char *>(memory_) + i * chunk_bytes; }
    static constexpr uint64_t bytes = chunk_bytes * chunk_count;

  private:
    void *memory_;
};

// Waits for the reads in flight, also where `progress` throws: they write into the buffers.
class ReadsEnd {
  public:
    explicit ReadsEnd(Reader &reader) : reader_(reader) {}
    ~ReadsEnd() {
        std::array<ReadResult, chunk_count> results;
        while (reader_.in_flight() > 0) {
            (void)reader_.poll(results, std::chrono::milliseconds::max());
        }
    }
    ReadsEnd(const ReadsEnd &) = delete;
    ReadsEnd &operator=(const ReadsEnd &) = delete;

  private:
    Reader &reader_;
};

} // namespace

uint64_t ResidentWeights::buffer_bytes() { return Buffers::bytes; }

void ResidentWeights::add(ggml_tensor *tensor) noexcept {
    const TensorInfo *info = layout_.find(tensor->name);
    if (!complaint_.empty()) {
        return;
    }
    if (info == nullptr) {
        complaint_ = fmt::format("the model lacks the tensor '{}'", tensor->name);
    } else if (info->type != tensor->type || !has_shape_of(*info, *tensor) ||
               info->extent.bytes != ggml_nbytes(tensor)) {
        complaint_ = fmt::format("tensor '{}' is {} {} in the file, but the model's settings ask for {} {}", info->name,
                                 info->type_name, shape_text(info->shape.data()), ggml_type_name(tensor->type),
                                 shape_text(tensor->ne));
    } else if (!is_in_ram(tensor)) {
        complaint_ = fmt::format("tensor '{}' was not placed in RAM", info->name);
    } else if (ggml_tensor *twin = twin_of(tensor)) {
        tensor->data = twin->data; // and what was allocated for it is never touched
    } else {
        pieces_.push_back({info->extent, tensor, info->extent.bytes, &info->name});
    }
}

// Where the output matrix is the embedding, some architectures of llama.cpp make two tensors of it in one buffer.
ggml_tensor *ResidentWeights::twin_of(const ggml_tensor *tensor) const noexcept {
    for (const Piece &piece : pieces_) {
        if (*piece.name == tensor->name && piece.tensor->buffer == tensor->buffer) {
            return piece.tensor;
        }
    }
    return nullptr;
}

std::vector<ResidentWeights::Chunk> ResidentWeights::chunks() const {
    std::vector<Chunk> chunks;
    for (size_t i = 0; i < pieces_.size(); i++) {
        const Extent &extent = pieces_[i].extent;
        uint64_t at = align_down(extent.offset, direct_io_alignment);
        const uint64_t end = extent.offset + extent.bytes;
        if (!chunks.empty() && chunks.back().file == extent.file) {
            Chunk &last = chunks.back();
            const uint64_t last_end = last.window.offset + last.window.bytes;
            if (at < last_end || (at == last_end && last.window.bytes < chunk_bytes)) { // go on in the last chunk
                const uint64_t grown = std::min(align_up(end, direct_io_alignment), last.window.offset + chunk_bytes);
                last.window.bytes = std::max(last.window.bytes, grown - last.window.offset);
                last.needed = std::max(last.needed, std::min(end, grown) - last.window.offset);
                at = last.window.offset + last.window.bytes;
            }
        }
        while (at < end) {
            const uint64_t bytes = std::min(chunk_bytes, align_up(end, direct_io_alignment) - at);
            chunks.push_back({extent.file, {at, bytes, 0}, std::min(bytes, end - at), i});
            at += bytes;
        }
    }
    return chunks;
}

void ResidentWeights::copy_out(const Chunk &chunk, const char *from) {
    const uint64_t begin = chunk.window.offset;
    const uint64_t end = begin + chunk.window.bytes;
    for (size_t i = chunk.first_piece; i < pieces_.size(); i++) {
        const Extent &extent = pieces_[i].extent;
        if (extent.file != chunk.file || extent.offset >= end) {
            break;
        }
        const uint64_t lo = std::max(begin, extent.offset);
        const uint64_t hi = std::min(end, extent.offset + extent.bytes);
        if (lo < hi) {
            Piece &piece = pieces_[i];
            std::memcpy(static_cast<char *>(piece.tensor->data) + (lo - extent.offset), from + (lo - begin), hi - lo);
            piece.missing -= hi - lo;
            if (piece.missing == 0) {
                repack_resident(piece.tensor);
            }
        }
    }
}

// Before the first write makes pages of them: each token passes over all of these weights, and translating addresses
// by small pages takes a part of its time (docs/benchmarks.md). Refused where the kernel has none: slower, not wrong.
void ResidentWeights::ask_for_huge_pages() const {
    std::set<ggml_backend_buffer_t> buffers;
    for (const Piece &piece : pieces_) {
        buffers.insert(piece.tensor->buffer);
    }
    const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (ggml_backend_buffer_t buffer : buffers) {
        char *const base = static_cast<char *>(ggml_backend_buffer_get_base(buffer));
        const uintptr_t begin = reinterpret_cast<uintptr_t>(base);
        const uintptr_t first = align_up(begin, page_bytes);
        const uintptr_t last = align_down(begin + ggml_backend_buffer_get_size(buffer), page_bytes);
        if (first < last) {
            madvise(base + (first - begin), last - first, MADV_HUGEPAGE);
        }
    }
}

void ResidentWeights::load(const std::function<void(uint64_t, uint64_t)> &progress) {
    if (!complaint_.empty()) {
        throw Error(ErrorKind::model, fmt::format("{}: {}", layout_.files.front(), complaint_),
                    "get the file again, or a conversion made for llama.cpp");
    }
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece &a, const Piece &b) {
        return std::pair(a.extent.file, a.extent.offset) < std::pair(b.extent.file, b.extent.offset);
    });
    ask_for_huge_pages();
    const std::vector<Chunk> reads = chunks();
    uint64_t total = 0;
    for (const Chunk &read : reads) {
        total += read.window.bytes;
    }

    const Buffers buffers;
    const ReadsEnd reads_end(reader_);
    std::array<size_t, chunk_count> in_buffer{}; // which read a buffer holds
    size_t next = 0;
    uint64_t done = 0;
    const auto start = [&](size_t buffer) {
        if (next < reads.size()) {
            const Chunk &read = reads[next];
            in_buffer.at(buffer) = next++;
            const ReadRequest request{read.file,         read.window.offset, buffers.at(buffer),
                                      read.window.bytes, read.needed,        buffer};
            reader_.submit({&request, 1});
        }
    };
    std::optional<Error> failure;
    const auto finish = [&](const ReadResult &result) {
        const Chunk &read = reads[in_buffer.at(result.tag)];
        if (result.error != 0) {
            const std::string what = fmt::format("{}: reading {} at offset {}", layout_.files[read.file],
                                                 format_bytes(read.window.bytes), read.window.offset);
            failure = result.error == ENODATA
                          ? Error(ErrorKind::io, what + ": the file ended early", "it has become shorter; get it again")
                          : Error::from_errno(result.error, what, "check the disk (dmesg) and try again");
            return;
        }
        copy_out(read, buffers.at(result.tag));
        done += read.window.bytes;
        if (progress) {
            progress(done, total);
        }
        start(result.tag);
    };

    for (size_t buffer = 0; buffer < chunk_count; buffer++) {
        start(buffer);
    }
    std::array<ReadResult, chunk_count> results;
    while (reader_.in_flight() > 0 && !failure) {
        const size_t n = reader_.poll(results, std::chrono::milliseconds::max());
        for (size_t i = 0; i < n && !failure; i++) {
            finish(results.at(i));
        }
    }
    if (failure) {
        throw *failure;
    }
}

} // namespace larder
