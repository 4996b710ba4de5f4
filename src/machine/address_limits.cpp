#include "machine/address_limits.h"

#include "base/bytes.h"
#include "machine/proc_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

namespace larder {

namespace {

std::optional<uint64_t> soft_limit(__rlimit_resource_t resource) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    return limit.rlim_cur;
}

struct Bound {
    const char *name;
    const char *ulimit;
    std::optional<uint64_t> limit;
    uint64_t idle;
};

std::array<Bound, 2> bounds(const AddressLimits &limits, const IdleAddresses &idle) {
    return {{{"RLIMIT_DATA (ulimit -d)", "ulimit -d", limits.writable, idle.writable},
             {"RLIMIT_AS (ulimit -v)", "ulimit -v", limits.all, idle.all}}};
}

uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

} // namespace

AddressLimits address_limits() { return {soft_limit(RLIMIT_DATA), soft_limit(RLIMIT_AS)}; }

IdleAddresses idle_addresses(const std::string &root) {
    const KeyedFile status(root + "/proc/self/status");
    // VmRSS includes pages of mapped files. RLIMIT_DATA does not count them, but the budget does.
    return {above(status.bytes("VmData"), status.bytes("VmRSS")), above(status.bytes("VmSize"), status.bytes("VmRSS"))};
}

Machine within_limits(const Machine &machine, const AddressLimits &limits, const IdleAddresses &idle) {
    Machine least = machine;
    for (const Bound &bound : bounds(limits, idle)) {
        if (bound.limit && above(*bound.limit, bound.idle) < least.usable_bytes) {
            least = {above(*bound.limit, bound.idle), bound.name, bound.ulimit, bound.idle};
        }
    }
    least.claimed_bytes = above(least.usable_bytes, machine.unclaimed_bytes()); // limits of this process only
    return least;
}

std::string raise_limit_for(const Machine &machine, uint64_t budget_bytes) {
    if (machine.ulimit.empty()) {
        return {};
    }
    return fmt::format("raise '{}' to {} or more", machine.ulimit,
                       align_up(budget_bytes + machine.idle_bytes, MiB) / KiB);
}

std::string named_limits() {
    std::string named;
    for (const Bound &bound : bounds(address_limits(), {})) {
        if (bound.limit) {
            named += fmt::format("{}{} lets the process map {}", named.empty() ? "" : ", ", bound.name,
                                 format_bytes(*bound.limit));
        }
    }
    return named;
}

} // namespace larder
