#!/usr/bin/env bash
# Checks format, layering and clang-tidy. Needs the release build: its compile commands, and its list of the headers
# that each file includes.
#
# clang-tidy takes seconds per file. So a file that passed is not checked again until the file, one of larder's headers
# that it includes, or .clang-tidy changes. Each pass is stored in the cache folder as an empty file, named by the hash
# of these contents.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' 'tools/*.cpp' 'tools/*.h' 'bench/*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
echo "format: ${#sources[@]} files are as clang-format wants them"

tests/tidy/layers.sh

export passes="${XDG_CACHE_HOME:-$HOME/.cache}/larder/tidy"
export build=build/release
mkdir -p "$passes"

key_of() { # source file -> hash of all larder files that affect its check
    local object
    object=$(ninja -C "$build" -t query "$PWD/$1" 2>/dev/null | grep -oE '[^ ]*\.cpp\.o$' | head -n 1)
    {
        cat .clang-tidy "$1"
        clang-tidy --version
        ninja -C "$build" -t deps "$object" | grep -oE "$PWD/(src|tests)/.*" | sort -u | xargs -r cat
    } | sha256sum | cut -d' ' -f1
}
tidy() {
    local key
    key=$(key_of "$1")
    [ -f "$passes/$key" ] && return
    clang-tidy -p "$build" --quiet "$1" 2> >(grep -v 'warnings generated' >&2) || return 1
    touch "$passes/$key"
}
export -f key_of tidy

mapfile -t units < <(git ls-files 'src/*.cpp' 'tools/*.cpp')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -I{} bash -c 'tidy {}'
echo "clang-tidy: ${#units[@]} files have nothing to complain about"
