"""One attack of docs/design/0028, as the user it names. Arguments: kind, family (4 or 6), own address, peer's address, port of the peer, our
receiver's port, the word that the payload must hold. Prints what the kernel answered; whether the attack came through is seen elsewhere."""

import ctypes, errno, fcntl, os, socket, struct, sys

kind, family, own, peer, port, receiver, word = sys.argv[1:8]
six, port, receiver, word = family == "6", int(port), int(receiver), word.encode()
inet = socket.AF_INET6 if six else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)


def stranger(raw):
    """User 65534, with CAP_NET_RAW alone or nothing."""
    bits = 1 << 13 if raw else 0
    assert libc.prctl(8, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    header, data = struct.pack("II", 0x20080522, 0), struct.pack("6I", bits, bits, 0, 0, 0, 0)
    assert libc.capset(header, data) == 0


def checksum(octets):
    total = sum(struct.unpack("!%dH" % (len(octets) // 2), octets + b"\0" * (len(octets) % 2))[:])
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packet(source, destination, to):
    """IP and UDP around the word; no UDP checksum over IPv4, a right one over IPv6."""
    payload = word + b"\0" * (len(word) % 2)
    udp = struct.pack("!HHHH", 5353, to, 8 + len(payload), 0)
    if six:
        ends = socket.inet_pton(inet, source) + socket.inet_pton(inet, destination)
        udp = udp[:6] + struct.pack("!H", checksum(ends + struct.pack("!II", len(udp) + len(payload), 17) + udp + payload))
        return struct.pack("!IHBB", 0x60000000, 8 + len(payload), 17, 64) + ends + udp + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 1, 0, 64, 17, 0)
    ends = socket.inet_pton(inet, source) + socket.inet_pton(inet, destination)
    head = head[:10] + struct.pack("!H", checksum(head + ends)) + ends
    return head + udp + payload


def beside(s, mark):
    s.sendmsg([word], [(socket.SOL_SOCKET, 36, struct.pack("I", mark))], 0, (peer, port))


def frame(device, named, real, link=b""):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    stranger(True)
    station = bytes.fromhex(open("/sys/class/net/%s/address" % device).read().strip().replace(":", "")) if device != "eth0" else own_station
    s.sendto(peer_station + station + struct.pack("!H", real) + link + packet(own, peer, port), (device, named))


def stations():
    """The link addresses of eth0 and of the peer behind it."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mine = fcntl.ioctl(s, 0x8927, struct.pack("16s16x8x", b"eth0"))[18:24]
    return mine, b"\xff" * 6


own_station, peer_station = stations()
ip = 0x86DD if six else 0x0800


def udp():
    stranger(False)
    socket.socket(inet, socket.SOCK_DGRAM).sendto(word, (peer, port))


def connected():
    stranger(False)
    s = socket.socket(inet, socket.SOCK_DGRAM)
    s.connect((peer, port))
    s.send(word)


def tcp():
    stranger(False)
    s = socket.socket(inet, socket.SOCK_STREAM)
    s.settimeout(0.2)
    try:
        s.sendto(word, socket.MSG_FASTOPEN, (peer, port))
    finally:
        s.close()


def mark():
    s = socket.socket(inet, socket.SOCK_DGRAM)
    stranger(True)
    for value in (0, 0x10001, 0x83000000, 0x83010001):
        beside(s, value)


def by_tun():
    s = socket.socket(inet, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"rvl0")
    stranger(True)
    for value in (0x10001, 0x10002, 0x83000000):
        beside(s, value)


def by_lo():
    s = socket.socket(inet, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    stranger(False)
    s.sendto(word, (peer, port))


def raw_header():
    s = socket.socket(inet, socket.SOCK_RAW, socket.IPPROTO_RAW)
    stranger(True)
    s.sendto(packet(own, peer, port), (peer, 0))


def raw():
    s = socket.socket(inet, socket.SOCK_RAW, 253)
    stranger(True)
    s.sendto(word, (peer, 0))


def bypass():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    stranger(True)
    try:
        s.setsockopt(263, 20, 1)
    finally:
        s.sendto(peer_station + own_station + struct.pack("!H", ip) + packet(own, peer, port), ("eth0", ip))


def handed():
    """A socket that a program without policy opened and connected, used by the one with the policy."""
    s = socket.socket(inet, socket.SOCK_DGRAM)
    s.connect((peer, port))
    os.set_inheritable(s.fileno(), True)
    stranger(False)
    code = "import os, sys; os.write(int(sys.argv[1]), sys.argv[2].encode())"
    os.execv(os.environ["APP"], [os.environ["APP"], "-c", code, str(s.fileno()), word.decode()])


def child():
    if os.fork() == 0:
        udp()
        os._exit(0)
    os.wait()


def lo_source():
    """A neighbour's datagram with the peer's address."""
    if six:
        s = socket.socket(inet, socket.SOCK_DGRAM)
        stranger(False)
        s.setsockopt(41, 78, 1)
        s.bind((peer, 5353))
        s.sendto(word, (own, receiver))
    else:
        s = socket.socket(inet, socket.SOCK_RAW, socket.IPPROTO_RAW)
        stranger(True)
        s.sendto(packet(peer, own, receiver), (own, 0))


def lo_frame():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    stranger(True)
    s.sendto(b"\0" * 12 + struct.pack("!H", ip) + packet(peer, own, receiver), ("lo", ip))


def tun():
    """Attach to the TUN of a daemon that is dead, and write a packet with proof."""
    stranger(False)
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"rvl0", 0x5001))
    record = bytes([0x60 if six else 0x40]) + b"RVL" + struct.pack("<IQ", 0x83000000, 0)
    os.write(device, b"\0" * 10 + record + packet(peer, own, receiver))


def wire():
    """In clear from the peer's host, which is the wire to us: own and peer are exchanged there."""
    s = socket.socket(inet, socket.SOCK_DGRAM)
    s.bind(("", 5353))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.sendto(word, (peer, receiver))


attacks = {
    "udp": udp, "connected": connected, "tcp": tcp, "child": child, "mark": mark, "by_tun": by_tun, "by_lo": by_lo, "raw": raw,
    "raw_header": raw_header, "bypass": bypass, "handed": handed,
    "frame": lambda: frame("eth0", ip, ip),
    "frame_unnamed": lambda: frame("eth0", 0x88B5, ip),
    "frame_vlan": lambda: frame("eth0", ip, 0x8100, struct.pack("!HH", 0x4505, ip)),
    "frame_mpls": lambda: frame("eth0", 0x88B5, 0x8847, struct.pack("!I", 0x00010140)),
    "frame_snap": lambda: frame("eth0", 4, 0x60, b"\xaa\xaa\3\0\0\0" + struct.pack("!H", ip)),
    "frame_lo": lambda: frame("lo", ip, ip),
    "lo_source": lo_source, "lo_frame": lo_frame, "tun": tun, "wire": wire,
}
try:
    attacks[kind]()
    print("went")
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
