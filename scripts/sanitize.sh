#!/usr/bin/env bash
# Builds and runs the unit tests under AddressSanitizer with UBSan, and under ThreadSanitizer.
#
# Only larder's own code is instrumented; llama.cpp comes from the cache as it is. OpenMP's barriers are invisible to
# TSan, so that the op's tests run on one thread there; races are looked for in the store's tests, which use plain threads.
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in asan tsan; do
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset" --target unit_tests
    ctest --preset "$preset"
done
