// memory_claims.h — memory that other larder processes have planned to use and do not hold yet.
//
// Two processes that start at the same time see the same free memory, and each would plan to use all of it. Therefore
// each process claims the memory that it has planned, and plans only with memory that is not claimed:
//
//     const PlanningTurn turn;                               // other processes wait before they plan
//     const Machine machine = probe_memory("", other_claims());
//     ...                                                    // plan
//     OwnClaim claim(planned_bytes);                         // until it is destroyed, or the process ends
//
// A claim is an empty file in a folder that all larder processes of a user share: the first of $XDG_RUNTIME_DIR/larder,
// /run/user/UID/larder and /tmp/larder-UID that exists or can be created, belongs to the user and is writable by nobody
// else. The file name contains all data: "claim-NAMESPACE-PID-START-NUMBER-BYTES", with the inode of the PID namespace,
// the start time of the process as in /proc/PID/stat, and the number of the claim within the process. Claims of
// processes that have ended are ignored, and the next claim deletes their files. How much of its claim a process holds
// is read from /proc, so processes of other users or in other containers do not see each other's claims. If there is no
// such folder, nothing is claimed, no process waits, and no error is reported.
//
// Units: bytes. Threads: any.
#pragma once

#include "base/unique_fd.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace larder {

// The folder for claims; empty if there is none. The functions below take a folder for tests.
std::string claims_folder();

// The memory that a process has claimed in total and does not have in RAM yet.
struct MemoryClaim {
    uint64_t pid = 0;
    uint64_t missing_bytes = 0;
};
// The claims of all other live processes.
std::vector<MemoryClaim> other_claims(const std::string &folder = claims_folder());

// While one exists, the constructor waits in other processes: at most ten seconds, because the holder may be stopped. A
// process must have at most one at a time.
class PlanningTurn {
  public:
    explicit PlanningTurn(const std::string &folder = claims_folder());

  private:
    UniqueFd lock_; // invalid without a folder
};

// A claim of this process. It ends when the object is destroyed.
class OwnClaim {
  public:
    OwnClaim() = default; // claims nothing
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
    std::string path_; // empty: no claim
};

} // namespace larder
