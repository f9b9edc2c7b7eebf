"""What scapy reads in a capture: `T PORT HEX`, the whole of a connection so far, and `D ADDRESS HEX` lines of what comes from outside.

IPSession puts IPv4 fragments together, TCPSession segments; IPv6 fragments go through defragment6.
"""

import sys
from collections import defaultdict
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrFragment, defragment6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sessions import TCPSession
from scapy.utils import PcapReader

conf.verb = 0
# Octets of a connection that are shown.
LONGEST = 200_000


class Kept(Packet):
    """Takes any octets of a connection and never says that they are enough."""

    @classmethod
    def tcp_reassemble(cls, data, metadata, session):
        metadata["so far"] = data
        return None


def from_outside(address):
    return address not in ("198.51.100.2", "2001:db8:2::2")


def datagram(packet):
    network = packet.getlayer(IP) or packet.getlayer(IPv6)
    if network is None or not from_outside(network.src):
        return
    if isinstance(network, IP) and (network.frag or network.flags.MF):
        return
    if isinstance(network, IPv6) and IPv6ExtHdrFragment in network:
        return
    if UDP in network:
        content = bytes(network[UDP].payload)
    elif ICMP in network and network[ICMP].type == 8:
        content = bytes(network[ICMP].payload)
    elif ICMPv6EchoRequest in network:
        content = network[ICMPv6EchoRequest].data
    elif isinstance(network, IP) and network.proto == 253:
        content = bytes(network.payload)
    else:
        return
    print("D", network.src, content.hex())


class Listener(TCPSession):
    def whole(self, packet):
        """A packet that is no fragment, or what fragments made."""
        if TCP in packet:
            try:
                self._process_packet(packet)
            except Exception as error:
                print("scapy:", type(error).__name__, error, file=sys.stderr)
        else:
            datagram(packet)


def main():
    # Whatever the ports are.
    TCP.payload_guess = [({}, Kept)]
    session = Listener()
    six = defaultdict(list)
    for packet in PcapReader(sys.argv[1]):
        try:
            if IPv6ExtHdrFragment in packet:
                header = packet[IPv6ExtHdrFragment]
                key = (packet[IPv6].src, header.id)
                six[key].append(packet[IPv6])
                if not header.m:
                    whole = defragment6(six.pop(key))
                    session.whole(IPv6(bytes(whole)))
                continue
            packet = session._ip_process_packet(packet)
            if packet is not None:
                session.whole(packet)
        except Exception as error:
            print("scapy:", type(error).__name__, error, file=sys.stderr)
    for ident, (data, metadata) in session.tcp_frags.items():
        dport, sport = int.from_bytes(ident[-4:-2], "big"), int.from_bytes(ident[-2:], "big")
        source = ident[:4] if len(ident) == 12 else ident[:16]
        if len(ident) == 12 and source[:3] == bytes([192, 0, 2]):
            print("T", sport, bytes(data)[:LONGEST].hex())


main()
