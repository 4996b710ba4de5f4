// address_space.h — limits of addresses: RLIMIT_DATA (ulimit -d) and RLIMIT_AS (ulimit -v).
//
// They look like limits of memory, but the kernel counts what is mapped, touched or not: a thread's whole stack, the
// arrays llama.cpp asks for and hardly uses, and with RLIMIT_AS code, PROT_NONE and all. What of that is not memory
// comes off the limit before it is a budget.
//
// Units: bytes. Threads: any, but set_up_process(), which comes first.
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

namespace larder {

// The stack of every thread that the process starts. That of main() is as long as ulimit -s says.
inline constexpr uint64_t thread_stack_bytes = 2 * MiB;

// Makes the process's use of addresses small and known, before any thread is started: stacks of thread_stack_bytes
// whatever ulimit -s says, one heap for all threads, and large blocks in mappings of their own. Throws Error(io) if
// main()'s own stack may not grow as far as it has to.
void set_up_process();

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
// What of this process's mappings is not in RAM at this moment. Reads /proc with `root` before it.
IdleAddresses idle_addresses(const std::string &root = "");

// The machine, or what the limits leave if that is less.
Machine within_limits(const Machine &machine, const AddressLimits &limits, const IdleAddresses &idle);

// "raise 'ulimit -d' to 180000 (KiB)": what lets the machine give `budget_bytes`. Empty if no such limit is what bounds
// it.
std::string raise_limit_for(const Machine &machine, uint64_t budget_bytes);

// "RLIMIT_DATA (ulimit -d) lets it map 19.53 MiB": what an allocation may have failed for; empty without limits.
std::string named_limits();
// The kernel refused memory: Error(budget) that names the limits where there are any, else Error(io). Frees some memory
// to say so.
Error out_of_memory(const std::string &what = "out of memory");
// The kernel refused a thread.
Error no_thread(const std::error_code &code);
// Of this process, beside main().
uint64_t threads_running();
// Starts `threads` threads that live at the same time, and ends them. Throws no_thread(): OpenMP just ends the process.
void check_threads_can_start(uint32_t threads);

} // namespace larder
