#!/usr/bin/env python3
"""Print src/known_answer/answers.rs: what every suite and every AH algorithm must compute.

The primitives are those of the PyPI package `cryptography` (OpenSSL); what ESP and AH make of them is written here a second
time, from the RFCs and not from the Rust code. Needs `pip install cryptography`. Run:

    python3 crates/crypto/tests/oracle.py > crates/crypto/src/known_answer/answers.rs
"""

import hmac
import struct

from cryptography.hazmat.decrepit.ciphers.algorithms import Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

HEADER = bytes([1, 2, 3, 4, 0, 0, 0, 7])
SEQUENCE = 0x5_0000_0007
DATA = bytes(range(64))
# Longer than any implementation takes at once, and no multiple of that; for ciphers without a block, of nothing.
LONG = bytes(i % 251 for i in range(1104))
LONG_ODD = bytes(i % 251 for i in range(1109))
IV = struct.pack(">Q", SEQUENCE)
UPPER = struct.pack(">I", SEQUENCE >> 32)
# An AH packet in pieces: lengths that are no multiple of any block, and an empty one.
PARTS = [bytes(range(20)), b"", bytes(range(100, 147)), bytes(range(200, 216)), UPPER]


def ecb(key, block):
    return Cipher(AES(key), modes.ECB()).encryptor().update(block)


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def xcbc(key, message):
    """RFC 3566 section 4."""
    k1, k2, k3 = (ecb(key, bytes([i]) * 16) for i in (1, 2, 3))
    blocks = [message[i : i + 16] for i in range(0, len(message), 16)] or [b""]
    state = bytes(16)
    for block in blocks[:-1]:
        state = ecb(k1, xor(state, block))
    last = blocks[-1]
    if len(last) == 16:
        last = xor(last, k2)
    else:
        last = xor((last + b"\x80").ljust(16, b"\0"), k3)
    return ecb(k1, xor(state, last))


def cmac(key, message):
    mac = CMAC(AES(key))
    mac.update(message)
    return mac.finalize()


def gmac(keymat, iv, message):
    return AESGCM(keymat[:-4]).encrypt(keymat[-4:] + iv, b"", message)


# name: (octets of keying material, octets of ICV, function of key and message)
MACS = {
    "sha256": (32, 16, lambda k, m: hmac.digest(k, m, "sha256")),
    "sha384": (48, 24, lambda k, m: hmac.digest(k, m, "sha384")),
    "sha512": (64, 32, lambda k, m: hmac.digest(k, m, "sha512")),
    "sha1": (20, 12, lambda k, m: hmac.digest(k, m, "sha1")),
    "aesxcbc": (16, 12, xcbc),
    "aescmac": (16, 12, cmac),
    "md5": (16, 12, lambda k, m: hmac.digest(k, m, "md5")),
}
GMACS = {f"aes{bits}gmac": bits // 8 + 4 for bits in (128, 192, 256)}


def cbc(algorithm, key, size, data):
    """The IV is the sequence number as one block, encrypted under the same key (SP 800-38A appendix C)."""
    iv = Cipher(algorithm(key), modes.ECB()).encryptor().update(IV.rjust(size, b"\0"))
    return iv, Cipher(algorithm(key), modes.CBC(iv)).encryptor().update(data)


def ctr(keymat, data):
    """RFC 3686 section 4."""
    block = keymat[-4:] + IV + struct.pack(">I", 1)
    return IV, Cipher(AES(keymat[:-4]), modes.CTR(block)).encryptor().update(data)


# name: (octets of keying material, function of it and data that gives IV and ciphertext, the long data)
CIPHERS = {"null": (0, lambda k, d: (b"", d), LONG_ODD)}
for bits in (128, 192, 256):
    CIPHERS[f"aes{bits}cbc"] = (bits // 8, lambda k, d: cbc(AES, k, 16, d), LONG)
    CIPHERS[f"aes{bits}ctr"] = (bits // 8 + 4, ctr, LONG_ODD)
for bits in (128, 192, 256):
    CIPHERS[f"camellia{bits}cbc"] = (bits // 8, lambda k, d: cbc(Camellia, k, 16, d), LONG)
CIPHERS["3des"] = (24, lambda k, d: cbc(TripleDES, k, 8, d), LONG)
# One DES is triple DES under one key three times.
CIPHERS["des"] = (8, lambda k, d: cbc(TripleDES, k * 3, 8, d), LONG)


def esp():
    """Yields name and three ICVs: with short, with extended sequence numbers, and these with the long data."""
    short, extended = HEADER, HEADER[:4] + IV

    def keymat(length):
        return bytes(range(length))

    def three(icv, seal):
        runs = ((short, DATA), (extended, DATA), (extended, LONG_ODD))
        return [seal(aad, data)[len(data) :][:icv] for aad, data in runs]

    for bits in (128, 192, 256):
        for icv in (16, 12, 8):
            tail = "" if icv == 16 else str(icv)
            key = keymat(bits // 8 + 4)
            gcm = AESGCM(key[:-4])
            yield f"aes{bits}gcm{tail}", three(icv, lambda aad, data: gcm.encrypt(key[-4:] + IV, data, aad))
            key = keymat(bits // 8 + 3)
            ccm = AESCCM(key[:-3], tag_length=icv)
            yield f"aes{bits}ccm{tail}", three(icv, lambda aad, data: ccm.encrypt(key[-3:] + IV, data, aad))
    key = keymat(36)
    chacha = ChaCha20Poly1305(key[:32])
    yield "chacha20poly1305", three(16, lambda aad, data: chacha.encrypt(key[32:] + IV, data, aad))
    for name, length in GMACS.items():
        key = keymat(length)
        yield f"null-{name}", three(16, lambda aad, data: data + gmac(key, IV, aad + IV + data))
    for cipher, (cipher_length, encrypt, long) in CIPHERS.items():
        for mac, (mac_length, icv, sign) in MACS.items():
            key = keymat(cipher_length + mac_length)
            icvs = []
            for data, upper in ((DATA, b""), (DATA, UPPER), (long, UPPER)):
                iv, data = encrypt(key[:cipher_length], data)
                icvs.append(sign(key[cipher_length:], HEADER + iv + data + upper)[:icv])
            yield f"{cipher}-{mac}", icvs


def ah():
    """Yields name and what stands in AH: ICV, or IV and ICV."""
    message = b"".join(PARTS)
    for name, (length, icv, sign) in MACS.items():
        yield name, sign(bytes(range(length)), message)[:icv]
    for name, length in GMACS.items():
        yield name, IV + gmac(bytes(range(length)), IV, message)


print("//! The ICVs, as tests/oracle.py prints them.")
print()
print("use super::answer::{AhAnswer, Answer};")
print()
print("/// One of every suite.")
print("#[rustfmt::skip]")
print("pub const ANSWERS: &[Answer] = &[")
for name, icvs in esp():
    print(f'    Answer {{\n        suite: "{name}",')
    for field, icv in zip(("short", "extended", "long"), icvs):
        print(f'        {field}: "{icv.hex()}",')
    print("    },")
print("];")
print()
print("/// One of every algorithm of AH.")
print("#[rustfmt::skip]")
print("pub const AH_ANSWERS: &[AhAnswer] = &[")
for name, icv in ah():
    print(f'    AhAnswer {{ integrity: "{name}", icv: "{icv.hex()}" }},')
print("];")
