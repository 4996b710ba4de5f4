#!/usr/bin/env bash
# Makes a model of 620 MB, runs it with a third of that, and compares its logits with stock llama.cpp's.
#
# The model's weights are random (larder-make-model), so that what it says is noise; what it shows is that a model
# three times the budget runs inside it and computes exactly what llama.cpp computes. Removes the model afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
budget=200M

folder=$(mktemp -d "$build/demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT
model="$folder/demo.gguf"

step() { printf '\n\033[1m$ larder %s\033[0m\n' "$*"; }

"$build/larder-make-model" --arch qwen3moe --layers 14 --experts 64 --embd 512 --ff 768 --heads 8 --out "$model"

step "inspect demo.gguf"
"$build/larder" inspect "$model"

step "run -m demo.gguf --ram $budget -p 'What is kept in a larder?' -n 48 --temp 0"
"$build/larder" run -m "$model" --ram "$budget" -p 'What is kept in a larder?' -n 48 --temp 0

step "verify -m demo.gguf --ram $budget --ram 300M -n 16"
"$build/larder" verify -m "$model" --ram "$budget" --ram 300M -n 16 --out "$folder/ab-test.json"
