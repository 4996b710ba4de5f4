#!/usr/bin/env bash
# Format, layering and static analysis. Needs the release build (for its compile commands).
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' 'tools/*.cpp' 'tools/*.h' 'bench/*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
echo "format: ${#sources[@]} files are as clang-format wants them"

tests/tidy/layers.sh

mapfile -t units < <(git ls-files 'src/*.cpp')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet 2> >(grep -v 'warnings generated' >&2)
echo "clang-tidy: ${#units[@]} files have nothing to complain about"
