// address_limits.h — limits of addresses: RLIMIT_DATA (ulimit -d) and RLIMIT_AS (ulimit -v).
//
// The kernel counts what is mapped against them, touched or not: a thread's whole stack, arrays that llama.cpp asks for
// and hardly uses, and with RLIMIT_AS code and PROT_NONE mappings too. Addresses that are not memory come off the limit
// before it bounds a budget.
//
// Units: bytes. Threads: any.
#pragma once

#include "machine/machine.h"

#include <cstdint>
#include <optional>
#include <string>

namespace larder {

struct AddressLimits {                // none: unlimited
    std::optional<uint64_t> writable; // RLIMIT_DATA: private mappings that may be written, and the heap
    std::optional<uint64_t> all;      // RLIMIT_AS

    [[nodiscard]] bool any() const { return writable || all; }
};
AddressLimits address_limits();

// Addresses that are not memory the plan counts: mapped now and not touched, or to be mapped.
struct IdleAddresses {
    uint64_t writable = 0;
    uint64_t all = 0;
};
// What of this process's mappings is not in RAM now. `root` stands before /proc, for tests.
IdleAddresses idle_addresses(const std::string &root = "");

// The machine, or what the limits leave if that is less.
Machine within_limits(const Machine &machine, const AddressLimits &limits, const IdleAddresses &idle);

// "raise 'ulimit -d' to 180000 or more": the value (KiB) with which the machine gives `budget_bytes`. Empty if no such
// limit bounds the machine.
std::string raise_limit_for(const Machine &machine, uint64_t budget_bytes);

// "RLIMIT_DATA (ulimit -d) lets the process map 19.53 MiB"; empty without limits.
std::string named_limits();

} // namespace larder
