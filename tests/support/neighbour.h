// neighbour.h — a process that takes memory inside a cgroup: as much as there is room for and more as room is made, or
// without a look at others.
#pragma once

#include "support/cgroup.h"

#include <sys/types.h>

#include <cstdint>

namespace larder::test {

class Neighbour {
  public:
    // Joins `home` and takes `bytes` a MiB at a time, each only where the limit of `limited`, a group above, has room
    // for two.
    Neighbour(const Cgroup &home, const Cgroup &limited, uint64_t bytes);
    // Takes so many bytes each ms whether there is room or not.
    Neighbour(const Cgroup &home, uint64_t bytes, uint64_t bytes_per_ms);
    ~Neighbour();
    Neighbour(const Neighbour &) = delete;
    Neighbour &operator=(const Neighbour &) = delete;

    bool wait_until_full() const; // false if it ended, or a minute passed, without
    [[nodiscard]] bool alive() const;
    void end();

  private:
    template <typename Take> void start(const Cgroup &home, Take take);

    pid_t pid_ = -1;
    int full_ = -1; // it writes a byte here when it has all
};

} // namespace larder::test
