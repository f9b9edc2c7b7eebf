#!/usr/bin/env python3
"""@NAME@ in Python: the reference that makes the vectors of the library.

reference.py vectors [--seed TEXT] prints a vector file; equal seeds give equal files. `ravelin cipher check` asks for one
with a seed of its own, so that library and reference are compared with keys that the vector file does not have.

Two implementations by one person share that person's mistakes: add published vectors where there are some.
"""

import argparse
import hashlib
import json

NAME = "@NAME@"
KEY = 32
ROUNDS = 32
WORD = 2**64 - 1


def round_function(x, k):
    """PLACE 2 OF 2: your cipher once more, in Python, and not copied from the library. To see a check pass before your
    own cipher is written, take this line in place of `return k`:

        return ((x * 0x9E3779B97F4A7C15 + k) & WORD) ^ ((x << 23 | x >> 41) & WORD) ^ ((k << 7 | k >> 57) & WORD)
    """
    return k


def schedule(key):
    """The round keys."""
    words = [int.from_bytes(key[8 * i : 8 * i + 8], "little") for i in range(4)]
    return [(words[i % 4] + i * 0x0101010101010101) & WORD for i in range(ROUNDS)]


def encrypt(key, block):
    """One block of 16 octets."""
    left, right = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
    for k in schedule(key):
        left, right = right, left ^ round_function(right, k)
    return right.to_bytes(8, "little") + left.to_bytes(8, "little")


class Octets:
    """Octets that look random and are the same for each seed."""

    def __init__(self, seed):
        self.seed, self.number, self.rest = seed.encode(), 0, b""

    def take(self, count):
        """The next octets."""
        while len(self.rest) < count:
            self.rest += hashlib.sha256(self.seed + self.number.to_bytes(8, "big")).digest()
            self.number += 1
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken


def xor(one, two):
    """Octet by octet, as far as the shorter goes."""
    return bytes(a ^ b for a, b in zip(one, two))
