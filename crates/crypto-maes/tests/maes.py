#!/usr/bin/env python3
"""mAES-512 written a second time, from docs/maes.md and not from the Rust code: the digest of a million blocks.

AES is that of the PyPI package `cryptography` (OpenSSL). Argument: the key in hexadecimal. Prints SHA-256 of the blocks
0, 1, 2, ... (SHA-256 of the number, 8 octets, most significant first, gives two blocks each) after encryption.
"""

import hashlib
import hmac
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

P = [4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15]


def hkdf(key, info, length):
    """RFC 5869 with an empty salt."""
    prk = hmac.new(bytes(32), key, hashlib.sha256).digest()
    out, last = b"", b""
    for number in range(1, 256):
        if len(out) >= length:
            break
        last = hmac.new(prk, last + info + bytes([number]), hashlib.sha256).digest()
        out += last
    return out[:length]


def add(blocks, w):
    count = len(blocks) // 16
    both = int.from_bytes(blocks, "big") ^ int.from_bytes(w * count, "big")
    return both.to_bytes(len(blocks), "big")


def permute(blocks):
    out = bytearray(len(blocks))
    for i, source in enumerate(P):
        out[i::16] = blocks[source::16]
    return bytes(out)


def ecb(key, blocks):
    return Cipher(AES(key), modes.ECB()).encryptor().update(blocks)


def encrypt(key, blocks):
    w = hkdf(key, b"mAES-512 v1", 48)
    inner = permute(ecb(key[:32], add(blocks, w[:16])))
    return add(ecb(key[32:], add(inner, w[16:32])), w[32:])


if __name__ == "__main__":
    key = bytes.fromhex(sys.argv[1])
    blocks = b"".join(hashlib.sha256(number.to_bytes(8, "big")).digest() for number in range(500_000))
    print(hashlib.sha256(encrypt(key, blocks)).hexdigest())
