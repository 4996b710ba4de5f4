#include "pressure/arenas.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace larder {

Arenas::Arenas(std::vector<SlotRange> classes) : classes_(std::move(classes)) {
    for (const SlotRange &c : classes_) {
        wanted_.push_back(c.full);
    }
}

std::span<const uint64_t> Arenas::wanted_of(const Member &member) const {
    return std::span(wanted_).subspan(member.first_class, member.n_class);
}

void Arenas::add(ExpertStore &store, size_t first_class) {
    const std::lock_guard lock(mutex_);
    const Member member{&store, first_class, store.arena_use().slots.size()};
    LARDER_CHECK(first_class + member.n_class <= classes_.size());
    members_.push_back(member);
    store.resize(wanted_of(member));
}

void Arenas::remove(ExpertStore &store) {
    const std::lock_guard lock(mutex_);
    std::erase_if(members_, [&](const Member &member) { return member.store == &store; });
    removed_at_ = std::chrono::steady_clock::now();
}

bool Arenas::settled() const {
    constexpr std::chrono::seconds lag{2};
    const std::lock_guard lock(mutex_);
    return !members_.empty() && (!removed_at_ || std::chrono::steady_clock::now() - *removed_at_ > lag);
}

void Arenas::resize(std::span<const uint64_t> slots) {
    const std::lock_guard lock(mutex_);
    LARDER_CHECK(slots.size() == wanted_.size());
    std::ranges::copy(slots, wanted_.begin());
    for (const Member &member : members_) {
        member.store->resize(wanted_of(member));
    }
}

ArenaUse Arenas::arena_use() const {
    const std::lock_guard lock(mutex_);
    ArenaUse all;
    all.slots = wanted_;
    for (size_t i = 0; i < classes_.size(); i++) {
        all.bytes += wanted_[i] * classes_[i].slot_bytes;
    }
    all.empty_bytes = all.bytes;
    for (const Member &member : members_) {
        const ArenaUse use = member.store->arena_use();
        uint64_t planned = 0;
        for (size_t i = 0; i < member.n_class; i++) {
            planned += wanted_[member.first_class + i] * classes_[member.first_class + i].slot_bytes;
            all.slots[member.first_class + i] = use.slots[i];
        }
        all.bytes += use.bytes - planned;
        all.empty_bytes += use.empty_bytes - planned;
        all.pending = all.pending || use.pending;
    }
    return all;
}

} // namespace larder
