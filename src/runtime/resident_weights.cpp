#include "runtime/resident_weights.h"

#include "base/bytes.h"
#include "compute/compute.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <set>
#include <utility>

namespace larder {

namespace {

std::string shape_text(const int64_t *ne) { return fmt::format("[{}, {}, {}, {}]", ne[0], ne[1], ne[2], ne[3]); }

// llama.cpp requests a few tensors with more dimensions than they have in the file (its TENSOR_ALLOW_RESHAPE). The
// bytes and their order are the same.
bool has_shape_of(const TensorInfo &info, const ggml_tensor &tensor) {
    const auto ones = std::find_if(info.shape.rbegin(), info.shape.rend(), [](int64_t extent) { return extent != 1; });
    const bool reshaped = std::max<int64_t>(1, info.shape.rend() - ones) != ggml_n_dims(&tensor);
    return reshaped || std::equal(info.shape.begin(), info.shape.end(), tensor.ne);
}

bool is_in_ram(const ggml_tensor *tensor) {
    const ggml_backend_buffer_type *type = ggml_backend_buffer_get_type(tensor->buffer);
    return ggml_backend_buffer_is_host(tensor->buffer) || type == repack_buffer_type() || type == tied_buffer_type();
}

// Copies the bytes that have arrived to their tensors. Repacks tensors that are complete.
void copy_out(std::span<WeightPiece> pieces, const WeightRead &read, const char *from) {
    const uint64_t begin = read.window.offset;
    const uint64_t end = begin + read.window.bytes;
    for (size_t i = read.first_piece; i < pieces.size(); i++) {
        WeightPiece &piece = pieces[i];
        const Extent &extent = piece.extent;
        if (extent.file != read.file || extent.offset >= end) {
            break;
        }
        const uint64_t lo = std::max(begin, extent.offset);
        const uint64_t hi = std::min(end, extent.offset + extent.bytes);
        if (lo < hi) {
            std::memcpy(static_cast<char *>(piece.tensor->data) + (lo - extent.offset), from + (lo - begin), hi - lo);
            piece.missing -= hi - lo;
            if (piece.missing == 0) {
                repack_resident(piece.tensor);
            }
        }
    }
}

} // namespace

uint64_t ResidentWeights::buffer_bytes() { return weight_read_bytes_max * weight_reads_at_once; }

void ResidentWeights::add(ggml_tensor *tensor) noexcept {
    if (complaint_.empty()) {
        try {
            note(tensor);
        } catch (const std::bad_alloc &) {
            complaint_ = "out of memory"; // short enough not to allocate
        }
    }
}

void ResidentWeights::note(ggml_tensor *tensor) {
    const TensorInfo *info = layout_.find(tensor->name);
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
        tensor->data = twin->data; // the memory that was allocated for it is never touched
    } else {
        pieces_.push_back({info->extent, tensor, info->extent.bytes, &info->name});
    }
}

// Where the embedding is also the output matrix, some architectures of llama.cpp make two tensors of it in one buffer.
ggml_tensor *ResidentWeights::twin_of(const ggml_tensor *tensor) const {
    for (const WeightPiece &piece : pieces_) {
        if (*piece.name == tensor->name && piece.tensor->buffer == tensor->buffer) {
            return piece.tensor;
        }
    }
    return nullptr;
}

// Requested before the first write, because that allocates the pages. Each token reads all of these weights, and with
// small pages the address translation takes a noticeable part of the time (docs/benchmarks.md). If the kernel refuses,
// loading continues with small pages.
void ResidentWeights::ask_for_huge_pages() const {
    std::set<ggml_backend_buffer_t> buffers;
    for (const WeightPiece &piece : pieces_) {
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

void ResidentWeights::load(const std::function<void(uint64_t, uint64_t)> &progress, std::chrono::milliseconds timeout) {
    if (!complaint_.empty()) {
        throw Error(ErrorKind::model, fmt::format("{}: {}", layout_.files.front(), complaint_),
                    "get the file again, or a conversion made for llama.cpp");
    }
    std::sort(pieces_.begin(), pieces_.end(), [](const WeightPiece &a, const WeightPiece &b) {
        return std::pair(a.extent.file, a.extent.offset) < std::pair(b.extent.file, b.extent.offset);
    });
    ask_for_huge_pages();
    const std::vector<WeightRead> reads = weight_reads(pieces_);
    uint64_t total = 0;
    for (const WeightRead &read : reads) {
        total += read.window.bytes;
    }
    uint64_t done = 0;
    read_weights(reader_, layout_, reads, timeout, [&](const WeightRead &read, const char *bytes) {
        copy_out(pieces_, read, bytes);
        done += read.window.bytes;
        if (progress) {
            progress(done, total);
        }
    });
}

} // namespace larder
