#!/usr/bin/env python3
"""Speck128/256 in Python, written apart from speck.c: it makes the vectors that the library is compared with.

reference.py vectors [--seed TEXT] prints a vector file; equal seeds give equal files. reference.py montecarlo computes
MONTECARLO again, which takes about half a minute.
"""

import argparse
import hashlib
import json

NAME, KEY, BLOCK, ROUNDS = "speck", 32, 16, 34
MASK = 2**64 - 1
# The vector of Speck128/256 in appendix C of Beaulieu and others, "The Simon and Speck Families of Lightweight Block
# Ciphers" (IACR ePrint 2013/404). The paper prints the words, the most significant one first.
PUBLISHED = {
    "key": (0x1F1E1D1C1B1A1918, 0x1716151413121110, 0x0F0E0D0C0B0A0908, 0x0706050403020100),
    "msg": (0x65736F6874206E49, 0x202E72656E6F6F70),
    "ct": (0x4109010405C0F53E, 0x4EEEB48D9C188F43),
}
# What docs/custom-cipher.md defines for a block cipher.
MONTECARLO = "0945967c28ef6f91eb61365f523f362b"


def octets_of(words):
    """The octets of words as the paper prints them."""
    return b"".join(word.to_bytes(8, "little") for word in reversed(words))


def turned(word, bits):
    """A word rotated to the left."""
    return (word << bits | word >> (64 - bits)) & MASK


def step(x, y, k):
    """The round function of section 4.1 of the paper."""
    x = (turned(x, 56) + y & MASK) ^ k
    return x, turned(y, 3) ^ x


def schedule(key):
    """The round keys: the sequences k and l of section 4.2 of the paper."""
    k, *words = (int.from_bytes(key[at : at + 8], "little") for at in range(0, KEY, 8))
    keys = [k]
    for i in range(ROUNDS - 1):
        new, k = step(words[i], k, i)
        words.append(new)
        keys.append(k)
    return keys


def encrypt(keys, block):
    """One block."""
    number = int.from_bytes(block, "little")
    x, y = number >> 64, number & MASK
    for k in keys:
        x, y = step(x, y, k)
    return (x << 64 | y).to_bytes(BLOCK, "little")


def xor(one, two):
    """Octet by octet, as far as the shorter goes."""
    return bytes(a ^ b for a, b in zip(one, two))


def pieces(message):
    """The message in blocks; the last one may be shorter."""
    return [message[at : at + BLOCK] for at in range(0, len(message), BLOCK)]


def ecb(key, message):
    """Blocks, each for itself."""
    keys = schedule(key)
    return b"".join(encrypt(keys, block) for block in pieces(message))


def ctr(key, counter, message):
    """Counter mode (RFC 3686 section 4): the last four octets count, and wrap without carry."""
    keys, first = schedule(key), int.from_bytes(counter[12:], "big")
    counters = (counter[:12] + ((first + i) % 2**32).to_bytes(4, "big") for i in range(len(message)))
    return b"".join(xor(piece, encrypt(keys, next(counters))) for piece in pieces(message))


def cbc(key, iv, message):
    """CBC without padding (NIST SP 800-38A section 6.2)."""
    keys, out = schedule(key), [iv]
    for block in pieces(message):
        out.append(encrypt(keys, xor(block, out[-1])))
    return b"".join(out[1:])


def tests(seed):
    """The published test, then blocks, counter mode, counters that wrap, and CBC."""
    published = {name: octets_of(words) for name, words in PUBLISHED.items()}
    assert ecb(published["key"], published["msg"]) == published["ct"], "the published vector"
    yield {"mode": "block", **published}
    for number in range(150):
        octets = hashlib.shake_256(f"{NAME} {seed} {number}".encode()).digest(KEY + BLOCK + 400)
        key, iv, message = octets[:KEY], octets[KEY : KEY + BLOCK], octets[KEY + BLOCK :]
        if number % 3 == 0:
            message = message[: BLOCK * (1 + number % 8)]
            yield {"mode": "block", "key": key, "msg": message, "ct": ecb(key, message)}
        elif number % 3 == 1:
            iv = iv[:12] + (2**32 - 1 - number % 5).to_bytes(4, "big") if number % 2 else iv
            message = message[: 1 + 2 * number]
            yield {"mode": "ctr", "key": key, "iv": iv, "msg": message, "ct": ctr(key, iv, message)}
        else:
            message = message[: BLOCK * (number % 8)]
            yield {"mode": "cbc", "key": key, "iv": iv, "msg": message, "ct": cbc(key, iv, message)}


def montecarlo():
    """1000 keys with 1000 iterations each, as docs/custom-cipher.md says."""
    key, text = bytes(range(KEY)), bytes(BLOCK)
    for _ in range(1000):
        keys = schedule(key)
        for _ in range(1000):
            text = encrypt(keys, text)
        key = xor(key, text * (KEY // BLOCK))
    return text.hex()


def main():
    """Print what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["vectors", "montecarlo"])
    parser.add_argument("--seed", default="vectors")
    asked = parser.parse_args()
    if asked.command == "montecarlo":
        print(montecarlo())
        return
    listed = []
    for number, test in enumerate(tests(asked.seed), 1):
        fields = {name: value if name == "mode" else value.hex() for name, value in test.items()}
        listed.append({"tcId": number, "result": "valid", **fields})
    print(json.dumps({"cipher": NAME, "montecarlo": MONTECARLO, "tests": listed}))


if __name__ == "__main__":
    main()
