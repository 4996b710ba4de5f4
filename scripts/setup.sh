#!/usr/bin/env bash
# Installs the packages that building and testing larder needs and that are missing. As root it installs them; otherwise
# it prints the command to run. Does nothing if nothing is missing.
set -euo pipefail

packages=(
    build-essential cmake ninja-build pkg-config git patch npm ca-certificates
    liburing-dev libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev
    libgtest-dev libgmock-dev libbenchmark-dev clang-format clang-tidy
)

say() { printf '%s\n' "$*" >&2; }

if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system: install the equivalents of: ${packages[*]}"
    exit 0
fi

has() { # a tool may also be installed without its package
    case $1 in
    npm) command -v npm >/dev/null ;;
    cmake) command -v cmake >/dev/null && cmake --version | awk 'NR==1 { split($3, v, "."); exit !(v[1] > 3 || v[2] >= 25) }' ;;
    *) dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed ;;
    esac
}

missing=()
for package in "${packages[@]}"; do
    has "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
    say "larder needs packages that are not installed. Run this, then the same command again:"
    say "  sudo apt-get update && sudo apt-get install -y ${missing[*]}"
    exit 1
fi
say "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || {
    say "error: apt-get update failed; check the network and /etc/apt/sources.list, then run the same command again"
    exit 1
}
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || {
    say "error: apt-get could not install ${missing[*]}; see its message above, correct the cause and run the same command again."
    exit 1
}
