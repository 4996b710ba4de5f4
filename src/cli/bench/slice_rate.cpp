#include "cli/bench/slice_rate.h"

namespace larder {

std::vector<uint64_t> slice_read_bytes(const ModelLayout &layout) {
    std::vector<uint64_t> sizes;
    for (const SizeClass &size_class : layout.size_classes) {
        // Two size classes may have windows of the same size.
        if (size_class.n_slices_per_token > 0 && (sizes.empty() || sizes.back() != size_class.slot_bytes)) {
            sizes.push_back(size_class.slot_bytes);
        }
    }
    return sizes;
}

uint64_t token_read_bytes(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        bytes += size_class.n_slices_per_token * size_class.slot_bytes;
    }
    return bytes;
}

double slice_rate(const ModelLayout &layout, const DiskReport &report) {
    double seconds = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        const DiskSample *best = report.best(size_class.slot_bytes, true);
        if (best != nullptr && best->bytes_per_second > 0) {
            seconds +=
                static_cast<double>(size_class.n_slices_per_token * size_class.slot_bytes) / best->bytes_per_second;
        }
    }
    return seconds > 0 ? static_cast<double>(token_read_bytes(layout)) / seconds : 0;
}

} // namespace larder
