#!/usr/bin/env bash
# Measures how fast another process in larder's cgroup may take memory before the kernel kills a process. The cgroup
# has 180 MiB and no swap. larder runs in it with --ram 170M and decodes or prefills, while the other process takes
# memory at a given rate. Prints a table for docs/memory.md, "Under pressure".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/cgroup.sh
. "$root/bench/cgroup.sh"

usage() {
    cat <<'END'
usage: bench/neighbour.sh [OPTIONS]
  --rates LIST    MiB/s, 0 is all at once (default 60,100,200,400,800,1600,0)
  --repeat N      how often each (default 5)
  --build DIR     where larder is built (default build/release)
  --scratch DIR   where the model of 240 MB is made (default: the build folder)
Needs root, or a writable cgroup with a memory controller; exits with 77 where there is none.
END
}

fail() {
    printf 'neighbour: %s\n' "$*" >&2
    exit 1
}

rates=60,100,200,400,800,1600,0 repeat=5 build="$root/build/release" scratch=""
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage && exit 0 ;;
    --rates | --repeat | --build | --scratch)
        [ $# -ge 2 ] || fail "$1 wants a value; --help shows what there is"
        case $1 in
        --rates) rates=$2 ;;
        --repeat) repeat=$2 ;;
        --build) build=$2 ;;
        --scratch) scratch=$2 ;;
        esac
        shift
        ;;
    *) fail "unknown option $1; --help shows what there is" ;;
    esac
    shift
done
: "${scratch:=$build}"
[[ $rates =~ ^[0-9]+(,[0-9]+)*$ ]] || fail "--rates $rates: give them like 60,200"
[[ $repeat =~ ^[1-9][0-9]*$ ]] || fail "--repeat $repeat: give a number"
take_memory="$build/bench/take_memory"
for program in "$build/larder" "$build/larder-make-model" "$take_memory"; do
    [ -x "$program" ] || fail "there is no $program: run make neighbour"
done
cgroup_check || exit 77

folder=$(mktemp -d "$scratch/neighbour.XXXXXX")
clean_up() {
    trap '' INT TERM HUP
    cgroup_remove || true
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

in_group() { # COMMAND...: replaces this shell with the command, in the group
    # shellcheck disable=SC2016 # the PID of the inner shell
    exec bash -c 'echo $$ >"$0" && exec "$@"' "$cgroup_path/cgroup.procs" "$@"
}

wait_for() { # WHAT COMMAND...: waits up to 60 s until the command succeeds
    local what=$1 attempt
    shift
    for attempt in $(seq 1200); do
        if "$@"; then return; fi
        kill -0 "$larder" 2>/dev/null || fail "larder ended before $what: $(tail -n 1 "$folder/errors")"
        sleep 0.05
    done
    fail "no $what after $attempt attempts"
}

decoding() { [ "$(stat -c %s "$folder/answer")" -gt 400 ]; } # bytes: about a hundred tokens, which fill the arena
prefilling() { grep -q '^kernels:' "$folder/errors" && sleep 0.5; }

one_run() { # RATE MIB UNTIL ARGUMENTS...: sets lived, limited and reached
    local rate=$1 mib=$2 until=$3
    shift 3
    : >"$folder/answer"
    : >"$folder/errors"
    cgroup_make 180M || exit 1
    (in_group "$build/larder" run -m "$folder/m.gguf" --ram 170M -t 2 --ignore-eos --temp 0 --raw "$@" \
        >"$folder/answer" 2>"$folder/errors" </dev/null) &
    larder=$!
    wait_for "$until" "$until"
    (in_group "$take_memory" "$mib" "$rate" >"$folder/rate" 2>/dev/null) &
    local neighbour=$! status=0
    wait "$neighbour" || status=$?
    lived=false
    if [ "$status" -eq 0 ] && kill -0 "$larder" 2>/dev/null; then lived=true; fi
    cgroup_read
    limited=$cgroup_failcnt
    if [ "$cgroup_kills" -ne 0 ]; then lived=false; fi
    reached=$(cat "$folder/rate")
    kill "$larder" 2>/dev/null || true
    wait "$larder" 2>/dev/null || true
    cgroup_remove
}

cell() { # arguments of one_run: sets text to "5 of 5 live, 1 ran into the limit"
    local n_lived=0 n_limited=0 i
    for ((i = 0; i < repeat; i++)); do
        one_run "$@"
        if $lived; then n_lived=$((n_lived + 1)); fi
        if $lived && [ "$limited" -gt 0 ]; then n_limited=$((n_limited + 1)); fi
    done
    text="$n_lived of $repeat live"
    if [ "$n_limited" -gt 0 ]; then text+=", $n_limited ran into the limit"; fi
}

"$build/larder-make-model" --arch qwen3moe --layers 8 --experts 64 --top-k 4 --embd 512 --ff 512 --ctx 8192 \
    -o "$folder/m.gguf" >/dev/null
awk 'BEGIN { for (i = 0; i < 3600; i++) printf "%c ", 97 + i * i % 26 }' >"$folder/long.txt"

printf '| neighbour, MiB/s | it got | 80 MiB in decode | 50 MiB in a prefill |\n|---|---|---|---|\n'
for rate in ${rates//,/ }; do
    name=$rate
    if [ "$rate" -eq 0 ]; then name="all at once"; fi
    cell "$rate" 80 decoding -c 1024 -p "the quick brown fox" -n 1000 -q # without -q the prompt would be printed first
    decode=$text got=$reached
    cell "$rate" 50 prefilling -c 8192 -f "$folder/long.txt" -n 1
    printf '| %s | %s | %s | %s |\n' "$name" "$got" "$decode" "$text"
done
