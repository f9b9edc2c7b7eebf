#!/usr/bin/env python3
"""ESP packets by scapy, for tests/suite/esp_oracle.rs: `python3 esp.py > esp.txt` (needs scapy 2.8 and cryptography).

One packet a line: suite, shape, encapsulation, upper half of the sequence number (-: not extended), inner packet, outer packet.
SPI 0x12345001, keying material 0 1 2 and so on, lower half of the sequence number 7. The IV is the one that Ravelin makes
(docs/design/0006, 4), so that whole packets compare: the sequence number, in CBC encrypted as one block.
"""

import itertools
import struct
import sys

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scapy.all import raw
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import CRYPT_ALGOS, ESP, CryptAlgo, SecurityAssociation

import beyond_scapy

beyond_scapy.register()

SPI, LOW, UPPER = 0x12345001, 7, 3

# Its own AES-GCM always has 16 octets of ICV; through the other interface of its library it cuts them.
CRYPT_ALGOS["AES-GCM"] = CryptAlgo(
    "AES-GCM", cipher=algorithms.AES, mode=modes.GCM, salt_size=4, block_size=1, iv_size=8, icv_size=16,
    format_mode_iv=lambda sa, iv, **_: sa.crypt_salt + iv,
)

# Word of Ravelin, name in scapy, octets of key, octets of ICV.
COMBINED = [
    (f"aes{bits}{mode}{'' if icv == 16 else icv}", f"AES-{mode.upper()}", bits // 8 + salt, icv)
    for mode, salt in (("gcm", 4), ("ccm", 3))
    for icv in (16, 12, 8)
    for bits in (128, 192, 256)
]
COMBINED += [("chacha20poly1305", "CHACHA20-POLY1305", 36, 16)]
COMBINED += [(f"null-aes{bits}gmac", "AES-NULL-GMAC", bits // 8 + 4, 16) for bits in (128, 192, 256)]
# Word, name, octets of key with salt.
CIPHERS = [(f"aes{bits}cbc", "AES-CBC", bits // 8) for bits in (128, 192, 256)]
CIPHERS += [(f"aes{bits}ctr", "AES-CTR", bits // 8 + 4) for bits in (128, 192, 256)]
CIPHERS += [("3des", "3DES", 24), ("des", "DES", 8), ("null", "NULL", 0)]
MACS = [("sha256", "SHA2-256-128", 32), ("sha384", "SHA2-384-192", 48), ("sha512", "SHA2-512-256", 64)]
MACS += [("sha1", "HMAC-SHA1-96", 20), ("md5", "HMAC-MD5-96", 16), ("aescmac", "AES-CMAC-96", 16)]

# What scapy learns from beyond_scapy.py comes last.
LEARNED = [(f"camellia{bits}cbc", "CAMELLIA-CBC", bits // 8) for bits in (128, 192, 256)]
XCBC = ("aesxcbc", "AES-XCBC-96", 16)

# Suites of which every combination is written; of the others one of each shape.
FULL = {"aes128gcm", "aes256ccm8", "chacha20poly1305", "aes128cbc-sha256", "aes256ctr-sha512", "3des-sha1", "null-aescmac"}

V4 = IP(src="192.0.2.10", dst="192.0.2.11", ttl=63, id=7, flags="DF", tos=0xB8)
V6 = IPv6(src="2001:db8::a", dst="2001:db8::b", hlim=63, tc=0xB8, fl=0x12345)
OUTER = {
    4: IP(src="192.0.2.10", dst="192.0.2.11", ttl=64, id=0, flags="DF", tos=0xB8),
    6: IPv6(src="2001:db8::a", dst="2001:db8::b", hlim=64, tc=0xB8, fl=0),
}
# Name, inner version, outer version or none.
SHAPES = [("transport4", 4, None), ("transport6", 6, None)]
SHAPES += [(f"tunnel{inner}in{outer}", inner, outer) for inner in (4, 6) for outer in (4, 6)]


def suites():
    for word, name, length, icv in COMBINED:
        yield word, dict(crypt_algo=name, crypt_key=bytes(range(length)), crypt_icv_size=icv)
    pairs = [*itertools.product(CIPHERS, MACS), *itertools.product(LEARNED, MACS)]
    pairs += itertools.product(CIPHERS + LEARNED, [XCBC])
    for (cipher, name, length), (mac, mac_name, mac_length) in pairs:
        keymat = bytes(range(length + mac_length))
        yield f"{cipher}-{mac}", dict(
            crypt_algo=name, crypt_key=keymat[:length], auth_algo=mac_name, auth_key=keymat[length:]
        )


def iv_of(sa, sequence):
    size = sa.crypt_algo.iv_size
    block = struct.pack("!Q", sequence).rjust(size, b"\0")[-size:] if size else b""
    if sa.crypt_algo.mode is not modes.CBC:
        return block
    key = sa.crypt_key
    cipher = sa.crypt_algo.cipher(key) if size == 16 else TripleDES(key * (24 // len(key)))
    encryptor = Cipher(cipher, modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def forms(number, word):
    """Shape, whether in UDP, whether extended."""
    every = list(itertools.product(SHAPES, (False, True), (False, True)))
    if word in FULL:
        return every
    # By turns, so that neighbours in a table differ.
    return [every[4 * shape + (number + shape * 3) % 4] for shape in range(len(SHAPES))]


def main():
    lengths = itertools.cycle(range(18))
    for number, (word, algorithms_of) in enumerate(suites()):
        for (shape, inner_version, outer_version), in_udp, extended in forms(number, word):
            data = UDP(sport=40000, dport=53) / bytes(range(next(lengths)))
            packet = (V4 if inner_version == 4 else V6) / data
            inner = packet.__class__(raw(packet))
            upper = UPPER if extended else 0
            sa = SecurityAssociation(
                ESP, spi=SPI, tunnel_header=OUTER[outer_version] if outer_version else None,
                nat_t_header=UDP(sport=4500, dport=4500) if in_udp else None,
                esn_en=extended, esn=upper, **algorithms_of,
            )
            outer = sa.encrypt(inner.copy(), seq_num=LOW, iv=iv_of(sa, upper << 32 | LOW))
            fields = (word, shape, "udp" if in_udp else "bare", UPPER if extended else "-")
            print(*fields, raw(inner).hex(), raw(outer).hex())


if __name__ == "__main__":
    sys.exit(main())
