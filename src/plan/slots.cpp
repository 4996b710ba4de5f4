// Sizes of arenas, and how slots are distributed over size classes.
#include "plan/slots.h"

#include "plan/plan.h"

#include <algorithm>

namespace larder {

namespace {

// Distributes `bytes` over the classes that are not full, in proportion to the bytes that one token uses in each class.
// Repeats with the bytes that a class could not use because it became full. Returns the rest. Size classes whose layers
// use equal shares of their experts get equal cached shares. This is right because an expert is a hit only with all its
// slices. Slices of layers that use a smaller share of their experts are worth less each (docs/replacement.md has the
// replay).
uint64_t share_by_demand(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots) {
    bool again = true;
    while (again) {
        again = false;
        uint64_t weights = 0;
        for (size_t i = 0; i < classes.size(); i++) {
            if (slots[i] < classes[i].n_slices) {
                weights += classes[i].n_slices_per_token * classes[i].slot_bytes;
            }
        }
        if (weights == 0) {
            break; // all classes are full, or no token uses them
        }
        const uint64_t whole = bytes;
        for (size_t i = 0; i < classes.size(); i++) {
            const SizeClass &size_class = classes[i];
            const uint64_t missing = size_class.n_slices - slots[i];
            if (missing == 0) {
                continue;
            }
            // 128 bits, because both factors may be terabytes.
            const auto weight = static_cast<unsigned __int128>(size_class.n_slices_per_token) * size_class.slot_bytes;
            const auto share = static_cast<uint64_t>(weight * whole / weights);
            const uint64_t given = std::min(share / size_class.slot_bytes, missing);
            slots[i] += given;
            bytes -= given * size_class.slot_bytes;
            again = again || given == missing;
        }
    }
    return bytes;
}

// The rest is less than one slot of each class, but together it is often enough for a few slots. Larger classes come
// first.
void use_remainder(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots) {
    for (size_t i = classes.size(); i-- > 0;) {
        const uint64_t given = std::min(bytes / classes[i].slot_bytes, classes[i].n_slices - slots[i]);
        slots[i] += given;
        bytes -= given * classes[i].slot_bytes;
    }
}

} // namespace

uint64_t bytes_of(const std::vector<SizeClass> &classes, const std::vector<uint64_t> &slots) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < classes.size(); i++) {
        bytes += slots[i] * classes[i].slot_bytes;
    }
    return bytes;
}

void share_out(const std::vector<SizeClass> &classes, uint64_t bytes, std::vector<uint64_t> &slots) {
    use_remainder(classes, share_by_demand(classes, bytes, slots), slots);
}

uint64_t floor_slots(const SizeClass &size_class) {
    return std::min(size_class.n_slices_per_token, size_class.n_slices);
}

uint64_t floor_bytes(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        bytes += floor_slots(size_class) * size_class.slot_bytes;
    }
    return bytes;
}

uint64_t all_experts_bytes(const ModelLayout &layout) {
    uint64_t bytes = 0;
    for (const SizeClass &size_class : layout.size_classes) {
        bytes += size_class.n_slices * size_class.slot_bytes;
    }
    return bytes;
}

uint64_t cache_bytes(const ModelLayout &layout, double share) {
    const uint64_t all = all_experts_bytes(layout);
    return std::min(all, static_cast<uint64_t>(share * static_cast<double>(all)));
}

bool holds_all_experts(const ModelLayout &layout, const MemoryPlan &plan) {
    for (size_t i = 0; i < plan.slots.size(); i++) {
        if (plan.slots[i] < layout.size_classes[i].n_slices) {
            return false;
        }
    }
    return true;
}

double cached_share(const ModelLayout &layout, const MemoryPlan &plan) {
    double least = 1;
    for (size_t i = 0; i < plan.slots.size(); i++) {
        least =
            std::min(least, static_cast<double>(plan.slots[i]) / static_cast<double>(layout.size_classes[i].n_slices));
    }
    return least;
}

} // namespace larder
