#include "compute/reserved_buffer.h"

#include <sys/mman.h>

namespace larder {

namespace {

void free_buffer(ggml_backend_buffer_t buffer) { munmap(buffer->context, buffer->size); }
void *base_of(ggml_backend_buffer_t buffer) { return buffer->context; }
void set_nothing(ggml_backend_buffer_t /*buffer*/, ggml_tensor * /*tensor*/, const void * /*data*/, size_t /*offset*/,
                 size_t /*size*/) {}
void clear_nothing(ggml_backend_buffer_t /*buffer*/, uint8_t /*value*/) {}

} // namespace

ggml_backend_buffer_t reserve_buffer(ggml_backend_buffer_type_t type, size_t size,
                                     decltype(ggml_backend_buffer_i::get_tensor) get) {
    void *addresses = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) {
        return nullptr;
    }
    ggml_backend_buffer_i interface = {};
    interface.free_buffer = free_buffer;
    interface.get_base = base_of;
    interface.set_tensor = set_nothing;
    interface.get_tensor = get;
    interface.clear = clear_nothing;
    return ggml_backend_buffer_init(type, interface, addresses, size);
}

} // namespace larder
