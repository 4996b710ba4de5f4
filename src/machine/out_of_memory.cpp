#include "machine/out_of_memory.h"

#include "base/bytes.h"
#include "machine/address_limits.h"

#include <fmt/format.h>

#include <memory>

namespace larder {

namespace {

constexpr size_t kept_bytes = 256 * KiB;

std::unique_ptr<char[]> kept; // NOLINT(modernize-avoid-c-arrays)

} // namespace

void keep_memory_for_errors() {
    if (address_limits().any()) {
        kept = std::make_unique<char[]>(kept_bytes); // NOLINT(modernize-avoid-c-arrays)
    }
}

Error out_of_memory(const std::string &what) {
    kept.reset();
    const std::string named = named_limits();
    return named.empty()
               ? Error(ErrorKind::io, what, "lower --ram or -c")
               : Error(ErrorKind::budget, fmt::format("{}: {}", what, named), "raise that limit, or lower --ram or -c");
}

Error no_thread(const std::error_code &code) {
    const std::string what = fmt::format("cannot start a thread: {}", code.message());
    if (address_limits().any()) {
        return out_of_memory(what);
    }
    return {ErrorKind::io, what, "allow more threads (ulimit -u, pids.max of the cgroup), or use fewer (-t)"};
}

} // namespace larder
