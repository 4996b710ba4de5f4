#!/usr/bin/env bash
# Builds and runs the unit tests under AddressSanitizer with UBSan, and those of modules with threads under
# ThreadSanitizer.
#
# Only larder's own code is instrumented; llama.cpp comes from the cache. TSan does not see OpenMP's barriers, so there
# the tests of the expert multiplication run on one thread. The store's tests, which use plain threads, find data races.
set -euo pipefail
cd "$(dirname "$0")/.."
run() { # PRESET TARGET
    cmake --preset "$1" --log-level=WARNING
    cmake --build --preset "$1" --target "$2"
    ctest --preset "$1"
}
run asan unit_tests
run tsan thread_tests
