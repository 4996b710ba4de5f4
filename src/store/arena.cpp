#include "store/arena.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "layout/layout.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

namespace larder {
namespace {

constexpr uint64_t huge_page_bytes = 2 * MiB;
constexpr int dontneed_locked = 24; // MADV_DONTNEED_LOCKED; older C libraries do not define it

uint64_t total_bytes(std::span<const SizeClass> size_classes, std::span<const uint64_t> slots) {
    LARDER_CHECK(slots.size() == size_classes.size());
    uint64_t sum = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        uint64_t bytes = 0;
        LARDER_CHECK(slots[i] > 0 || size_classes[i].n_slices == 0); // with no slot a batch would never end
        LARDER_CHECK(size_classes[i].slot_bytes % direct_io_alignment == 0);
        LARDER_CHECK(!__builtin_mul_overflow(size_classes[i].slot_bytes, slots[i], &bytes));
        LARDER_CHECK(!__builtin_add_overflow(sum, bytes, &sum));
    }
    LARDER_CHECK(sum > 0 && sum <= UINT64_MAX - huge_page_bytes);
    return sum;
}

// Maps one huge page more than `bytes`, and unmaps the parts before the first huge-page boundary and after the end.
char *map_aligned(uint64_t bytes) {
    void *mapped = ::mmap(nullptr, bytes + huge_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        throw Error::from_errno(errno, fmt::format("cannot map an arena of {} for experts", format_bytes(bytes)),
                                "lower --ram, or raise the limit on the process's address space");
    }
    const auto address = reinterpret_cast<uint64_t>(mapped);
    const uint64_t before = align_up(address, huge_page_bytes) - address;
    char *const base = static_cast<char *>(mapped) + before;
    if (before > 0) {
        ::munmap(mapped, before);
    }
    if (before < huge_page_bytes) {
        ::munmap(base + bytes, huge_page_bytes - before);
    }
    return base;
}

// MADV_DONTNEED fails for locked memory (--mlock). Pages that are touched later are locked again.
bool drop(char *begin, uint64_t bytes) {
    if (::madvise(begin, bytes, MADV_DONTNEED) == 0 || ::madvise(begin, bytes, dontneed_locked) == 0) {
        return true;
    }
    // Kernels before 5.18 do not support MADV_DONTNEED_LOCKED.
    ::munlock(begin, bytes);
    const bool dropped = ::madvise(begin, bytes, MADV_DONTNEED) == 0;
    ::mlock2(begin, bytes, MLOCK_ONFAULT);
    return dropped;
}

} // namespace

Arena::Arena(std::span<const SizeClass> size_classes, std::span<const uint64_t> slots)
    : bytes_(total_bytes(size_classes, slots)) {
    classes_.reserve(slots.size());
    base_ = map_aligned(bytes_);
    ::madvise(base_, bytes_, MADV_HUGEPAGE); // fails without huge pages: slower, but correct
    ::madvise(base_, bytes_, MADV_DONTDUMP); // keeps weights out of core files

    char *address = base_;
    uint64_t first_slot = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        LARDER_CHECK(first_slot + slots[i] < no_slot);
        classes_.push_back({address, size_classes[i].slot_bytes, slots[i], static_cast<SlotIndex>(first_slot)});
        address += size_classes[i].slot_bytes * slots[i];
        first_slot += slots[i];
    }
}

uint64_t Arena::give_back(uint32_t size_class, uint64_t first, uint64_t end) const {
    const Class &c = classes_[size_class];
    LARDER_CHECK(first <= end && end <= c.slots);
    const auto offset = [&](uint64_t slot) { // from base_, which is on a huge-page boundary
        return static_cast<uint64_t>(c.first_address - base_) + slot * c.slot_bytes;
    };
    const uint64_t begin_at = align_up(offset(first), huge_page_bytes);
    const uint64_t class_end = offset(c.slots) / huge_page_bytes * huge_page_bytes;
    const uint64_t end_at = std::min(align_up(offset(end), huge_page_bytes), class_end);
    return begin_at < end_at && drop(base_ + begin_at, end_at - begin_at) ? end_at - begin_at : 0;
}

Arena::~Arena() {
    if (!leaked_) {
        ::munmap(base_, bytes_);
    }
}

} // namespace larder
