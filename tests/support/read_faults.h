// read_faults.h — makes reads of the real readers fail. A program that links read_faults.cpp and uses --wrap for
// open_reader() gets readers that check read_faults() before each read.
//
// Threads: set it between runs; any thread may read it.
#pragma once

#include "io/io.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>

namespace larder::test {

struct ReadFaults {
    std::function<bool(const ReadRequest &request, uint64_t number)> fails; // empty: none; numbers count from 0
    std::function<bool(const ReadRequest &request, uint64_t number)> hangs; // the same, but they never finish
    int error = EIO;
    std::atomic<uint64_t> seen{0};   // requests so far
    std::atomic<uint64_t> failed{0}; // of `seen`

    void clear() {
        fails = {};
        hangs = {};
        error = EIO;
        seen = 0;
        failed = 0;
    }
};
ReadFaults &read_faults();

// Sets faults from the environment: LARDER_FAIL_READ=N fails the N-th read of the process, LARDER_HANG_READ=N never
// finishes it.
void read_faults_from_environment();

} // namespace larder::test
