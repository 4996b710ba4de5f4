// read_faults.h — reads that fail, under the real readers: a program that links read_faults.cpp and is linked with
// --wrap on open_reader() gets readers that ask here before they read.
//
// Threads: set between runs; asked from any.
#pragma once

#include "io/io.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>

namespace larder::test {

struct ReadFaults {
    std::function<bool(const ReadRequest &request, uint64_t number)> fails; // empty: none; numbers count from 0
    int error = EIO;
    std::atomic<uint64_t> seen{0};   // requests so far
    std::atomic<uint64_t> failed{0}; // of them

    void clear() {
        fails = {};
        error = EIO;
        seen = 0;
        failed = 0;
    }
};
ReadFaults &read_faults();

// Takes the faults of the environment: LARDER_FAIL_READ=N fails the N-th read of the process.
void read_faults_from_environment();

} // namespace larder::test
