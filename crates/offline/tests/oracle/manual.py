#!/usr/bin/env python3
"""Packets by scapy for the examples of docs/replay.md, for tests/suite/replay_manual.rs: `python3 manual.py > manual.txt` (needs
scapy 2.8 and cryptography).

One packet a line: example, inner packet, outer packet. Names, keys and addresses are those of the examples; the IV is the one that
Ravelin makes (docs/design/0006, 4): the sequence number, in CBC encrypted as one block. Sequence numbers are 1 unless the
example says otherwise.
"""

import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scapy.all import raw
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import AH, ESP, SecurityAssociation
from scapy.packet import Raw

KEY = bytes(range(64))
ALICE, BOB = dict(src="10.1.0.1", dst="10.2.0.2"), dict(src="192.0.2.1", dst="192.0.2.2")
OUTER = IP(**BOB, ttl=64, id=0, flags="DF")


def datagram(ends, **header):
    make = IPv6(**ends, hlim=63) if ":" in ends["src"] else IP(**ends, ttl=63, id=7, flags="DF", **header)
    return make.__class__(raw(make / UDP(sport=40000, dport=443) / Raw(b"an example of the manual")))


def segment(ends):
    header = IP(**ends, ttl=63, id=8, flags="DF")
    return IP(raw(header / TCP(sport=40000, dport=443, flags="A", seq=1) / Raw(b"an example of the manual")))


def iv_of(sa, sequence):
    if sa.crypt_algo.mode is not modes.CBC:
        return struct.pack("!Q", sequence)
    encryptor = Cipher(algorithms.AES(sa.crypt_key), modes.ECB()).encryptor()
    return encryptor.update(struct.pack("!Q", sequence).rjust(16, b"\0")) + encryptor.finalize()


def gcm(spi, length=20, **more):
    return SecurityAssociation(ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=KEY[:length], seq_num=1, **more)


def cbc(spi):
    return SecurityAssociation(
        ESP, spi=spi, crypt_algo="AES-CBC", crypt_key=KEY[:16], auth_algo="SHA2-256-128", auth_key=KEY[:32], seq_num=1
    )


def esp(sa, packet, sequence=1, **more):
    return sa.encrypt(packet, iv=iv_of(sa, sequence), seq_num=sequence & 0xFFFFFFFF, **more)


def around(spi, name, key, packet):
    """AH around ESP, by RFC 4302 sections 2 and 3.3.3: scapy takes the ESP inside for what it is to sign."""
    header, inside = raw(packet)[:20], raw(packet)[20:]
    length = 16 if name == "sha256" else 12
    ah = struct.pack("!BBHII", 50, (12 + length) // 4 - 2, 0, spi, 1)
    total = struct.pack("!H", 20 + 12 + length + len(inside))
    # Type of service, flags and offset, time to live and checksum may change on the way.
    fixed = header[:1] + b"\0" + total + header[4:6] + b"\0\0" + b"\0" + b"\x33" + b"\0\0" + header[12:]
    icv = hmac.new(key, fixed + ah + bytes(length) + inside, name).digest()[:length]
    outer = IP(header[:2] + total + header[4:9] + b"\x33" + header[10:] + ah + icv + inside)
    del outer.chksum
    return outer


def show(name, inner, outer):
    print(name, raw(inner).hex(), raw(outer).hex())


UDP_4500 = UDP(sport=4500, dport=4500, chksum=0)
inner = datagram(ALICE)
show("tunnel", inner, esp(gcm(0x1001, tunnel_header=OUTER, nat_t_header=UDP_4500), inner))

v6 = datagram(dict(src="2001:db8::1", dst="2001:db8::2"))
show("transport", v6, esp(cbc(0x1002), v6))

# What travels has the outer addresses; the checksum inside is of the inner ones.
fixed = IP(**BOB, ttl=63, id=0, flags="DF", proto=17) / Raw(raw(inner)[20:])
sa = SecurityAssociation(
    ESP, spi=0x1003, crypt_algo="CHACHA20-POLY1305", crypt_key=KEY[:36], nat_t_header=UDP_4500, seq_num=1
)
show("beet", inner, esp(sa, IP(raw(fixed))))

hosts = datagram(BOB)
ah = SecurityAssociation(AH, spi=0x1004, auth_algo="SHA2-256-128", auth_key=KEY[:32], seq_num=1)
show("ah", hosts, ah.encrypt(hosts, seq_num=1))

nat = IP(src="198.51.100.7", dst="192.0.2.2", ttl=50, id=9)
sa = gcm(0x1005, 36, tunnel_header=nat, nat_t_header=UDP(sport=61000, dport=4500, chksum=0))
show("nat", inner, esp(sa, inner))

number = 4294967301
sa = gcm(0x1006, nat_t_header=UDP_4500, esn_en=True, esn=number >> 32)
show("esn", hosts, esp(sa, hosts, number, esn_en=True, esn=number >> 32))

show("bundle", hosts, around(0x1008, "sha256", KEY[:32], esp(gcm(0x1007), hosts)))

# 256 octets of payload: the inner header says where the packet ends.
marked = datagram(ALICE, tos=0xBA)
padded = IP(raw(marked).ljust(256, b"\0"))
tunnel = IP(**BOB, ttl=17, id=0, tos=46 << 2)
show("options", marked, esp(gcm(0x1009, 36, tunnel_header=tunnel), padded))

# TCP to port 443 is protected by the association of "tunnel".
stream = segment(ALICE)
show("rules", stream, esp(gcm(0x1001, tunnel_header=OUTER, nat_t_header=UDP_4500), stream))

show("setkey", inner, esp(gcm(0x1001, tunnel_header=OUTER), inner))

stream = segment(BOB)
show("setkey-bundle", stream, around(0x1004, "sha1", b"twenty octets of key", esp(cbc(0x1003), stream)))
