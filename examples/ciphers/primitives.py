"""Ciphers and modes that are another implementation than the libraries of this folder.

The ciphers are those of the `openssl` command (3.0 or newer); Kuznyechik, mAES-512, GHASH and Poly1305 are written here
from their specifications. All of it is slow, not constant-time, and for test vectors alone.
"""

import hashlib
import hmac
import subprocess


def xor(a, b):
    """The XOR of two rows of octets; the longer one is cut."""
    return bytes(x ^ y for x, y in zip(a, b))


def openssl(*arguments, data):
    """What `openssl enc` makes of the data."""
    command = ["openssl", "enc", "-e", "-nopad", *arguments]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def ecb(algorithm):
    """The function of key and blocks that openssl has under this name."""
    return lambda key, data: openssl(f"-{algorithm}-ecb", "-K", key.hex(), data=data)


# GOST R 34.12-2015 section 4.1.1 (RFC 7801): the substitution of octets.
PI = bytes.fromhex(
    "fceedd11cf6e3116fbc4fada23c5044de977f0db932e99ba1736f1bb14cd5fc1"
    "f918655ae25cef21811c3c428b018e4f058402aee36a8fa0060bed987fd4d31f"
    "eb342c51eac848abf22a68a2fd3aceccb5700e56080c7612bf7213479cb75d87"
    "15a19629107b9ac7f391786f9d9eb2b13275193dff358a7e6d54c680c3bd0d57"
    "dff524a93ea843c9d779d6f67c22b903e00fecde7a94b0bcdce828504e330a4a"
    "a79760731e0062441ab83882649f2641ad454692275e552f8ca3a57d69d5953b"
    "0758b34086ac1df730376be488d9e789e11b83494c3ff8fe8d53aa90cad88561"
    "207167a42d2b095bcb9b25d0bee56c5259a674d2e6f4b4c0d166afc2394b63b6"
)
# GOST R 34.12-2015 section 4.1.2: the factors of a15 to a0 in the linear map.
FACTORS = [148, 32, 133, 16, 194, 192, 1, 251, 1, 192, 194, 16, 133, 32, 148, 1]


def multiply(a, b):
    """The product in GF(2)[x] / (x^8 + x^7 + x^6 + x + 1)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x1C3 if a & 0x80 else 0)
        b >>= 1
    return product


PRODUCTS = {factor: bytes(multiply(factor, x) for x in range(256)) for factor in set(FACTORS)}


def linear(block):
    """L of GOST R 34.12-2015 section 4.2: sixteen times R."""
    for _ in range(16):
        first = 0
        for factor, octet in zip(FACTORS, block):
            first ^= PRODUCTS[factor][octet]
        block = bytes([first]) + block[:15]
    return block


def lsx(key, block):
    """XOR, substitution and linear map: one round."""
    return linear(bytes(PI[octet] for octet in xor(key, block)))


def kuznyechik(key, data):
    """Kuznyechik (GOST R 34.12-2015 sections 4.3 and 4.4): each block for itself."""
    left, right = key[:16], key[16:]
    keys = [left, right]
    for number in range(1, 33):
        left, right = xor(lsx(linear(number.to_bytes(16, "big")), left), right), left
        if number % 8 == 0:
            keys += [left, right]
    out = []
    for at in range(0, len(data), 16):
        block = data[at : at + 16]
        for round_key in keys[:9]:
            block = lsx(round_key, block)
        out.append(xor(block, keys[9]))
    return b"".join(out)


def hkdf(key, info, length):
    """HKDF-SHA-256 with an empty salt (RFC 5869 sections 2.2 and 2.3)."""
    secret = hmac.digest(bytes(32), key, "sha256")
    out = last = b""
    number = 1
    while len(out) < length:
        last = hmac.digest(secret, last + info + bytes([number]), "sha256")
        out += last
        number += 1
    return out[:length]


SHUFFLE = [4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15]


def maes512(key, data):
    """mAES-512, the sample cipher of paper 004: W2 ^ B(W1 ^ P(A(x ^ W0))), each block for itself."""
    aes = ecb("aes-256")
    words = hkdf(key, b"mAES-512 v1", 48)
    w0, w1, w2 = (words[at : at + 16] * (len(data) // 16) for at in (0, 16, 32))
    data = aes(key[:32], xor(data, w0))
    data = b"".join(bytes(data[at + i] for i in SHUFFLE) for at in range(0, len(data), 16))
    return xor(aes(key[32:], xor(data, w1)), w2)


def ctr(blocks, key, counter, message):
    """Counter mode; the counter is the last 32 bits (RFC 3686 section 4)."""
    count = (len(message) + 15) // 16
    first = int.from_bytes(counter[12:], "big")
    counters = b"".join(counter[:12] + ((first + i) % 2**32).to_bytes(4, "big") for i in range(count))
    return xor(message, blocks(key, counters)) if message else b""


def cbc(blocks, key, iv, message):
    """CBC without padding (NIST SP 800-38A section 6.2)."""
    out = [iv]
    for at in range(0, len(message), 16):
        out.append(blocks(key, xor(message[at : at + 16], out[-1])))
    return b"".join(out[1:])


def ghash(h, data):
    """GHASH of whole blocks (NIST SP 800-38D section 6.4)."""
    h, y = int.from_bytes(h, "big"), 0
    for at in range(0, len(data), 16):
        y ^= int.from_bytes(data[at : at + 16], "big")
        product, v = 0, h
        for bit in range(127, -1, -1):
            if y >> bit & 1:
                product ^= v
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
        y = product
    return y.to_bytes(16, "big")


def padded(data):
    """The data and zeros up to a multiple of 16 octets."""
    return data + bytes(-len(data) % 16)


def gcm(blocks, key, nonce, aad, message):
    """Ciphertext and tag of GCM with a nonce of 12 octets (NIST SP 800-38D section 7.1)."""
    ct = ctr(blocks, key, nonce + bytes([0, 0, 0, 2]), message)
    lengths = (8 * len(aad)).to_bytes(8, "big") + (8 * len(ct)).to_bytes(8, "big")
    hashed = ghash(blocks(key, bytes(16)), padded(aad) + padded(ct) + lengths)
    return ct, xor(hashed, blocks(key, nonce + bytes([0, 0, 0, 1])))


def chacha20(key, nonce, offset, message):
    """The message under the key stream from this octet on (RFC 8439 section 2.4); the 32-bit counter wraps."""
    out = b""
    while message:
        counter, skip = offset // 64 % 2**32, offset % 64
        now = min(len(message), 64 * (2**32 - counter) - skip)
        iv = counter.to_bytes(4, "little") + nonce
        part = openssl("-chacha20", "-K", key.hex(), "-iv", iv.hex(), data=bytes(skip) + message[:now])
        out += part[skip:]
        message, offset = message[now:], offset + now
    return out


def poly1305(key, data):
    """The tag of RFC 8439 section 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def chacha20poly1305(key, nonce, aad, message):
    """Ciphertext and tag of RFC 8439 section 2.8."""
    one_time = chacha20(key, nonce, 0, bytes(32))
    ct = chacha20(key, nonce, 64, message)
    lengths = len(aad).to_bytes(8, "little") + len(ct).to_bytes(8, "little")
    return ct, poly1305(one_time, padded(aad) + padded(ct) + lengths)


class Stream:
    """Octets that look random and are the same in every run: SHAKE-256 of a label."""

    def __init__(self, label):
        self.label, self.drawn = label.encode(), 0

    def take(self, length):
        """The next octets."""
        self.drawn += 1
        return hashlib.shake_256(self.label + self.drawn.to_bytes(8, "big")).digest(length)
