#include "store/slice_sources.h"

#include "base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

namespace larder {

SliceSources::SliceSources(const ModelLayout &layout) : files_(layout.files), sources_(layout.n_slice) {
    tensors_.reserve(layout.expert_tensors.size());
    std::map<uint32_t, uint32_t> slices_of_layer;
    uint32_t slices = 0;
    for (const ExpertTensor &tensor : layout.expert_tensors) {
        const SizeClass &size_class = layout.size_classes.at(tensor.size_class);
        LARDER_CHECK(tensor.slice_bytes == size_class.slice_bytes);
        const auto index = static_cast<uint32_t>(tensors_.size());
        for (uint32_t expert = 0; expert < tensor.n_expert; ++expert) {
            const Extent extent = layout.slice_extent(tensor, expert);
            LARDER_CHECK(extent.bytes == tensor.slice_bytes && window_of(extent).bytes <= size_class.slot_bytes);
            sources_.at(tensor.first_slice + expert) = {extent.offset, extent.file, index};
        }
        tensors_.push_back(
            {tensor.slice_bytes, tensor.size_class, tensor.first_slice, tensor.layer, tensor.projection});
        slices += tensor.n_expert;
        slices_of_tensor_max_ = std::max(slices_of_tensor_max_, tensor.n_expert);
        uint32_t &of_layer = slices_of_layer[tensor.moe_layer];
        of_layer += tensor.n_expert;
        slices_of_layer_max_ = std::max(slices_of_layer_max_, of_layer);
    }
    LARDER_CHECK(slices == layout.n_slice);
}

Extent SliceSources::extent(SliceIndex slice) const {
    const Source &source = sources_[slice];
    return {source.file, source.offset, tensors_[source.tensor].slice_bytes};
}

ReadRequest SliceSources::request(SliceIndex slice, char *into, uint64_t tag) const {
    const Extent extent = this->extent(slice);
    const Window window = window_of(extent);
    return {.file = extent.file,
            .offset = window.offset,
            .into = into,
            .bytes = window.bytes,
            .bytes_needed = window.skew + extent.bytes, // only the window may extend past the end of the file
            .tag = tag};
}

uint64_t SliceSources::skew(SliceIndex slice) const { return window_of(extent(slice)).skew; }

Error SliceSources::read_error(SliceIndex slice, int errno_value) const {
    const Tensor &tensor = tensor_of(slice);
    const Extent extent = this->extent(slice);
    const std::string &file = files_.at(extent.file);
    const std::string where =
        fmt::format("layer {} {} of expert {} ({} bytes at offset {})", tensor.layer, to_string(tensor.projection),
                    slice - tensor.first_slice, extent.bytes, extent.offset);
    if (errno_value == ENODATA) {
        return {ErrorKind::io,
                fmt::format("file ended early: {} is shorter than when it was opened, reading {}", file, where),
                "restore the file, or check that its copy or download is complete"};
    }
    return Error::from_errno(errno_value, fmt::format("cannot read {} from {}", where, file),
                             "check the disk, and that the file is still there");
}

Error SliceSources::timeout_error(SliceIndex slice, std::chrono::milliseconds time) const {
    return {ErrorKind::io,
            fmt::format("no read of {} finished within {:g} s", files_.at(extent(slice).file),
                        static_cast<double>(time.count()) / 1000),
            "check the disk or network it lies on (dmesg), or copy it to a local disk"};
}

} // namespace larder
