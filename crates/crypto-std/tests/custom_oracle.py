#!/usr/bin/env python3
"""What mAES-512 makes of a packet in every mode and with every integrity algorithm, written a second time.

From the issue's text, RFC 3686, 3602, 4106 and 4868 and docs/maes.md, not from the Rust code; the primitives are those
of the PyPI package `cryptography` (OpenSSL). Prints a line for each suite, form of sequence number and length:
SUITE EXTENDED OCTETS IV CIPHERTEXT ICV, in hexadecimal. `crates/offline/tests/oracle/own.py` makes whole packets of it.
"""

import hashlib
import hmac
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../crypto-maes/tests"))

from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: E402
from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: E402
from cryptography.hazmat.primitives.cmac import CMAC  # noqa: E402
from maes import add, ecb, encrypt  # noqa: E402

SEQUENCE = 0x5_0000_0007
HEADER = bytes([1, 2, 3, 4, 5, 6, 7, 8])


def keymat(length):
    """As the tests of the crate number their octets."""
    return bytes((i * 37 & 0xFF) ^ 1 for i in range(length))


def fixed(label, pair, length):
    """The octets that a cipher's behaviour is looked at with."""
    out, part = b"", 0
    while len(out) < length:
        out += hashlib.sha256(
            b"ravelin cipher behaviour v1 " + label + struct.pack(">II", pair, part)
        ).digest()
        part += 1
    return out[:length]


def behaviour():
    hash = hashlib.sha256(b"block")
    for pair in range(256):
        hash.update(encrypt(fixed(b"key", pair, 64), fixed(b"input", pair, 64)))
    return hash.digest()


BEHAVIOUR = behaviour()


def bound(key):
    """HKDF-Expand-SHA-256 (RFC 5869 section 2.3) to as many octets as the key has."""
    out, last, number = b"", b"", 1
    while len(out) < len(key):
        last = hmac.new(key, last + b"ravelin cipher v1" + BEHAVIOUR + bytes([number]), hashlib.sha256).digest()
        out, number = out + last, number + 1
    return out[: len(key)]


def counter_mode(key, nonce, first, data):
    blocks = b"".join(nonce + struct.pack(">I", first + i) for i in range((len(data) + 15) // 16))
    return add_short(data, encrypt(key, blocks))


def add_short(data, stream):
    return bytes(a ^ b for a, b in zip(data, stream))


def cbc(key, sequence, data):
    iv = state = encrypt(key, sequence.rjust(16, b"\0"))
    out = b""
    for at in range(0, len(data), 16):
        state = encrypt(key, add(data[at : at + 16], state))
        out += state
    return iv, out


def times(x, y):
    """The product in GCM's field (NIST SP 800-38D section 6.3)."""
    z = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z


def ghash(h, octets):
    y = 0
    for at in range(0, len(octets), 16):
        y = times(y ^ int.from_bytes(octets[at : at + 16], "big"), h)
    return y.to_bytes(16, "big")


def padded(octets):
    return octets + bytes(-len(octets) % 16)


def gcm(key, nonce, aad, data):
    h = int.from_bytes(encrypt(key, bytes(16)), "big")
    out = counter_mode(key, nonce, 2, data)
    lengths = struct.pack(">QQ", 8 * len(aad), 8 * len(out))
    tag = ghash(h, padded(aad) + padded(out) + lengths)
    return out, add(tag, encrypt(key, nonce + struct.pack(">I", 1)))


def cmac(key, octets):
    mac = CMAC(AES(key))
    mac.update(octets)
    return mac.finalize()


def xcbc(key, octets):
    """RFC 3566 section 4."""
    first, full, short = (ecb(key, bytes([i]) * 16) for i in (1, 2, 3))
    *blocks, last = [octets[at : at + 16] for at in range(0, len(octets), 16)]
    state = bytes(16)
    for block in blocks:
        state = ecb(first, add(state, block))
    last = add(last, full) if len(last) == 16 else add((last + b"\x80").ljust(16, b"\0"), short)
    return ecb(first, add(state, last))


MACS = {
    "sha256": (32, lambda key, octets: hmac.new(key, octets, "sha256").digest()[:16]),
    "sha384": (48, lambda key, octets: hmac.new(key, octets, "sha384").digest()[:24]),
    "sha512": (64, lambda key, octets: hmac.new(key, octets, "sha512").digest()[:32]),
    "md5": (16, lambda key, octets: hmac.new(key, octets, "md5").digest()[:12]),
    "sha1": (20, lambda key, octets: hmac.new(key, octets, "sha1").digest()[:12]),
    "aesxcbc": (16, lambda key, octets: xcbc(key, octets)[:12]),
    "aescmac": (16, lambda key, octets: cmac(key, octets)[:12]),
}


SUITES = [f"maes512{mode}-{mac}" for mode in ("ctr", "cbc") for mac in MACS]
SUITES += ["maes512gcm", "maes512ctr-aes256gcm"]


def keymat_len(suite):
    """Octets of the cipher's key, its salt, the key around it, and the salt of that."""
    if suite == "maes512gcm":
        return 64 + 4
    if suite == "maes512ctr-aes256gcm":
        return 64 + 4 + 32 + 4
    cipher, integrity = suite.split("-")
    return 64 + (4 if cipher == "maes512ctr" else 0) + MACS[integrity][0]


def protect(suite, keys, header, sequence, extended, data):
    """IV, ciphertext and ICV of padded data. The header has SPI and lower half of the sequence number."""
    iv, upper = struct.pack(">Q", sequence), struct.pack(">I", sequence >> 32)
    aad = header[:4] + upper + header[4:] if extended else header
    if suite == "maes512gcm":
        out, icv = gcm(keys[:64], keys[64:] + iv, aad, data)
        return iv, out, icv
    if suite == "maes512ctr-aes256gcm":
        inner = counter_mode(keys[:64], keys[64:68] + iv, 1, data)
        sealed = AESGCM(bound(keys[68:100])).encrypt(keys[100:] + iv, inner, aad)
        return iv, sealed[:-16], sealed[-16:]
    cipher, integrity = suite.split("-")
    _, mac = MACS[integrity]
    if cipher == "maes512cbc":
        iv, out = cbc(keys[:64], iv, data)
        rest = keys[64:]
    else:
        out = counter_mode(keys[:64], keys[64:68] + iv, 1, data)
        rest = keys[68:]
    return iv, out, mac(bound(rest), header + iv + out + (upper if extended else b""))


if __name__ == "__main__":
    print("behaviour", BEHAVIOUR.hex())
    for suite in SUITES:
        for extended in (False, True):
            for octets in (16, 64, 1104) if "cbc" in suite else (1, 64, 1109):
                data = bytes(i % 251 for i in range(octets))
                iv, out, icv = protect(suite, keymat(keymat_len(suite)), HEADER, SEQUENCE, extended, data)
                print(suite, int(extended), octets, iv.hex(), out.hex(), icv.hex())
