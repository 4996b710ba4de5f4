# shellcheck shell=bash
# The sections of bench/show.sh, which sources this file. Each section measures, then prints its part of the report.
#
# shellcheck disable=SC2154 # show.sh sets the other variables

# --- figures ---

field() { # KEY: its first value in the JSON on standard input; empty if it is absent or null
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^,}\"]*\).*/\1/p" | head -n 1 | sed 's/^null$//'
}

row_field() { # FILE RESIDENCY TEST KEY: a value from a row of bench's JSON lines; TEST is pp or tg
    { grep "\"residency\":\"$2\"" "$1" || true; } | { grep "\"test\":\"$3" || true; } | field "$4"
}

stat_field() { # FILE KEY: a value from the output of larder run --stats
    [ ! -r "$1" ] || field "$2" <"$1"
}

numbers() { printf '%s\n' "$@" | { grep '[0-9]' || true; } | sort -g; } # sorted, without missing values

calc() { # FORMAT EXPRESSION: "-" if a value is missing or the divisor is 0
    awk "BEGIN { printf \"$1\", $2 }" 2>/dev/null || printf -- -
}

median() { # FORMAT NUMBERS...
    local format=$1
    shift
    numbers "$@" | awk -v format="$format" '
        { value[NR] = $1 }
        END { if (NR == 0) printf "-"; else printf format, (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

spread() { # FORMAT NUMBERS...: the median; with several numbers also the minimum and the maximum
    local format=$1 middle
    middle=$(median "$@")
    shift
    [ $# -gt 1 ] || { printf '%s' "$middle" && return; }
    numbers "$@" | awk -v format="$format" -v middle="$middle" '
        NR == 1 { low = $1 }
        { high = $1 }
        END { printf "%s (" format " to " format ")", middle, low, high }'
}

gib() { calc %.2f "$1 / 2^30"; }
mib() { calc %.1f "$1 / 2^20"; }

met() { # VALUE OPERATOR TARGET: yes, no, or "-" if a value is missing; prints nothing with --quick
    ! $quick || return 0
    [[ $1 =~ [0-9] && $3 =~ [0-9] ]] || { printf -- - && return; }
    awk "BEGIN { exit !($1 $2 $3) }" && printf yes || printf no
}

table() { printf '\n| what | target | measured | ratio | met |\n|---|---|---|---|---|\n'; }
line() { printf '| %s | %s | %s | %s | %s |\n' "$1" "${2:-}" "${3:-}" "${4:-}" "${5:-}"; }

print_head() {
    local commit
    commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo "no git")
    printf '# larder: the show\n\n'
    $quick && printf 'Made with `--quick`: the model is tiny, the figures only show that the script works.\n\n'
    printf -- '- %s, %s\n' "$("$build/larder" --version | head -n 1)" "$commit"
    printf -- '- %s; %s processors, %s GiB\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
        "$(awk '$1 == "MemTotal:" { printf "%.1f", $2 / 2^20 }' /proc/meminfo)"
    printf -- '- model of %s GiB, %s; %s words\n' "$(gib "$model_bytes")" "$origin" "$words"
    printf -- '- limit %s, %s pairs; of several values the median, the smallest and the largest\n' "$limit" "$pairs"
}

# --- 1 ---

section_all_fits() {
    local kind out pair file test
    local -A ratios rates
    for pair in $(seq "$pairs"); do
        for kind in plain repacked; do
            progress "everything fits: pair $pair of $pairs, $kind"
            out="$folder/fits.$kind.$pair"
            run "$out" "$build/larder" bench -m "$model" --no-probe --residency arena,stock --kernels "$kind" -r 1 \
                -p "$n_prefill" -n "$n_walk" -f "$folder/walk.txt" -o jsonl
        done
    done
    printf '\n## 1. Everything fits\n\nNo cgroup, both sides in RAM, warm, the same kernels.\n'
    table
    for kind in plain repacked; do
        for test in tg pp; do
            rates=([arena]="" [stock]="")
            ratios[$test]=""
            for file in "$folder/fits.$kind".*; do
                local ours stocks
                ours=$(row_field "$file" arena "$test" tok_s)
                stocks=$(row_field "$file" stock "$test" tok_s)
                rates[arena]+=" $ours"
                rates[stock]+=" $stocks"
                ratios[$test]+=" $(calc %.4f "$ours / $stocks")"
            done
            print_all_fits "$kind" "$test" "${rates[arena]}" "${rates[stock]}" "${ratios[$test]}"
        done
    done
}

# shellcheck disable=SC2086 # lists of numbers
print_all_fits() { # KERNELS TEST OURS STOCKS RATIOS
    local name=decode target=0.98
    if [ "$2" = pp ]; then name="prefill of $n_prefill" target=0.95; fi
    line "$name, $1" "at least $target of stock" "$(spread %.2f $3) tok/s, stock $(spread %.2f $4)" \
        "$(spread %.3f $5)" "$(met "$(median %.4f $5)" '>=' "$target")"
}

# --- 2 ---

section_limited() {
    local pair
    for pair in $(seq "$pairs"); do
        progress "in the cgroup: pair $pair of $pairs"
        run_limited "$folder/limited.tg.$pair" "$build/larder" bench -m "$model" --cold -r 1 -p 0 -n "$n_decode" \
            --prompt "$first_words" --kernels "$kernels" -o jsonl
        echo "$cgroup_peak $cgroup_failcnt $cgroup_kills" >"$folder/limited.kernel.$pair"
        run "$folder/ram.tg.$pair" "$build/larder" bench -m "$model" --no-probe --residency stock --kernels plain -r 1 -p 0 \
            -n "$n_decode" --prompt "$first_words" -o jsonl
        limited_prefill "$pair"
        limited_start "$pair"
    done
    progress "stock in the cgroup, at most $stock_seconds s"
    limited_stock
    print_limited
    print_limited_prefill
}

# The kernels of --kernels, and the fastest kernels.
prefill_kernels() { printf '%s\n' "$kernels" fast | sort -u; }

limited_prefill() { # PAIR
    local kind
    for kind in $(prefill_kernels); do
        run_limited "$folder/limited.pp.$kind.$1" "$build/larder" bench -m "$model" --no-probe --cold -r 1 \
            -p "$n_prefill" -n 0 -f "$folder/walk.txt" --kernels "$kind" -o jsonl
    done
    run "$folder/ram.pp.$1" "$build/larder" bench -m "$model" --no-probe --residency stock --kernels repacked -r 1 \
        -p "$n_prefill" -n 0 -f "$folder/walk.txt" -o jsonl
}

limited_start() { # PAIR
    drop_pages "$model"
    run_limited "$folder/text" "$build/larder" run -m "$model" --raw -p "$first_words" -n 1 --temp 0 -q \
        --kernels "$kernels" --stats "$folder/start.$1"
}

# The time includes loading. If stock does not finish, the time only gives an upper bound of its rate.
limited_stock() {
    local begin failed_before=$failures
    begin=$(date +%s.%N)
    run_limited "$folder/limited.stock" timeout -k 20 "$stock_seconds" "$build/larder" bench -m "$model" \
        --no-probe --residency stock --kernels plain --cold -r 1 -p 0 -n "$n_stock" --prompt "$first_words" -o jsonl
    stock_took=$(calc %.0f "$(date +%s.%N) - $begin")
    stock_rate=$(row_field "$folder/limited.stock" stock tg tok_s)
    stock_bound=""
    if [ -z "$stock_rate" ] && [ "$stock_took" -ge "$stock_seconds" ]; then
        failures=$failed_before # exceeding the time is a result
        stock_rate=$(calc %.3f "$n_stock / $stock_took")
        stock_bound="below "
    fi
}

of_all() { # PREFIX RESIDENCY TEST KEY: the value of each pair
    local pair
    for pair in $(seq "$pairs"); do row_field "$1.$pair" "$2" "$3" "$4"; done
}

# shellcheck disable=SC2046 # lists of numbers
print_limited() {
    local pair share=() serial=() rate ours limit_share
    for pair in $(seq "$pairs"); do
        ours=$(row_field "$folder/limited.tg.$pair" arena tg tok_s)
        share+=("$(calc %.4f "$ours / $(row_field "$folder/ram.tg.$pair" stock tg tok_s)")")
        serial+=("$(calc %.4f "$ours / $(row_field "$folder/limited.tg.$pair" arena tg serial_tok_s)")")
    done
    mapfile -t limit_share < <(of_all "$folder/limited.tg" arena tg limit_share)
    rate=$(median %.3f $(of_all "$folder/limited.tg" arena tg tok_s))
    printf '\n## 2. In a cgroup of %s\n\nCold: neither arena nor page cache hold anything of the model. Prompt of 7 tokens, %s decoded.\n' \
        "$limit" "$n_decode"
    table
    line "decode, larder" "" "$(spread %.2f $(of_all "$folder/limited.tg" arena tg tok_s)) tok/s"
    line "stock with everything in RAM, plain" "at least 0.80 of it" \
        "$(spread %.2f $(of_all "$folder/ram.tg" stock tg tok_s)) tok/s" "$(spread %.3f "${share[@]}")" \
        "$(met "$(median %.4f "${share[@]}")" '>=' 0.80)"
    line "limit 1 / max(T_io, T_cpu)" "at least 0.85 of it" \
        "$(spread %.2f $(of_all "$folder/limited.tg" arena tg limit_tok_s)) tok/s; T_io $(median %.1f $(of_all "$folder/limited.tg" arena tg t_io_ms)) ms, T_cpu $(median %.1f $(of_all "$folder/limited.tg" arena tg t_cpu_ms)) ms" \
        "$(spread %.3f "${limit_share[@]}")" "$(met "$(median %.4f "${limit_share[@]}")" '>=' 0.85)"
    line "serial 1 / (T_io + T_cpu)" "at least 1.25 times it" \
        "$(spread %.2f $(of_all "$folder/limited.tg" arena tg serial_tok_s)) tok/s" "$(spread %.3f "${serial[@]}")" \
        "$(met "$(median %.4f "${serial[@]}")" '>=' 1.25)"
    line "stock, mapped, in the same cgroup" "larder at least 60 times as fast" \
        "$stock_bound$(calc %.3f "$stock_rate") tok/s ($n_stock tokens; $stock_took s with loading)" \
        "${stock_bound:+above }$(calc %.1f "$rate / $stock_rate")" "$(met "$(calc %.4f "$rate / $stock_rate")" '>=' 60)"
    print_limited_account
}

# shellcheck disable=SC2046 # lists of numbers
print_limited_account() {
    local peak
    line "hit rate" "" "$(spread %.3f $(of_all "$folder/limited.tg" arena tg hit_rate))"
    line "waited for reads, a token" "" "$(spread %.1f $(of_all "$folder/limited.tg" arena tg stall_ms_per_token)) ms"
    line "read a token" "" "$(mib "$(median %.0f $(of_all "$folder/limited.tg" arena tg bytes_read_per_token))") MiB"
    line "W_s, random reads of slices" "" \
        "$(calc %.2f "$(median %.0f $(of_all "$folder/limited.tg" arena tg disk_bytes_per_second)) / 10^9") GB/s"
    peak=$(median %.0f $(of_all "$folder/limited.tg" arena tg peak_rss_bytes))
    line "peak RSS; swap" "at most the limit; none" \
        "$(mib "$peak") MiB; $(median %.0f $(of_all "$folder/limited.tg" arena tg vm_swap_bytes))" \
        "$(calc %.3f "$peak / $(numfmt --from=iec "$limit")")" "$(met "$peak" '<=' "$(numfmt --from=iec "$limit")")"
    line "the cgroup's own peak; times it hit the limit; processes killed" "0 killed" \
        "$(awk '{ printf "%s%.1f MiB; %s; %s", (NR > 1 ? ", then " : ""), $1 / 2^20, $2, $3 }' "$folder"/limited.kernel.*)" \
        "" "$(met "$(awk '{ sum += $3 } END { print sum + 0 }' "$folder"/limited.kernel.*)" '==' 0)"
}

# shellcheck disable=SC2046 # lists of numbers
print_limited_prefill() {
    local pair kind ratios waits=()
    for kind in $(prefill_kernels); do
        ratios=()
        for pair in $(seq "$pairs"); do
            ratios+=("$(calc %.4f "$(row_field "$folder/limited.pp.$kind.$pair" arena pp tok_s) / $(row_field "$folder/ram.pp.$pair" stock pp tok_s)")")
        done
        line "prefill of $n_prefill, \`--kernels $kind\` ($(row_field "$folder/limited.pp.$kind.1" arena pp kernels))" \
            "at least 1.0 of stock in RAM, repacked" \
            "$(spread %.2f $(of_all "$folder/limited.pp.$kind" arena pp tok_s)) tok/s, $(median %.2f $(of_all "$folder/limited.pp.$kind" arena pp stall_ms_per_token)) ms a token waited; stock $(spread %.2f $(of_all "$folder/ram.pp" stock pp tok_s))" \
            "$(spread %.3f "${ratios[@]}")" "$(met "$(median %.4f "${ratios[@]}")" '>=' 1.0)"
    done
    for pair in $(seq "$pairs"); do
        waits+=("$(calc %.3f "($(stat_field "$folder/start.$pair" load_ms) + $(stat_field "$folder/start.$pair" ttft_ms)) / 1000")")
    done
    line "start-up and first token (\`load_ms\` + \`ttft_ms\`), cold" "at most 2.5 s" "$(spread %.2f "${waits[@]}") s" \
        "$(calc %.3f "$(median %.4f "${waits[@]}") / 2.5")" "$(met "$(median %.4f "${waits[@]}")" '<=' 2.5)"
}

# --- 3 ---

section_fast_disk() {
    local pair room memory copied memory_rate
    printf '\n## 3. A fast disk\n\n'
    room=$(df --output=avail -B1 /dev/shm 2>/dev/null | tail -n 1 || echo 0)
    memory=$(awk '$1 == "MemAvailable:" { printf "%.0f", $2 * 1024 }' /proc/meminfo)
    if [ "$(calc %d "$model_bytes * 1.02 < $room && $model_bytes + $(numfmt --from=iec "$limit") + 2^30 < $memory")" != 1 ]; then
        printf 'Not measured: /dev/shm has %s GiB of room, and %s GiB of memory are free.\n' "$(gib "$room")" "$(gib "$memory")"
        return
    fi
    memory_folder=$(mktemp -d /dev/shm/larder-show.XXXXXX)
    copied="$memory_folder/recite.gguf"
    progress "copying the model to /dev/shm"
    run "$folder/text" cp "$model" "$copied"
    # Measures independently how fast one thread copies from tmpfs, in blocks of about the size of a slice.
    run "$folder/text" env LC_ALL=C dd if="$copied" of=/dev/null bs=256K count=8192 iflag=fullblock
    memory_rate=$(sed -n 's/^\([0-9]*\) bytes.* copied, \([0-9.e+-]*\) s.*/\1 \2/p' "$folder/errors" | awk '{ printf "%.0f", $1 / $2 }')
    for pair in $(seq "$pairs"); do
        progress "fast disk: $pair of $pairs"
        run_limited "$folder/fast.$pair" "$build/larder" bench -m "$copied" --cold -r 1 -p 0 -n "$n_decode" \
            --prompt "$first_words" --kernels "$kernels" --direct-io off -o jsonl
    done
    rm -rf "$memory_folder"
    memory_folder=""
    print_fast_disk "$memory_rate"
}

# shellcheck disable=SC2046 # lists of numbers
print_fast_disk() { # RATE: of dd
    local share rate
    mapfile -t share < <(of_all "$folder/fast" arena tg limit_share)
    rate=$(median %.0f $(of_all "$folder/fast" arena tg disk_bytes_per_second))
    printf 'The same decode in the same cgroup, the model in /dev/shm (charged outside), `--direct-io off`. Reading is copying\n'
    printf 'there, and W_s is what the engine'\''s own reader copies, slices in random order; `dd` copies as a check on it.\n'
    table
    line "share of 1 / max(T_io, T_cpu)" "at least 0.90" \
        "$(spread %.2f $(of_all "$folder/fast" arena tg tok_s)) tok/s of $(median %.2f $(of_all "$folder/fast" arena tg limit_tok_s)); T_io $(median %.1f $(of_all "$folder/fast" arena tg t_io_ms)) ms, T_cpu $(median %.1f $(of_all "$folder/fast" arena tg t_cpu_ms)) ms, waited $(median %.1f $(of_all "$folder/fast" arena tg stall_ms_per_token)) ms" \
        "$(spread %.3f "${share[@]}")" "$(met "$(median %.4f "${share[@]}")" '>=' 0.90)"
    line "W_s in /dev/shm beside \`dd bs=256K\`" "" \
        "$(calc %.2f "$rate / 10^9") GB/s, dd $(calc %.2f "$1 / 10^9") GB/s" "$(calc %.2f "$rate / $1")"
}

# --- 4 ---

section_hit_rates() {
    local traces=("$trace") sizes=10%,15%,20%,25%,30%
    progress "hit rates"
    if [ -z "$trace" ]; then
        run "$folder/text" "$build/larder" run -m "$model" --raw -p "$first_words" -n "$n_walk" --temp 0 --ignore-eos -q \
            --trace "$folder/recorded.jsonl"
        traces=("$folder/recorded.jsonl")
    elif [ -z "${LARDER_TRACE:-}" ]; then
        traces=("$root"/../shared/traces/*.csv "$root"/../shared/traces/*.jsonl)
        [ -e "${traces[1]}" ] || traces=("$trace")
    fi
    printf '\n## 4. Hit rates\n\n'
    run "$folder/rates" "$build/larder" simulate "${traces[@]}" --slots "$sizes"
    cat "$folder/rates"
    printf '\n'
    run "$folder/rates" "$build/larder" simulate "${traces[@]}" --slots "$sizes" --prefill-between 512
    cat "$folder/rates"
}

# --- 5 ---

section_bytes() {
    local stats="$folder/bytes.json" touched="$folder/touched" slices bytes windows startup resident
    progress "bytes"
    [ -e "$folder/start.1" ] || limited_start 1 # section 2 has written it
    drop_pages "$model"
    run_limited "$folder/text" "$build/larder" run -m "$model" --raw -f "$folder/prompt.txt" -n 1 --temp 0 -q \
        -ub "$n_prefill" -b "$n_prefill" --kernels "$kernels" --trace "$folder/prompt.trace" --stats "$stats"
    run "$touched" "$build/bench/touched_slices" "$model" "$folder/prompt.trace"
    slices=$(stat_field "$stats" slice_reads)
    bytes=$(stat_field "$stats" bytes_read)
    windows=$(awk '$1 == "window_bytes" { print $2 }' "$touched")
    startup=$(calc %.0f "$(stat_field "$folder/start.1" disk_read_bytes) - $(stat_field "$folder/start.1" bytes_read)")
    resident=$(stat_field "$folder/start.1" resident_bytes)
    printf '\n## 5. Bytes\n\nA cold prefill of %s tokens in the cgroup, and the distinct slices in the routes it recorded.\n' \
        "$(awk '$1 == "tokens" { print $2 }' "$touched")"
    table
    line "slices read" "each distinct one once" "$slices of $(awk '$1 == "slices" { print $2 }' "$touched")" \
        "$(calc %.4f "$slices / $(awk '$1 == "slices" { print $2 }' "$touched")")" \
        "$(met "$slices" '==' "$(awk '$1 == "slices" { print $2 }' "$touched")")"
    line "bytes read" "at most the slices' whole blocks" \
        "$(mib "$bytes") MiB of $(mib "$windows"); the slices alone $(mib "$(awk '$1 == "slice_bytes" { print $2 }' "$touched")")" \
        "$(calc %.4f "$bytes / $windows")" "$(met "$bytes" '<=' "$windows")"
    line "read from disk by start-up, experts left out" "at most resident weights + 1 %" \
        "$(mib "$startup") MiB of $(mib "$resident")" "$(calc %.4f "$startup / $resident")" \
        "$(met "$startup" '<=' "$(calc %.0f "$resident * 1.01")")"
}

# --- 6 ---

section_bookkeeping() {
    local flags=(--benchmark_filter=AllResident)
    progress "store_bench"
    if $quick; then flags+=(--benchmark_min_time=0.001); fi
    run "$folder/store" "$build/bench/store_bench" "${flags[@]}"
    printf '\n## 6. The cost of a hit\n\n`store_bench`: a layer'\''s three ops with 8 experts each, everything resident (24 slices).\n\n'
    printf '| slices in the store | time for 24 slices | a slice |\n|---|---|---|\n'
    awk -F '[ /]+' '/^AllResident/ { printf "| %s | %s %s | %.1f %s |\n", $2, $3, $4, $3 / 24, $4 }' "$folder/store"
}
