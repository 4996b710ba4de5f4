#!/usr/bin/env bash
# Measures larder with a recite model larger than its memory limit, next to stock llama.cpp, and prints one report.
# docs/benchmarks.md, "The show", explains each section. Values that are compared are measured in turns, in pairs, in
# this one run. The scratch model and the cgroups are removed however the script ends.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/cgroup.sh
. "$root/bench/cgroup.sh"
# shellcheck source=bench/show_sections.sh
. "$root/bench/show_sections.sh"

usage() {
    cat <<'END'
usage: bench/show.sh [OPTIONS]
  --quick          a model of about 120 MB and few tokens: shows that the script works, not how fast larder is
  --model FILE     measure this recite model instead of making one
  --words N        how many words (t0, t1, ...) the model of --model recites (default 156)
  --limit SIZE     of the cgroup, in K, M or G (default 2560M; 128M with --quick)
  --pairs N        how often what is compared is measured in turns (default 3; 1 with --quick)
  --kernels NAME   of larder in the cgroup (default auto)
  --sections LIST  which of them, like 1,2 (default 1,2,3,4,5,6; docs/benchmarks.md numbers them)
  --stock-seconds  how long stock may take in the cgroup (default 300; 20 with --quick)
  --build DIR      where larder is built (default build/release)
  --scratch DIR    where the model is made; on the disk to measure (default: the build folder)
  --out FILE       the report (default: show.md in the build folder)
The routing trace is $LARDER_TRACE, or qwen3-30b-a3b.route.csv in ../shared/traces beside the repository, or made up.
Needs root, or a writable cgroup with a memory controller; exits with 77 where there is none.
END
}

fail() {
    printf 'show: %s\n' "$*" >&2
    exit 1
}
progress() { printf 'show: %s\n' "$*" >&2; }

# --- options ---

quick=false model="" words=156 limit="" pairs="" kernels=auto sections=1,2,3,4,5,6 stock_seconds="" build="$root/build/release" scratch="" report=""
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=true ;;
    --help | -h) usage && exit 0 ;;
    --model | --words | --limit | --pairs | --kernels | --sections | --stock-seconds | --build | --scratch | --out)
        [ $# -ge 2 ] || fail "$1 wants a value; --help shows what there is"
        case $1 in
        --model) model=$2 ;;
        --words) words=$2 ;;
        --limit) limit=$2 ;;
        --pairs) pairs=$2 ;;
        --kernels) kernels=$2 ;;
        --sections) sections=$2 ;;
        --stock-seconds) stock_seconds=$2 ;;
        --build) build=$2 ;;
        --scratch) scratch=$2 ;;
        --out) report=$2 ;;
        esac
        shift
        ;;
    *) fail "unknown option $1; --help shows what there is" ;;
    esac
    shift
done

if $quick; then
    shape=(--arch qwen3moe --layers 4 --experts 128 --top-k 6 --embd 512 --ff 256 --heads 8 --vocab 1024)
    n_prefill=64 n_decode=16 n_walk=16 n_stock=1
    : "${limit:=128M}" "${pairs:=1}" "${stock_seconds:=20}"
else
    shape=(--shape qwen3-6g --vocab 2048)
    n_prefill=512 n_decode=100 n_walk=156 n_stock=4
    : "${limit:=2560M}" "${pairs:=3}" "${stock_seconds:=300}"
fi
: "${scratch:=$build}" "${report:=$build/show.md}"
[[ $limit =~ ^[1-9][0-9]*[KMG]$ ]] || fail "--limit $limit: give it like 2560M"
[[ $pairs =~ ^[1-9][0-9]*$ ]] || fail "--pairs $pairs: give a number"
[[ $stock_seconds =~ ^[1-9][0-9]*$ ]] || fail "--stock-seconds $stock_seconds: give a number"
[[ $sections =~ ^[1-6](,[1-6])*$ ]] || fail "--sections $sections: give them like 1,2"
[[ $words =~ ^[1-9][0-9]*$ ]] || fail "--words $words: give a number"
[ -x "$build/larder" ] || fail "there is no $build/larder: run make build"
[ -z "$model" ] || [ -r "$model" ] || fail "cannot read --model $model"
cgroup_check || exit 77

# --- running commands and cleaning up ---

folder=$(mktemp -d "$scratch/show.XXXXXX")
memory_folder=""
child=""
failures=0

clean_up() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    cgroup_remove || true
    rm -rf "$folder" ${memory_folder:+"$memory_folder"}
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs the command in the background, so that signals are handled immediately. A failure is reported and counted. The
# figures of a failed command are missing in the report, the others are not.
run() { # OUT COMMAND...
    local out=$1 status=0
    shift
    "$@" >"$out" 2>"$folder/errors" </dev/null &
    child=$!
    wait "$child" || status=$?
    child=""
    [ "$status" -eq 0 ] && return
    failures=$((failures + 1))
    progress "failed with $status: $*"
    tail -n 5 "$folder/errors" >&2
    return 0
}

# The same in a new cgroup with the limit. Sets cgroup_peak, cgroup_failcnt and cgroup_kills.
run_limited() { # OUT COMMAND...
    local out=$1
    shift
    cgroup_make "$limit" || exit 1
    # shellcheck disable=SC2016 # the PID of the inner shell
    run "$out" bash -c 'echo $$ >"$0" && exec "$@"' "$cgroup_path/cgroup.procs" "$@"
    cgroup_read
    cgroup_remove
}

drop_pages() { # FILE: drops it from the page cache
    sync "$1"
    dd if="$1" iflag=nocache count=0 status=none
}

# --- the model ---

recited_text() { # N: prints N words of the walk, which is repeated if necessary; no newline, because it is a token
    awk -v n="$1" -v words="$words" 'BEGIN { for (i = 0; i < n; i++) printf "%st%d", i ? " " : "", i % words }'
}

find_trace() {
    trace=${LARDER_TRACE:-}
    [ -z "$trace" ] || [ -r "$trace" ] || fail "cannot read the trace $trace that LARDER_TRACE names"
    local shared="$root/../shared/traces/qwen3-30b-a3b.route.csv"
    if [ -z "$trace" ] && [ -r "$shared" ]; then trace=$shared; fi
}

make_recite_model() {
    local free
    free=$(df --output=avail -B1M "$folder" | tail -n 1)
    $quick || [ "$free" -gt 8192 ] || fail "$scratch has $free MiB free, the model takes 6.1 GiB: give --scratch or --quick"
    model="$folder/recite.gguf"
    progress "making the model"
    run "$folder/made" "$build/larder-make-recite" "${shape[@]}" ${trace:+--trace "$trace"} --out "$model"
    [ "$failures" -eq 0 ] || fail "the model was not made"
    words=$(sed -n 's/^recites \([0-9]*\) tokens.*/\1/p' "$folder/made")
}

find_trace
origin="given with --model"
if [ -z "$model" ]; then
    make_recite_model
    origin="recites ${trace:-a made-up trace (larder-make-recite --synthetic, its default)}"
fi
model_bytes=$(stat -L -c %s "$model")
first_words=$(recited_text 7)
recited_text "$words" >"$folder/walk.txt"
recited_text "$n_prefill" >"$folder/prompt.txt"

# --- the report ---

{
    print_head
    name_of=([1]=all_fits [2]=limited [3]=fast_disk [4]=hit_rates [5]=bytes [6]=bookkeeping)
    for section in $(tr , '\n' <<<"$sections" | sort -u); do
        "section_${name_of[$section]}"
    done
} >"$report"
cat "$report"
[ "$failures" -eq 0 ] || fail "$failures measurements failed; the report is in $report"
progress "the report is in $report"
