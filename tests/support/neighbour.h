// neighbour.h — a process that takes memory inside a cgroup: as much as fits and more as space becomes free, or at a
// fixed rate whatever the usage is.
#pragma once

#include "support/cgroup.h"

#include <sys/types.h>

#include <cstdint>

namespace larder::test {

class Neighbour {
  public:
    // Joins `home` and takes `bytes`, one MiB at a time, each only when the limit of `limited`, an ancestor group,
    // leaves space for two.
    Neighbour(const Cgroup &home, const Cgroup &limited, uint64_t bytes);
    // Takes `bytes_per_ms` bytes each millisecond, even if there is no space.
    Neighbour(const Cgroup &home, uint64_t bytes, uint64_t bytes_per_ms);
    ~Neighbour();
    Neighbour(const Neighbour &) = delete;
    Neighbour &operator=(const Neighbour &) = delete;

    bool wait_until_full() const; // false if it ended, or a minute passed, before
    [[nodiscard]] bool alive() const;
    void end();

  private:
    template <typename Take> void start(const Cgroup &home, Take take);

    pid_t pid_ = -1;
    int full_ = -1; // receives a byte when all bytes are taken
};

} // namespace larder::test
