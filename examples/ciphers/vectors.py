#!/usr/bin/env python3
"""Write NAME/NAME.vectors.json for each cipher of this folder.

Published vectors come first; each is compared with the other implementation (primitives.py), and the program stops if
they differ. The others are made by that implementation from fixed seeds, so that every run writes the same octets.
Needs Python 3.8 and the command openssl 3.0. Run: `make -C examples/ciphers vectors`.
"""

import json
import pathlib
import sys

import primitives as p
import published

HERE = pathlib.Path(__file__).resolve().parent

# Each cipher: the function of key and blocks of the other implementation, and the octets of a key.
BLOCK = {
    "aes256c": (p.ecb("aes-256"), 32),
    "aria256rs": (p.ecb("aria-256"), 32),
    "camellia256rs": (p.ecb("camellia-256"), 32),
    "kuznyechik": (p.kuznyechik, 32),
    "maes512c": (p.maes512, 64),
    "sm4rs": (p.ecb("sm4"), 16),
}

# The names that openssl has for the same ciphers.
OPENSSL = {"aes256c": "aes-256", "aria256rs": "aria-256", "camellia256rs": "camellia-256", "sm4rs": "sm4"}

# Values of `montecarlo` that two implementations in compiled languages gave: mAES-512 in C and in Rust. Python would
# need an hour.
SETTLED = {"maes512c": "893ec7c0fdc7699be0aadeb68dbbd56c"}

# Octets of messages: around the block, around what an implementation takes at once, one of an ordinary packet.
LENGTHS = [1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 79, 80, 96, 112, 127, 128, 129, 144, 160]
LENGTHS += [191, 192, 193, 255, 272, 1400]
BLOCKS = [1] * 20 + [2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31]
CBC_BLOCKS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 12, 16, 17]
AAD = [8, 12, 0, 1, 16, 20, 31]


class File:
    """The tests of one cipher."""

    def __init__(self, cipher):
        self.cipher, self.tests, self.montecarlo = cipher, [], None

    def add(self, mode, valid=True, **fields):
        """Append a test; octets become hexadecimal digits."""
        test = {"tcId": len(self.tests) + 1, "mode": mode}
        for name, value in fields.items():
            test[name] = value.hex() if isinstance(value, bytes) else value
        test["result"] = "valid" if valid else "invalid"
        self.tests.append(test)

    def write(self):
        """One line for each test."""
        valid = sum(test["result"] == "valid" and test["msg"] != "" for test in self.tests)
        assert valid >= 100, f"{self.cipher}: {valid} valid tests"
        lines = ",\n".join(json.dumps(test) for test in self.tests)
        path = HERE / self.cipher / f"{self.cipher}.vectors.json"
        chain = f'"montecarlo": "{self.montecarlo}", ' if self.montecarlo else ""
        path.write_text(f'{{"cipher": "{self.cipher}", {chain}"tests": [\n{lines}\n]}}\n')
        print(f"{path.name}: {len(self.tests)} tests, {valid} of them valid with a message")


