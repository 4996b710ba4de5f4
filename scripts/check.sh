#!/usr/bin/env bash
# Format, layering and static analysis. Needs the release build: its compile commands, and what each file includes.
#
# clang-tidy takes seconds a file, so a file that passed is not looked at again until it, a header of larder that it
# includes, or .clang-tidy has changed: the passes are kept in the cache folder as empty files named by those contents.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' 'tools/*.cpp' 'tools/*.h' 'bench/*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
echo "format: ${#sources[@]} files are as clang-format wants them"

tests/tidy/layers.sh

export passes="${XDG_CACHE_HOME:-$HOME/.cache}/larder/tidy"
export build=build/release
mkdir -p "$passes"

key_of() { # source file -> hash of all of larder's text that makes its meaning
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
