"""qwen3moe in PyTorch, small: the same arithmetic as llama.cpp's graph of that architecture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    vocabulary: int = 2048
    layers: int = 8
    embedding: int = 256
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    experts: int = 32
    top_k: int = 4
    expert_ff: int = 32
    context: int = 256  # tokens, in training
    rope_base: float = 10000.0
    rms_eps: float = 1e-6


class RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def matrix(*shape: int, scale: float = 0.02) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * scale)


def rotation(shape: Shape, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of each position and half of a head (NEOX order: first half with second half)."""
    frequency = shape.rope_base ** (-torch.arange(0, shape.head, 2).float() / shape.head)
    angle = torch.arange(tokens).float()[:, None] * frequency[None, :]
    return angle.cos(), angle.sin()


def rotate(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    cos, sin = turn
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.q = matrix(shape.heads * shape.head, shape.embedding)
        self.k = matrix(shape.kv_heads * shape.head, shape.embedding)
        self.v = matrix(shape.kv_heads * shape.head, shape.embedding)
        self.out = matrix(shape.embedding, shape.heads * shape.head, scale=0.02 / (2 * shape.layers) ** 0.5)
        self.q_norm = RmsNorm(shape.head, shape.rms_eps)
        self.k_norm = RmsNorm(shape.head, shape.rms_eps)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape

        def by_head(weight: torch.Tensor, heads: int) -> torch.Tensor:
            return F.linear(x, weight).view(batch, tokens, heads, self.shape.head).transpose(1, 2)

        q = rotate(self.q_norm(by_head(self.q, self.shape.heads)), turn)
        k = rotate(self.k_norm(by_head(self.k, self.shape.kv_heads)), turn)
        v = by_head(self.v, self.shape.kv_heads)
        shared = self.shape.heads // self.shape.kv_heads
        k = k.repeat_interleave(shared, dim=1)
        v = v.repeat_interleave(shared, dim=1)
        score = q @ k.transpose(-1, -2) / self.shape.head**0.5 + mask
        mixed = (score.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, -1)
        return F.linear(mixed, self.out)


class Experts(nn.Module):
    """Softmax over all experts, the top-k of them, their weights normed to a sum of 1."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.router = matrix(shape.experts, shape.embedding)
        # Each expert is a narrow matrix. The usual 0.02 would make its outputs very small.
        self.gate = matrix(shape.experts, shape.expert_ff, shape.embedding, scale=0.04)
        self.up = matrix(shape.experts, shape.expert_ff, shape.embedding, scale=0.04)
        self.down = matrix(shape.experts, shape.embedding, shape.expert_ff, scale=0.04)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The output, the balance loss (1 when balanced), and how many tokens chose each expert."""
        flat = x.reshape(-1, x.shape[-1])
        chance = F.linear(flat, self.router).softmax(-1)
        weight, chosen = chance.topk(self.shape.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        place = chosen.flatten().argsort(stable=True)
        count = torch.bincount(chosen.flatten(), minlength=self.shape.experts)
        token = torch.div(place, self.shape.top_k, rounding_mode="floor")
        gathered = flat[token].split(count.tolist())
        outputs = [
            F.linear(F.silu(F.linear(rows, gate)) * F.linear(rows, up), down)
            for rows, gate, up, down in zip(gathered, self.gate, self.up, self.down)
        ]
        weighted = torch.cat(outputs) * weight.flatten()[place][:, None]
        mixed = torch.zeros_like(flat).index_add(0, token, weighted)
        share = count.float() / count.sum()
        balance = self.shape.experts * (share.detach() * chance.mean(0)).sum()
        return mixed.view_as(x), balance, count


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm = RmsNorm(shape.embedding, shape.rms_eps)
        self.attention = Attention(shape)
        self.experts_norm = RmsNorm(shape.embedding, shape.rms_eps)
        self.experts = Experts(shape)


class Model(nn.Module):
    """The output head is the embedding, transposed."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embedding = matrix(shape.vocabulary, shape.embedding)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.embedding, shape.rms_eps)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits [batch, tokens, vocabulary], the mean balance loss, and each layer's count by expert."""
        n = tokens.shape[1]
        turn = rotation(self.shape, n)
        mask = torch.full((n, n), float("-inf")).triu(1)
        x = self.embedding[tokens]
        balances = []
        counts = []
        for block in self.blocks:
            x = x + block.attention(block.attention_norm(x), turn, mask)
            mixed, balance, count = block.experts(block.experts_norm(x))
            x = x + mixed
            balances.append(balance)
            counts.append(count)
        return F.linear(self.norm(x), self.embedding), torch.stack(balances).mean(), torch.stack(counts)
