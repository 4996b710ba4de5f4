// memory_claims.h — what other larder processes have planned to take of the machine's memory and do not hold yet.
//
// Two processes that start at the same time see the same free memory, and each would plan with all of it. So each
// claims what it has planned, and plans with what the others leave:
//
//     const PlanningTurn turn;                               // others wait with their plans
//     const Machine machine = probe_memory("", other_claims());
//     ...                                                    // plan
//     OwnClaim claim(planned_bytes);                         // until it is destroyed, or the process ends
//
// A claim is an empty file in a folder that all larder processes of a user share: $XDG_RUNTIME_DIR/larder,
// /run/user/UID/larder or /tmp/larder-UID, the first that can be made or is there, belongs to the user and is writable
// by nobody else. Its name says all: "claim-NAMESPACE-PID-START-NUMBER-BYTES", with the PID namespace's inode, the
// process's start time as in /proc/PID/stat, and the number of the claim in the process. Files of processes that have
// ended count for nothing; the next claim removes them. What a process holds by now is read from /proc, so processes of
// other users, or in containers of their own, do not see each other's claims. Without a folder nothing is claimed and
// nobody waits; no error says so.
//
// Units: bytes. Threads: any.
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace larder {

// The folder; empty if there is none. The functions below take another one for tests.
std::string claims_folder();

// What a process has claimed in all, and does not have in RAM yet.
struct MemoryClaim {
    uint64_t pid = 0;
    uint64_t missing_bytes = 0;
};
// Of every other process that lives.
std::vector<MemoryClaim> other_claims(const std::string &folder = claims_folder());

// While it lives, PlanningTurns of other processes wait in their constructor: up to ten seconds, in case this one has
// been stopped. At most one at a time in a process.
class PlanningTurn {
  public:
    explicit PlanningTurn(const std::string &folder = claims_folder());

  private:
    UniqueFd lock_; // none without a folder
};

// A claim of this process.
class OwnClaim {
  public:
    OwnClaim() = default; // of nothing
    explicit OwnClaim(uint64_t bytes, const std::string &folder = claims_folder());
    OwnClaim(OwnClaim &&other) noexcept : path_(std::exchange(other.path_, {})) {}
    OwnClaim &operator=(OwnClaim &&other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    OwnClaim(const OwnClaim &) = delete;
    OwnClaim &operator=(const OwnClaim &) = delete;
    ~OwnClaim();

  private:
    std::string path_; // empty: none
};

} // namespace larder
