#!/usr/bin/env bash
# Trains the small model that ships with larder and writes it as a GGUF. models/README.md describes the result.
#
#   tools/train/train.sh [--out FILE] [--work DIR] [OPTIONS OF train.py]
#
# --out   the GGUF (default models/kjv-moe-32x4.q8_0.gguf).
#         Its checksum must be copied to models/SHA256SUMS, because the tests compare it.
# --work  folder for vocabulary, checkpoints and report; an interrupted training continues from it
#         (default ${XDG_CACHE_HOME:-~/.cache}/larder/train)
#
# Needs Debian's python3-torch, python3-numpy, python3-yaml, libopenblas0-pthread and bible-kjv; as root it installs
# them. The vocabulary and the text are always the same. The weights are the same for the same processor and the same
# number of threads (OMP_NUM_THREADS).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out="$root/models/kjv-moe-32x4.q8_0.gguf"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/larder"
work="$cache/train"
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --out | --work) [ $# -ge 2 ] || { echo "error: $1 wants a path" >&2 && exit 2; } ;;&
    --out) out=$2 && shift ;;
    --work) work=$2 && shift ;;
    --help | -h) sed -n '2,/^set/{/^# \{0,1\}/!d;s///;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) options+=("$1") ;;
    esac
    shift
done

packages=(python3-torch python3-numpy python3-yaml libopenblas0-pthread bible-kjv) # the reference BLAS is ten times slower
missing=()
for package in "${packages[@]}"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || { echo "error: run as root once, or: apt-get install ${missing[*]}" >&2 && exit 1; }
    apt-get install -y --no-install-recommends "${missing[@]}" >&2
fi
mkdir -p "$work" "$(dirname "$out")"
[ ! -d "$out" ] || { echo "error: --out $out is a folder" >&2 && exit 2; }

# llama.cpp's GGUF writer, from the package that larder is built from. Fetched first, so that a failure shows before the
# long training.
if [ ! -d "$work/gguf-py" ]; then
    "$root/scripts/llama.sh" >/dev/null
    unpacked=$(mktemp -d "$work/unpack.XXXXXX")
    trap 'rm -rf "$unpacked"' EXIT
    tar -xzf "$(ls "$cache"/node-llama-cpp-*.tgz)" -C "$unpacked" package/llama/gitRelease.bundle
    git clone --quiet --bare "$unpacked/package/llama/gitRelease.bundle" "$unpacked/llama.git"
    git -C "$unpacked/llama.git" archive HEAD -- gguf-py | tar -x -C "$unpacked"
    mv "$unpacked/gguf-py" "$work/gguf-py"
fi

# One verse per line without its number; an empty line between chapters.
if [ ! -s "$work/text.txt" ]; then
    bible -f gen1:1-rev22:21 | awk '
        { chapter = $1; sub(/:.*/, "", chapter) }
        NR > 1 && chapter != last { print "" }
        { last = chapter; sub(/^[^ ]* /, ""); print }' >"$work/text.new"
    mv "$work/text.new" "$work/text.txt"
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1} # the settings of the shipped model
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$root/tools/train/train.py" --text "$work/text.txt" --out "$work" ${options[@]+"${options[@]}"}

PYTHONPATH="$work/gguf-py" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$root/tools/train/export.py" --checkpoint "$work" --out "$out"
(cd "$(dirname "$out")" && sha256sum "$(basename "$out")")
