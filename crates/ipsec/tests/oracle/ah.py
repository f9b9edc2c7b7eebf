#!/usr/bin/env python3
"""AH packets by scapy, for tests/suite/ah_oracle.rs: `python3 ah.py > ah.txt` (needs scapy and cryptography).

One packet a line: suite, name, upper half of the sequence number (0: not extended), inner packet, outer packet. SPI 0x12345001,
key of the suite 0 1 2 and so on, lower half of the sequence number 7.
"""

import struct
import sys

from scapy.all import raw
from scapy.layers.inet import IP, UDP, IPOption_NOP, IPOption_Router_Alert, IPOption_Timestamp
from scapy.layers.inet6 import (
    HBHOptUnknown,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    RouterAlert,
)
from scapy.layers.ipsec import AH, SecurityAssociation

import beyond_scapy

GMAC = beyond_scapy.register()

SUITES = [("sha256", "SHA2-256-128", 32), ("sha384", "SHA2-384-192", 48), ("sha512", "SHA2-512-256", 64)]
SUITES += [("sha1", "HMAC-SHA1-96", 20), ("md5", "HMAC-MD5-96", 16), ("aescmac", "AES-CMAC-96", 16)]
# What scapy learns from beyond_scapy.py.
SUITES += [("aesxcbc", "AES-XCBC-96", 16)]
SUITES += [(f"aes{bits}gmac", "AES-GMAC", bits // 8 + 4) for bits in (128, 192, 256)]

V4 = IP(src="192.0.2.10", dst="192.0.2.11", ttl=63, id=7, flags="DF", tos=0xB8)
V6 = IPv6(src="2001:db8::a", dst="2001:db8::b", hlim=63, tc=0xB8, fl=0x12345)
OUTER = {
    4: IP(src="192.0.2.10", dst="192.0.2.11", ttl=64, id=0, flags="DF", tos=0xB8),
    6: IPv6(src="2001:db8::a", dst="2001:db8::b", hlim=64, tc=0xB8, fl=0),
}
DATA = UDP(sport=40000, dport=53) / bytes(range(21))


def packets():
    yield "v4", V4 / DATA
    yield "v4-router-alert", V4.copy() / DATA, [IPOption_Router_Alert()]
    yield "v4-timestamp", V4.copy() / DATA, [IPOption_Timestamp(flg=0, timestamp=[5]), IPOption_NOP()]
    yield "v6", V6 / DATA
    mutable = HBHOptUnknown(otype=0x3E, optdata=b"\xaa\xbb\xcc")
    fixed = HBHOptUnknown(otype=0x1E, optdata=b"\x01\x02\x03\x04\x05")
    yield "v6-hop-by-hop", V6 / IPv6ExtHdrHopByHop(options=[RouterAlert(), mutable, fixed]) / DATA
    hop = V6.copy()
    hop.dst = "2001:db8::c"
    yield "v6-routing", hop / IPv6ExtHdrRouting(addresses=["2001:db8::b"], segleft=1) / DATA


def forms():
    """Name, inner packet, outer header or none."""
    for name, packet, *options in packets():
        if options:
            packet[IP].options = options[0]
        yield name, packet.__class__(raw(packet)), None
    for inner, packet in ((4, V4 / DATA), (6, V6 / DATA)):
        for outer, header in OUTER.items():
            yield f"tunnel-v{inner}-in-v{outer}", packet.__class__(raw(packet)), header


def main():
    for suite, algorithm, length in SUITES:
        for name, inner, header in forms():
            for extended in (0, 3):
                sa = SecurityAssociation(
                    AH, spi=0x12345001, seq_num=7, auth_algo=algorithm, auth_key=bytes(range(length)),
                    esn_en=bool(extended), esn=extended, tunnel_header=header,
                )
                GMAC.iv = struct.pack("!LL", extended, 7)
                outer = sa.encrypt(inner.copy(), seq_num=7)
                print(suite, name, extended, raw(inner).hex(), raw(outer).hex())


if __name__ == "__main__":
    sys.exit(main())
