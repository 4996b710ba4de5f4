// A host buffer type whose tensors llama.cpp does not repack.
#include "compute/compute.h"

#include "ggml-backend-impl.h"
#include "ggml-backend.h"

namespace larder {

namespace {

const char *type_name(ggml_backend_buffer_type_t /*type*/) { return "Plain"; }

} // namespace

ggml_backend_buffer_type *plain_buffer_type() {
    static ggml_backend_buffer_type type = [] {
        ggml_backend_buffer_type cpus = *ggml_backend_cpu_buffer_type();
        cpus.iface.get_name = type_name;
        return cpus;
    }();
    return &type;
}

} // namespace larder
