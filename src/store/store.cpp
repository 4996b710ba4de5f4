#include "store/store.h"

#include "store/batch.h"

namespace larder {

ExpertStore::ExpertStore(const ModelLayout &layout, std::span<const uint64_t> slots, Reader &reader)
    : impl_(std::make_unique<Impl>(layout, slots, reader)) {}

ExpertStore::~ExpertStore() = default;

void ExpertStore::begin(std::span<const SliceIndex> demanded, std::span<const SliceIndex> following,
                        bool first_of_layer, const TokenRows &rows) {
    impl_->begin(demanded, following, first_of_layer, rows);
}

void ExpertStore::start_reads() { impl_->start_reads(); }
const ReadySlice *ExpertStore::wait(uint32_t position) { return impl_->wait(position); }
void ExpertStore::release(uint32_t position) { impl_->release(position); }
void ExpertStore::end() { impl_->end(); }
void ExpertStore::use_slots(std::span<const uint64_t> slots) { impl_->use_slots(slots); }
ArenaUse ExpertStore::arena_use() const { return impl_->arena_use(); }
std::optional<Error> ExpertStore::take_error() { return impl_->take_error(); }
bool ExpertStore::failed() const { return impl_->failed(); }
StoreStats ExpertStore::stats() const { return impl_->stats(); }
bool ExpertStore::resident(SliceIndex slice) const { return impl_->resident(slice); }

} // namespace larder
