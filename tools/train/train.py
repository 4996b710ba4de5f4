#!/usr/bin/env python3
"""Trains the small model that ships with larder. tools/train/train.sh runs it; models/README.md says what came of it.

Goes on from its last checkpoint, so it may be interrupted at any time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time

import torch
from torch.nn import functional as F

import tokenizer
from model import Model, Shape


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="plain ASCII text to learn")
    parser.add_argument("--out", required=True, help="folder for checkpoints and the report")
    parser.add_argument("--steps", type=int, default=1500, help="of optimisation (default 1500)")
    parser.add_argument("--batch", type=int, default=16, help="sequences a step (default 16)")
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate (default 2e-3)")
    parser.add_argument("--balance", type=float, default=0.02, help="weight of the balance loss (default 0.02)")
    parser.add_argument("--save-every", type=int, default=50, help="steps between checkpoints (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def load(args: argparse.Namespace) -> tuple[tokenizer.Tokenizer, torch.Tensor, torch.Tensor]:
    """The vocabulary, and tokens to train on and held out: each twentieth piece of about 4 KB, whole lines."""
    with open(args.text, encoding="ascii") as file:
        text = file.read()
    vocabulary_path = os.path.join(args.out, "merges.json")
    if os.path.exists(vocabulary_path):
        with open(vocabulary_path, encoding="utf-8") as file:
            words = tokenizer.Tokenizer([tuple(pair) for pair in json.load(file)])
    else:
        words = tokenizer.train(text, Shape.vocabulary)
        with open(vocabulary_path + ".new", "w", encoding="utf-8") as file:
            json.dump(words.merges, file)
        os.replace(vocabulary_path + ".new", vocabulary_path)
    pieces: list[str] = [""]
    for line in text.splitlines(keepends=True):
        if len(pieces[-1]) > 4096:
            pieces.append("")
        pieces[-1] += line
    held_out = "".join(piece for i, piece in enumerate(pieces) if i % 20 == 19)
    trained = "".join(piece for i, piece in enumerate(pieces) if i % 20 != 19)
    return words, torch.tensor(words.encode(trained)), torch.tensor(words.encode(held_out))


def batch_of(tokens: torch.Tensor, size: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.randint(len(tokens) - context - 1, (size,))
    rows = torch.stack([tokens[i : i + context + 1] for i in at])
    return rows[:, :-1], rows[:, 1:]


def loss_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


@torch.no_grad()
def judge(model: Model, tokens: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The mean loss on held-out text, and each layer's share of tokens by expert."""
    model.eval()
    context = model.shape.context
    rows = tokens[: (len(tokens) - 1) // context * context + 1]
    inputs = rows[:-1].view(-1, context)
    wanted = rows[1:].view(-1, context)
    losses = []
    counts = torch.zeros(model.shape.layers, model.shape.experts)
    for i in range(0, len(inputs), 16):
        logits, _, count = model(inputs[i : i + 16])
        losses.append(loss_of(logits, wanted[i : i + 16]).item() * len(inputs[i : i + 16]))
        counts += count
    model.train()
    return sum(losses) / len(inputs), counts / counts.sum(-1, keepdim=True)


def rate_at(step: int, args: argparse.Namespace) -> float:
    """Warms up for 100 steps, then falls along a cosine to a twentieth."""
    if step < 100:
        return args.rate * (step + 1) / 100
    part = (step - 100) / max(1, args.steps - 100)
    return args.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, part))))


def save(path: str, state: dict) -> None:
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


@torch.no_grad()
def sample(model: Model, words: tokenizer.Tokenizer, prompt: str, tokens: int) -> str:
    ids = words.encode(prompt)
    for _ in range(tokens):
        logits, _, _ = model(torch.tensor([ids[-model.shape.context :]]))
        chance = (logits[0, -1] / 0.7).softmax(-1)
        ids.append(int(torch.multinomial(chance, 1)))
    return words.decode(ids)


def main() -> None:
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(args.seed)
    words, trained, held_out = load(args)
    model = Model(Shape())
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.95)
    )
    checkpoint = os.path.join(args.out, "checkpoint.pt")
    step = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])
        step = state["step"]
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(trained)} tokens, {len(held_out)} held out")
    began = time.time()
    began_at = step
    while step < args.steps:
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, args)
        inputs, wanted = batch_of(trained, args.batch, model.shape.context)
        logits, balance, count = model(inputs)
        loss = loss_of(logits, wanted)
        optimiser.zero_grad(set_to_none=True)
        (loss + args.balance * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        if step % args.save_every == 0 or step == args.steps:
            rate = (step - began_at) * inputs.numel() / (time.time() - began)
            least = (count.min(-1).values / count.sum(-1)).min().item() * model.shape.experts
            print(f"step {step} loss {loss.item():.3f} balance {balance.item():.3f} least used {least:.2f} "
                  f"{rate:.0f} tokens/s", flush=True)
            save(checkpoint, {"model": model.state_dict(), "optimiser": optimiser.state_dict(),
                              "random": torch.get_rng_state(), "step": step})
        if step % 500 == 0:
            print(f"step {step} held-out loss {judge(model, held_out)[0]:.4f}", flush=True)
    loss, share = judge(model, held_out)
    torch.manual_seed(args.seed)
    report = {
        "steps": step,
        "tokens": step * args.batch * model.shape.context,
        "held_out_loss": loss,
        "held_out_perplexity": math.exp(loss),
        "least_used_expert": share.min().item() * model.shape.experts,  # 1: an equal share
        "most_used_expert": share.max().item() * model.shape.experts,
        "samples": [sample(model, words, prompt, 80) for prompt in ("And God said", "The king", "Blessed is")],
    }
    with open(os.path.join(args.out, "report.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
