#!/usr/bin/env bash
# Builds and runs the unit tests under AddressSanitizer with UBSan, and under ThreadSanitizer.
#
# Only larder's own code is instrumented; llama.cpp comes from the cache. TSan does not see OpenMP's barriers, so there
# the tests of the expert multiplication run on one thread. The store's tests, which use plain threads, find data races.
# TSan does not run the tests of src/text: they fork and run threads on stacks of a given size, which its runtime does
# not support.
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in asan tsan; do
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset" --target unit_tests
    ctest --preset "$preset"
done
