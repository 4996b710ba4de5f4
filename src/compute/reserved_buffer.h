// reserved_buffer.h — ggml buffers of addresses without memory. The data of their tensors is elsewhere (private to
// compute).
#pragma once

#include "ggml-backend-impl.h"

#include <cstddef>

namespace larder {

constexpr size_t reserved_alignment = 64;

// Reserves `size` bytes of inaccessible addresses: ggml identifies the buffer of a tensor by them. Setting and clearing
// do nothing; `get` is called when a tensor is read. Null if no addresses are available; llama.cpp reports that.
ggml_backend_buffer_t reserve_buffer(ggml_backend_buffer_type_t type, size_t size,
                                     decltype(ggml_backend_buffer_i::get_tensor) get);

} // namespace larder