def montecarlo(algorithm, key_len):
    """A million blocks, each the encryption of the one before, by openssl: CBC of zeros is that chain. Behind each 1000
    the key is XORed with the last block (`montecarlo` of `ravelin cipher check`)."""
    key, block = bytes(range(key_len)), bytes(16)
    for _ in range(1000):
        chain = p.openssl(f"-{algorithm}-cbc", "-K", key.hex(), "-iv", block.hex(), data=bytes(16000))
        block = chain[-16:]
        key = p.xor(key, block * (key_len // 16))
    return block.hex()


def published_tests(file, compute):
    """The published vectors of this cipher; `compute` gives the fields ct and tag of a test."""
    for source, mode, fields in published.VECTORS[file.cipher]:
        fields = {name: value if name == "offset" else bytes.fromhex(value) for name, value in fields.items()}
        want = {name: fields[name] for name in ("ct", "tag") if name in fields}
        got = compute(mode, fields)
        if got != want:
            sys.exit(f"{file.cipher}: the other implementation differs from {source}: {got}")
        file.add(mode, **fields)


def sealed(file, mode, seal, key_len, stream, lengths):
    """Tests of a mode with a tag: valid ones, and some of them with something changed."""
    for number, length in enumerate(lengths):
        key, iv, message = stream.take(key_len), stream.take(12), stream.take(length)
        aad = stream.take(AAD[number % len(AAD)])
        ct, tag = seal(key, iv, aad, message)
        good = {"key": key, "iv": iv, "aad": aad, "msg": message, "ct": ct, "tag": tag}
        file.add(mode, **good)
        bit = number * 37 % 128
        if number % 3 == 0:
            changed = bytearray(tag)
            changed[bit // 8] ^= 1 << bit % 8
            file.add(mode, valid=False, **{**good, "tag": bytes(changed)})
        if number % 3 == 1:
            file.add(mode, valid=False, **{**good, "aad": aad[:-1] + bytes([aad[-1] ^ 1]) if aad else b"\0"})
        if number % 3 == 2:
            changed = bytearray(ct)
            changed[bit % length] ^= 0x80
            file.add(mode, valid=False, **{**good, "ct": bytes(changed)})


def block_cipher(name):
    """The file of a block cipher."""
    blocks, key_len = BLOCK[name]
    file, stream = File(name), p.Stream(f"ravelin examples {name}")

    def compute(mode, f):
        if mode == "block":
            return {"ct": blocks(f["key"], f["msg"])}
        if mode == "gcm":
            return dict(zip(("ct", "tag"), p.gcm(blocks, f["key"], f["iv"], f["aad"], f["msg"])))
        return {"ct": getattr(p, mode)(blocks, f["key"], f["iv"], f["msg"])}

    file.montecarlo = montecarlo(OPENSSL[name], key_len) if name in OPENSSL else SETTLED.get(name)
    published_tests(file, compute)
    for count in BLOCKS:
        key, message = stream.take(key_len), stream.take(16 * count)
        file.add("block", key=key, msg=message, ct=blocks(key, message))
    # One bit set in the key, and one in the block.
    for bit in range(0, 8 * key_len, key_len // 2):
        key = (1 << bit).to_bytes(key_len, "little")
        message = (1 << bit % 128).to_bytes(16, "big")
        file.add("block", key=key, msg=message, ct=blocks(key, message))
    for number, length in enumerate(LENGTHS):
        key, counter, message = stream.take(key_len), stream.take(16), stream.take(length)
        # Every fourth counter wraps within the message.
        if number % 4 == 3:
            counter = counter[:12] + (2**32 - 1 - number % 3).to_bytes(4, "big")
        file.add("ctr", key=key, iv=counter, msg=message, ct=p.ctr(blocks, key, counter, message))
    for count in CBC_BLOCKS:
        key, iv, message = stream.take(key_len), stream.take(16), stream.take(16 * count)
        file.add("cbc", key=key, iv=iv, msg=message, ct=p.cbc(blocks, key, iv, message))
    sealed(file, "gcm", lambda *of: p.gcm(blocks, *of), key_len, stream, LENGTHS[:20])
    if name == "maes512c":
        half, message = stream.take(32), stream.take(16)
        file.add("block", valid=False, key=half + half, msg=message, ct=blocks(half + half, message))
    file.write()


def chacha20():
    """The file of the stream cipher."""
    file, stream = File("chacha20cpp"), p.Stream("ravelin examples chacha20cpp")
    published_tests(file, lambda _, f: {"ct": p.chacha20(f["key"], f["iv"], f["offset"], f["msg"])})
    # Within a block, across blocks, beyond 32 bits of octets, across and beyond the last block of a nonce.
    offsets = [0, 1, 63, 64, 65, 127, 1000, 2**16 + 5, 2**32 - 7, 2**32 + 64, 2**37 + 3, 2**38 - 65, 2**38 + 1, 2**63]
    for number in range(4 * len(LENGTHS)):
        key, nonce, message = stream.take(32), stream.take(12), stream.take(LENGTHS[number % len(LENGTHS)])
        offset = 0 if number < len(LENGTHS) else offsets[number % len(offsets)]
        ct = p.chacha20(key, nonce, offset, message)
        file.add("stream", key=key, iv=nonce, offset=offset, msg=message, ct=ct)
    file.write()


def chacha20poly1305():
    """The file of the combined mode."""
    file, stream = File("chachapolyrs"), p.Stream("ravelin examples chachapolyrs")

    def compute(_, f):
        return dict(zip(("ct", "tag"), p.chacha20poly1305(f["key"], f["iv"], f["aad"], f["msg"])))

    published_tests(file, compute)
    sealed(file, "aead", p.chacha20poly1305, 32, stream, 4 * LENGTHS)
    key, nonce, aad = stream.take(32), stream.take(12), stream.take(12)
    ct, tag = p.chacha20poly1305(key, nonce, aad, b"")
    file.add("aead", key=key, iv=nonce, aad=aad, msg=b"", ct=ct, tag=tag)
    file.write()


if __name__ == "__main__":
    for cipher in BLOCK:
        block_cipher(cipher)
    chacha20()
    chacha20poly1305()
