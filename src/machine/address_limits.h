// address_limits.h — limits of the address space: RLIMIT_DATA (ulimit -d) and RLIMIT_AS (ulimit -v).
//
// The kernel counts mapped addresses against these limits, touched or not: the whole stack of each thread and the large
// arrays that llama.cpp allocates but hardly uses. RLIMIT_AS also counts code and PROT_NONE mappings. Addresses that
// are not memory are therefore subtracted from the limit before it bounds a budget.
//
// Units: bytes. Threads: any.
#pragma once

#include "machine/machine.h"

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

struct AddressLimits {                // no value: unlimited
    std::optional<uint64_t> writable; // RLIMIT_DATA: private writable mappings and the heap
    std::optional<uint64_t> all;      // RLIMIT_AS

    [[nodiscard]] bool any() const { return writable || all; }
};
AddressLimits address_limits();

// Addresses that the plan does not count as memory: mapped but not touched, or still to be mapped.
struct IdleAddresses {
    uint64_t writable = 0;
    uint64_t all = 0;
};
// The mapped addresses of this process that are not in RAM now. `root` is prepended to /proc, for tests.
IdleAddresses idle_addresses(const std::string &root = "");

// `machine` bounded by the limits: unchanged where the limits allow at least as much.
Machine within_limits(const Machine &machine, const AddressLimits &limits, const IdleAddresses &idle);

// "raise 'ulimit -d' to 180000 or more": the value (KiB) that allows `budget_bytes`. Empty if no such limit bounds the
// machine.
std::string raise_limit_for(const Machine &machine, uint64_t budget_bytes);

// "RLIMIT_DATA (ulimit -d) lets the process map 19.53 MiB"; empty without limits.
std::string named_limits();

} // namespace larder
