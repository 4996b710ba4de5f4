#!/usr/bin/env bash
# Runs the small trained model of models/ with an arena of a sixth of its experts, and compares its logits with stock
# llama.cpp's. The result of the comparison is written to demo-ab-test.json in the build folder.
#
#   scripts/demo.sh [--big] [BUILD]
#
# --big  also runs a model of 620 MB with a budget of 200 MB. Its weights are random (larder-make-model), so its text is
#        noise. It shows that a model of three times the budget runs within it, with the same bits. The model is removed
#        afterwards.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
big=false build="$root/build/release"
for argument in "$@"; do
    case $argument in
    --big) big=true ;;
    --help | -h) sed -n '2,/^set/{/^# \{0,1\}/!d;s///;p}' "$0" && exit 0 ;;
    *) build=$(realpath "$argument") ;;
    esac
done
[ -x "$build/larder" ] || { echo "error: there is no $build/larder: run make demo" >&2 && exit 1; }
cd "$root"
evidence="$build/demo-ab-test.json"

step() { printf '\n\033[1m$ larder %s\033[0m\n' "$*"; }

model=models/kjv-moe-32x4.q8_0.gguf
prompt='And the king said unto'

step "inspect $model"
"$build/larder" inspect "$model"

step "run -m $model --ram 32M --arena 2M -c 512 --raw -p '$prompt' -n 64 --temp 0.6 --seed 7"
"$build/larder" run -m "$model" --ram 32M --arena 2M -c 512 --no-profile --raw -p "$prompt" -n 64 --temp 0.6 --seed 7

step "verify -m $model --ram 32M --arena 2M -c 512 -p '$prompt' -n 32"
"$build/larder" verify -m "$model" --ram 32M --arena 2M -c 512 -p "$prompt" -n 32 --out "$evidence"

printf '\nShown: with a sixth of its experts in RAM the model answered inside 32 MiB, and computed the bits that llama.cpp computes.\n'
$big || exit 0

budget=200M
folder=$(mktemp -d "$build/demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT
model="$folder/big.gguf"

printf '\nThe next model has random weights: what it says is noise. Watch the memory and the comparison.\n'
"$build/larder-make-model" --arch qwen3moe --layers 14 --experts 64 --embd 512 --ff 768 --heads 8 --out "$model"

step "run -m big.gguf --ram $budget -p 'What is kept in a larder?' -n 48 --temp 0"
"$build/larder" run -m "$model" --ram "$budget" -p 'What is kept in a larder?' -n 48 --temp 0

step "verify -m big.gguf --ram $budget,300M -n 16"
"$build/larder" verify -m "$model" --ram "$budget,300M" -n 16 --out "$build/demo-big-ab-test.json"

printf '\nShown: a model of 620 MiB ran in %s, and in both budgets larder computed the bits that llama.cpp computes.\n' "$budget"
