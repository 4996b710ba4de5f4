"""A byte-level BPE vocabulary as GPT-2's, which is what llama.cpp's "gpt-2" tokenizer expects.

Training merges the most frequent pair of symbols again and again; ties go to the pair that sorts first, so that the
same text gives the same vocabulary everywhere.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

# GPT-2's pattern for ASCII text (Python's re does not support \p{L}).
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")

END_OF_TEXT = "<|endoftext|>"


def printable_bytes() -> dict[int, str]:
    """GPT-2's name of each byte: printable ones are themselves, the others letters from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    names = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in names:
            names[byte] = chr(256 + len(names) - len(printable))
    return names


class Tokenizer:
    def __init__(self, merges: list[tuple[str, str]]):
        self.merges = merges
        self.rank = {pair: i for i, pair in enumerate(merges)}
        self.byte_names = printable_bytes()
        self.tokens = list(self.byte_names[b] for b in range(256)) + [a + b for a, b in merges] + [END_OF_TEXT]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.end_of_text = self.ids[END_OF_TEXT]
        self._known: dict[str, list[int]] = {}

    def _encode_word(self, word: str) -> list[int]:
        symbols = [self.byte_names[b] for b in word.encode()]
        while len(symbols) > 1:
            ranks = [self.rank.get(pair, len(self.rank)) for pair in zip(symbols, symbols[1:])]
            best = min(ranks)
            if best == len(self.rank):
                break
            at = ranks.index(best)
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        return [self.ids[s] for s in symbols]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in WORDS.findall(text):
            if word not in self._known:
                self._known[word] = self._encode_word(word)
            ids += self._known[word]
        return ids

    def decode(self, ids: list[int]) -> str:
        byte_of = {name: byte for byte, name in self.byte_names.items()}
        text = bytearray()
        for i in ids:
            if i != self.end_of_text:
                text += bytes(byte_of[name] for name in self.tokens[i])
        return text.decode(errors="replace")


def train(text: str, vocabulary: int) -> Tokenizer:
    """A vocabulary of so many tokens: 256 bytes, merges, and the end of a text."""
    names = printable_bytes()
    counts = Counter(WORDS.findall(text))
    words = [[names[b] for b in word.encode()] for word in counts]
    uses = list(counts.values())
    pairs: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], set[int]] = defaultdict(set)

    def count(w: int, sign: int) -> None:
        for pair in zip(words[w], words[w][1:]):
            pairs[pair] += sign * uses[w]
            if sign > 0:
                where[pair].add(w)

    for w in range(len(words)):
        count(w, 1)
    merges: list[tuple[str, str]] = []
    while len(merges) < vocabulary - 256 - 1:
        most = max(pairs.values())
        best = min(pair for pair, n in pairs.items() if n == most)
        merges.append(best)
        for w in sorted(where.pop(best)):
            count(w, -1)
            merged: list[str] = []
            for symbol in words[w]:
                if merged and (merged[-1], symbol) == best:
                    merged[-1] += symbol
                else:
                    merged.append(symbol)
            words[w] = merged
            count(w, 1)
        del pairs[best]
    return Tokenizer(merges)
