#!/usr/bin/env bash
# Makes a model of 620 MB, runs it with a third of that, and compares its logits with stock llama.cpp's.
#
# The model's weights are random (larder-make-model), so that what it says is noise; what it shows is that a model
# three times the budget runs inside it and computes exactly what llama.cpp computes. Removes the model afterwards; what
# the comparison found stays in demo-ab-test.json in the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
budget=200M

evidence="$build/demo-ab-test.json"
folder=$(mktemp -d "$build/demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT
model="$folder/demo.gguf"

step() { printf '\n\033[1m$ larder %s\033[0m\n' "$*"; }

echo "The demo model's weights are random numbers: what it will say is noise. Watch the memory and the comparison."
"$build/larder-make-model" --arch qwen3moe --layers 14 --experts 64 --embd 512 --ff 768 --heads 8 --out "$model"

step "inspect demo.gguf"
"$build/larder" inspect "$model"

step "run -m demo.gguf --ram $budget -p 'What is kept in a larder?' -n 48 --temp 0"
"$build/larder" run -m "$model" --ram "$budget" -p 'What is kept in a larder?' -n 48 --temp 0

step "verify -m demo.gguf --ram $budget,300M -n 16"
"$build/larder" verify -m "$model" --ram "$budget,300M" -n 16 --out "$evidence"

printf '\nShown: a model of 620 MiB ran in %s, and in both budgets larder computed the bits that llama.cpp computes.\n' "$budget"
