// reserved_buffer.h — ggml buffers that are addresses and no memory: what their tensors hold lies elsewhere.
#pragma once

#include "ggml-backend-impl.h"

#include <cstddef>

namespace larder {

constexpr size_t reserved_alignment = 64;

// Reserves `size` bytes of addresses that nothing may touch, as ggml tells tensors' buffers apart by them. Setting and
// clearing do nothing; `get` answers who reads a tensor. Null if there are no addresses: llama.cpp reports that.
ggml_backend_buffer_t reserve_buffer(ggml_backend_buffer_type_t type, size_t size,
                                     decltype(ggml_backend_buffer_i::get_tensor) get);

} // namespace larder
