// neighbour.h — a process that takes memory inside a cgroup, as much as there is room for and more as room is made.
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
    ~Neighbour();
    Neighbour(const Neighbour &) = delete;
    Neighbour &operator=(const Neighbour &) = delete;

    bool wait_until_full() const; // false if it ended, or a minute passed, without
    [[nodiscard]] bool alive() const;
    void end();

  private:
    pid_t pid_ = -1;
    int full_ = -1; // it writes a byte here when it has all
};

} // namespace larder::test
