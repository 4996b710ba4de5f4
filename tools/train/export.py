#!/usr/bin/env python3
"""Writes a checkpoint of train.py as a GGUF of architecture qwen3moe, its matrices in Q8_0.

Needs llama.cpp's Python package gguf; tools/train/train.sh finds it.
"""

from __future__ import annotations

import argparse
import json
import os

import gguf
import numpy
import torch

import tokenizer
from model import Shape

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"

NAMES = {
    "attention_norm.weight": "attn_norm",
    "attention.q": "attn_q",
    "attention.k": "attn_k",
    "attention.v": "attn_v",
    "attention.out": "attn_output",
    "attention.q_norm.weight": "attn_q_norm",
    "attention.k_norm.weight": "attn_k_norm",
    "experts_norm.weight": "ffn_norm",
    "experts.router": "ffn_gate_inp",
    "experts.gate": "ffn_gate_exps",
    "experts.up": "ffn_up_exps",
    "experts.down": "ffn_down_exps",
}


def gguf_name(name: str) -> str:
    if name == "embedding":
        return "token_embd.weight"
    if name == "norm.weight":
        return "output_norm.weight"
    _, layer, rest = name.split(".", 2)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def add_metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name("kjv-moe-32x4")
    writer.add_description("A small mixture of experts trained on the King James Bible; ships with larder.")
    writer.add_license("public domain text; weights under larder's licence")
    writer.add_block_count(shape.layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.expert_ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.top_k)
    writer.add_expert_feed_forward_length(shape.expert_ff)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)


def add_vocabulary(writer: gguf.GGUFWriter, words: tokenizer.Tokenizer) -> None:
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words.tokens)
    writer.add_token_types([control if i == words.end_of_text else normal for i in range(len(words.tokens))])
    writer.add_token_merges([f"{a} {b}" for a, b in words.merges])
    writer.add_eos_token_id(words.end_of_text)
    writer.add_bos_token_id(words.end_of_text)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, help="the --out folder of train.py")
    parser.add_argument("--out", required=True, help="the GGUF to write")
    args = parser.parse_args()
    with open(os.path.join(args.checkpoint, "merges.json"), encoding="utf-8") as file:
        words = tokenizer.Tokenizer([tuple(pair) for pair in json.load(file)])
    weights = torch.load(os.path.join(args.checkpoint, "checkpoint.pt"))["model"]
    writer = gguf.GGUFWriter(args.out, "qwen3moe")
    add_metadata(writer, Shape())
    add_vocabulary(writer, words)
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    for name, tensor in weights.items():
        values = tensor.numpy().astype(numpy.float32)
        if values.ndim == 1 or name.endswith("router"):
            writer.add_tensor(gguf_name(name), values)
        else:
            writer.add_tensor(gguf_name(name), gguf.quantize(values, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
