#!/usr/bin/env python3
"""Whole ESP packets under mAES-512 for tests/suite/replay_own.rs: `python3 -B own.py > own.txt` (needs cryptography).

IV, ciphertext and ICV are those of crates/crypto-std/tests/custom_oracle.py. Headers, trailer and encapsulation are
written here from RFC 4303, 3948, 791, 8200, 768, 6040 and draft-nikander-esp-beet-mode-09, not from the Rust code.

One packet a line: suite, mode, families (inner, or inner in outer), encapsulation, bits of the sequence number,
sequence number, SPI, keying material, inner packet, outer packet. The inner source port is the SPI, so that each flow
belongs to one association.

The product is covered pairwise. Four suites, one for each composition, have all 40 forms. Each of the others has every
mode with every pair of families once; which of these are in UDP, and which have 64-bit sequence numbers, goes by turns.

Where the standards leave a choice, the packets have what docs/replay.md says: the least padding, a hop limit of 64 and
no flow label in front of a tunnel, DSCP, ECN and DF of the inner packet. An outer IPv4 header of a tunnel that may be
fragmented has an identification that its sender chooses; it is 0 here. In BEET mode between unlike families
identification, DF and flow label do not travel; the inner packet has 0, set and 0 there.
"""

import hashlib
import ipaddress
import itertools
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../crypto-std/tests"))

from custom_oracle import SUITES, keymat_len, protect  # noqa: E402

ESP, UDP, IPV4, IPV6 = 50, 17, 4, 41
FIRST_SPI = 0x5001
OUTER = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
INNER = {4: ("10.1.0.1", "10.2.0.2"), 6: ("2001:db8:a::1", "2001:db8:b::2")}
FULL = ("maes512ctr-sha256", "maes512cbc-sha256", "maes512gcm", "maes512ctr-aes256gcm")
SHAPES = [("transport", 4, 4), ("transport", 6, 6)]
SHAPES += [(mode, inner, outer) for mode in ("tunnel", "beet") for inner in (4, 6) for outer in (4, 6)]
FORMS = list(itertools.product((False, True), (False, True)))
# DSCP and ECN: every ECN field, three DSCPs.
TOS = (0xBA, 0xB9, 0x00, 0x2B, 0xB8)
SHORT = (1, 7, 0x8000_0000, 0xFFFF_FFFE)
EXTENDED = (0x5_0000_0007, 0x1_0000_0000, 0x2_FFFF_FFFF, 9, 0xFFFF_FFFE_0000_0001)


def ones_sum(octets):
    """The checksum of RFC 1071."""
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def addresses(ends):
    return b"".join(ipaddress.ip_address(end).packed for end in ends)


def ipv4(ends, number, body, tos, ttl, identification, df):
    fields = (0x45, tos, 20 + len(body), identification, df << 14, ttl, number)
    front, ends = struct.pack(">BBHHHBB", *fields), addresses(ends)
    return front + struct.pack(">H", ones_sum(front + bytes(2) + ends)) + ends + body


def ipv6(ends, number, body, traffic_class, hop_limit, label):
    front = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | label, len(body), number, hop_limit)
    return front + addresses(ends) + body


def udp(ports, body, ends=None):
    """With a checksum where the ends are given; the pseudo headers of RFC 768 and RFC 8200 have one sum."""
    header = struct.pack(">HHH", *ports, 8 + len(body))
    checksum = 0
    if ends:
        pseudo = addresses(ends) + struct.pack(">II", 8 + len(body), UDP)
        checksum = ones_sum(pseudo + header + bytes(2) + body) or 0xFFFF
    return header + struct.pack(">H", checksum) + body


class Header:
    """The fields of an inner header that an outer one may have a use for."""

    def __init__(self, number, mode, inner, outer):
        unlike = mode == "beet" and inner != outer
        self.tos = TOS[number % len(TOS)]
        self.ttl = 63 - number % 9
        self.df = unlike or number % 3 != 0
        self.identification = 0 if unlike else number + 1
        self.label = 0 if unlike else 0x12345 + number

    def write(self, version, ends, number, body):
        if version == 4:
            return ipv4(ends, number, body, self.tos, self.ttl, self.identification, self.df)
        return ipv6(ends, number, body, self.tos, self.ttl, self.label)


def esp(suite, keys, spi, sequence, extended, payload, next_header):
    """RFC 4303 section 2."""
    align = 16 if suite.startswith("maes512cbc-") else 4
    padding = bytes(range(1, 1 + -(len(payload) + 2) % align))
    data = payload + padding + bytes([len(padding), next_header])
    header = struct.pack(">II", spi, sequence & 0xFFFF_FFFF)
    iv, out, icv = protect(suite, keys, header, sequence, extended, data)
    return header + iv + out + icv


def keymat(suite, spi):
    """Other octets for each association, so that no two parts of one are alike."""
    length = keymat_len(suite)
    parts = (hashlib.sha256(f"{suite} {spi} {part}".encode()).digest() for part in range(length // 32 + 1))
    return b"".join(parts)[:length]


def packets(suite, keys, spi, shape, in_udp, extended, sequence, octets):
    """Inner and outer packet."""
    mode, inner, outer = shape
    fields = Header(spi - FIRST_SPI, mode, inner, outer)
    inner_ends = OUTER[inner] if mode == "transport" else INNER[inner]
    body = udp((spi, 443), bytes(i % 251 for i in range(octets)), inner_ends)
    packet = fields.write(inner, inner_ends, UDP, body)
    if mode == "tunnel":
        payload, next_header = packet, IPV4 if inner == 4 else IPV6
    else:
        payload, next_header = body, UDP
    number, enclosed = ESP, esp(suite, keys, spi, sequence, extended, payload, next_header)
    ends = OUTER[outer]
    if in_udp:
        # RFC 3948 section 2.1: no checksum over IPv4. RFC 8200 section 8.1: one over IPv6.
        number, enclosed = UDP, udp((4500, 4500), enclosed, ends if outer == 6 else None)
    if mode == "tunnel":
        fields.ttl, fields.label, fields.identification = 64, 0, 0
        fields.df = fields.df or inner == 6
    return packet, fields.write(outer, ends, number, enclosed)


def forms():
    """Suite, shape, whether in UDP, whether extended."""
    for at, suite in enumerate(SUITES):
        for place, shape in enumerate(SHAPES):
            own = FORMS if suite in FULL else [FORMS[(at + place) % len(FORMS)]]
            for in_udp, extended in own:
                yield suite, shape, in_udp, extended


def main():
    for at, (suite, shape, in_udp, extended) in enumerate(forms()):
        spi = FIRST_SPI + at
        keys = keymat(suite, spi)
        numbers = EXTENDED if extended else SHORT
        sequence = numbers[at // 2 % len(numbers)]
        octets = 1200 + at % 16 if at % 37 == 5 else at % 19
        inner, outer = packets(suite, keys, spi, shape, in_udp, extended, sequence, octets)
        mode, *versions = shape
        families = str(versions[0]) if mode == "transport" else "{}in{}".format(*versions)
        words = (suite, mode, families, "udp" if in_udp else "none", 64 if extended else 32, sequence, hex(spi))
        print(*words, keys.hex(), inner.hex(), outer.hex())


if __name__ == "__main__":
    sys.exit(main())
