# A program that uses sockets in one way: `client.py KIND ADDRESS PORT [SOURCE]`. Says `ready` where a kind waits for
# SIGUSR1, and `done` at its end; what it cannot do it says as `impossible: WHY`. A kind that did not happen is an exception.
import ctypes, mmap, os, signal, socket, struct, sys, time

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
V6 = ":" in address
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
PEER = (address, port)
LIMIT = 12
IPPROTO_MPTCP = 262
SEGS_IN = ("=I", 140)  # struct tcp_info
libc = ctypes.CDLL(None, use_errno=True)

def info(s, field):
    return struct.unpack_from(field[0], s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144), field[1])[0]

def wait(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)

def tell():
    print("ready", flush=True)
    signal.sigwait({signal.SIGUSR1})

class Impossible(Exception):
    pass

def tcp(to=PEER, protocol=0, family=FAMILY):
    try:
        s = socket.socket(family, socket.SOCK_STREAM, protocol)
    except OSError as error:
        if error.errno in (92, 93):  # ENOPROTOOPT, EPROTONOSUPPORT
            raise Impossible(f"socket({family}, SOCK_STREAM, {protocol}): {error}")
        raise
    s.settimeout(LIMIT)
    s.connect(to)
    return s

def line(s, text=b"a line"):
    s.sendall(text + b"\n")
    got = b""
    while not got.endswith(b"\n"):
        more = s.recv(65536)
        assert more, "the connection ended"
        got += more
    assert got == text + b"\n", got

def udp(family=FAMILY, kind=socket.SOCK_DGRAM, protocol=0):
    s = socket.socket(family, kind, protocol)
    s.settimeout(1)
    return s

def ask(s, send, want, attempts=8):
    # UDP may lose: as often as need be. The answer must be one of `want`.
    last = None
    for _ in range(attempts):
        try:
            send()
            got = s.recv(65535)
            if got in want:
                return
            last = got
        except (TimeoutError, ConnectionRefusedError) as error:
            last = error
    raise AssertionError(f"no answer: {last!r}")

def linger_reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()

# --- TCP

def handshake():
    s = tcp()
    line(s)
    s.close()

def lost_data():
    # The test drops what carries data until it has seen it twice.
    s = tcp()
    line(s)
    s.close()

def keepalive():
    s = tcp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    line(s)
    before = info(s, SEGS_IN)
    wait("a keepalive that is answered", lambda: info(s, SEGS_IN) > before)
    line(s)
    s.close()

def zero_window():
    # The peer reads nothing. The test waits for the probes.
    s = tcp((address, port + 2))
    s.settimeout(1)
    try:
        while True:
            s.send(bytes(65536))
    except TimeoutError:
        pass
    tell()
    linger_reset(s)

def fin_of_the_peer():
    s = tcp()
    s.sendall(b"close\n")
    assert s.recv(1) == b""
    s.close()

def reset_by_linger():
    s = tcp()
    line(s)
    linger_reset(s)

def reset_by_the_peer():
    s = tcp()
    s.sendall(b"reset\n")
    try:
        s.recv(1)
        raise AssertionError("no reset")
    except ConnectionResetError:
        pass

def closed_port():
    try:
        tcp((address, 9))
        raise AssertionError("somebody listens")
    except ConnectionRefusedError:
        pass

def late_data():
    # Data for a socket that is gone is answered by a kernel without a socket.
    s = tcp()
    s.sendall(b"close\n")
    assert s.recv(1) == b""
    s.sendall(b"late")
    def is_reset():
        try:
            s.send(b"later")
        except (BrokenPipeError, ConnectionResetError):
            return True
    wait("an answer to late data", is_reset)

def fast_open():
    # The first connection brings the cookie, the second carries data in its SYN.
    for attempt in (1, 2):
        s = socket.socket(FAMILY)
        # Blocking, or connect is not awaited.
        for option in (20, 21):  # SO_RCVTIMEO, SO_SNDTIMEO
            s.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", LIMIT, 0))
        text = b"attempt %d\n" % attempt
        assert s.sendto(text, 0x20000000, PEER) == len(text)  # MSG_FASTOPEN
        assert s.recv(100) == text
        s.close()

def fast_open_connect():
    s = socket.socket(FAMILY)
    s.settimeout(LIMIT)
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    s.connect(PEER)
    s.sendall(b"early\n")
    assert s.recv(100) == b"early\n"
    s.close()

def mptcp():
    s = tcp((address, port + 1), IPPROTO_MPTCP)
    line(s)
    tell()
    # The second subflow has come: both carry data.
    line(s, b"x" * 200_000)
    s.close()

# --- UDP

def udp_unconnected():
    s = udp()
    ask(s, lambda: s.sendto(b"unconnected", PEER), [b"unconnected"])

def udp_connected():
    s = udp()
    s.connect(PEER)
    ask(s, lambda: s.send(b"connected"), [b"connected"])

def udp_two_at_once():
    # The first datagram of a fresh socket, to two destinations (research/app-policy.md, finding 2: no late mark).
    for _ in range(20):
        s = udp()
        s.sendto(b"first", PEER)
        s.sendto(b"second", (address, 9))
    udp_unconnected()

def udp_fragments():
    s = udp()
    if not V6:
        s.setsockopt(0, 10, 0)  # IP_MTU_DISCOVER, IP_PMTUDISC_DONT: DF off
    data = os.urandom(9000)
    ask(s, lambda: s.sendto(data, PEER), [data])

def udp_fragments_connected():
    s = udp()
    if not V6:
        s.setsockopt(0, 10, 0)
    s.connect(PEER)
    data = os.urandom(9000)
    ask(s, lambda: s.send(data), [data])

def udp_corked():
    s = udp()
    s.connect(PEER)
    def send():
        s.setsockopt(socket.IPPROTO_UDP, 1, 1)  # UDP_CORK
        for part in (b"1" * 100, b"2" * 100, b"3" * 100):
            s.send(part)
        s.setsockopt(socket.IPPROTO_UDP, 1, 0)
    ask(s, send, [b"1" * 100 + b"2" * 100 + b"3" * 100])

def udp_more():
    s = udp()
    def send():
        s.sendto(b"more ", socket.MSG_MORE, PEER)
        s.sendto(b"to come", PEER)
    ask(s, send, [b"more to come"])

def udp_segments():
    s = udp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    data = b"".join(bytes([n]) * 1000 for n in range(8)) + b"rest"
    pieces = {data[at:at + 1000] for at in range(0, len(data), 1000)}
    for _ in range(8):
        sent = s.sendmsg([data], [(socket.IPPROTO_UDP, 103, struct.pack("=H", 1000))], 0, PEER)  # UDP_SEGMENT
        assert sent == len(data)
        came = set()
        try:
            while came < pieces:
                came.add(s.recv(65535))
        except TimeoutError:
            continue
        assert came == pieces, "each piece is a datagram"
        return
    raise AssertionError("no answer to segments")

class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]

class Msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Iovec)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]

class Mmsghdr(ctypes.Structure):
    _fields_ = [("hdr", Msghdr), ("len", ctypes.c_uint32)]

def sockaddr(to=PEER):
    if ":" in to[0]:
        raw = struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(to[1]), 0, socket.inet_pton(socket.AF_INET6, to[0]), 0)
    else:
        raw = struct.pack("=HH4s8s", socket.AF_INET, socket.htons(to[1]), socket.inet_aton(to[0]), b"")
    return ctypes.create_string_buffer(raw, len(raw))

def udp_sendmmsg():
    s, name = udp(), sockaddr()
    texts = [b"one of many %d" % n for n in range(5)]
    many = (Mmsghdr * 5)()
    for one, text in zip(many, texts):
        one.hdr.name, one.hdr.namelen = ctypes.addressof(name), len(name)
        one.hdr.iov, one.hdr.iovlen = ctypes.pointer(Iovec(text, len(text))), 1
    came = set()
    for _ in range(8):
        sent = libc.sendmmsg(s.fileno(), many, 5, 0)
        assert sent == 5, os.strerror(ctypes.get_errno())
        try:
            while came < set(texts):
                came.add(s.recv(100))
            return
        except TimeoutError:
            pass
    raise AssertionError(f"only {came} came back")

def udp_pktinfo():
    source = sys.argv[4]
    s = udp()
    if V6:
        control = (socket.IPPROTO_IPV6, 50, socket.inet_pton(FAMILY, source) + struct.pack("=I", 0))  # IPV6_PKTINFO
    else:
        control = (0, 8, struct.pack("=I", 0) + socket.inet_aton(source) + bytes(4))  # IP_PKTINFO
    ask(s, lambda: s.sendmsg([b"from another"], [control], 0, PEER), [b"from another"])

def udp_bound_to_device():
    s = udp()
    s.setsockopt(socket.SOL_SOCKET, 25, b"eth0")  # SO_BINDTODEVICE
    # The answer comes by the TUN, which such a socket does not hear.
    for _ in range(3):
        s.sendto(b"by eth0", PEER)
    # Past the uplink, into the TUN: what policy protects is protected there, too; or there is no route.
    s = udp()
    s.setsockopt(socket.SOL_SOCKET, 25, b"rvl0")
    try:
        s.sendto(b"by rvl0", PEER)
    except OSError as error:
        assert error.errno in (1, 101), error  # EPERM, ENETUNREACH

def udp_lite():
    s = udp(protocol=136)
    for _ in range(3):
        s.sendto(b"lite", PEER)

def udp_zero_copy():
    s = udp()
    s.setsockopt(socket.SOL_SOCKET, 60, 1)  # SO_ZEROCOPY
    ask(s, lambda: s.sendto(b"z" * 1000, 0x4000000, PEER), [b"z" * 1000])  # MSG_ZEROCOPY

# --- sockets of other families and types

def mapped_udp():
    assert not V6
    s = udp(socket.AF_INET6)
    ask(s, lambda: s.sendto(b"mapped", ("::ffff:" + address, port)), [b"mapped"])
    s.connect(("::ffff:" + address, port))
    ask(s, lambda: s.send(b"mapped, connected"), [b"mapped, connected"])

def mapped_tcp():
    assert not V6
    s = tcp(("::ffff:" + address, port), family=socket.AF_INET6)
    line(s)
    s.close()

def checksum(octets):
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF

def echo_request(body):
    # The kernel fills the checksum of ICMPv6, and of ping sockets.
    if V6:
        return struct.pack("!BBHHH", 128, 0, 0, os.getpid() & 0xFFFF, 1) + body
    head = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, 1) + body
    return head[:2] + struct.pack("!H", checksum(head)) + head[4:]

def answered(s, send, body):
    for _ in range(8):
        send()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                got = s.recv(65535)
            except TimeoutError:
                break
            reply = got if V6 or got[0] >> 4 != 4 else got[(got[0] & 15) * 4:]
            if reply[0] in (0, 129) and body in reply:
                return
    raise AssertionError("no echo reply")

def raw_icmp():
    s = udp(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_ICMPV6 if V6 else socket.IPPROTO_ICMP)
    answered(s, lambda: s.sendto(echo_request(b"raw echo"), (address, 0)), b"raw echo")

def raw_icmp_connected():
    s = udp(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_ICMPV6 if V6 else socket.IPPROTO_ICMP)
    s.connect((address, 0))
    answered(s, lambda: s.send(echo_request(b"raw connected")), b"raw connected")

def raw_protocol():
    # 253 is for experiments (RFC 3692): nobody listens, and the peer's kernel says so.
    s = udp(kind=socket.SOCK_RAW, protocol=253)
    for _ in range(3):
        s.sendto(b"experiment", (address, 0))

def raw_with_header():
    source = sys.argv[4]
    s = udp(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_RAW)
    payload = struct.pack("!HHHH", 7777, port, 8 + 6, 0) + b"header"
    if V6:
        pseudo = socket.inet_pton(FAMILY, source) + socket.inet_pton(FAMILY, address) + struct.pack("!II", len(payload), 17)
        payload = payload[:6] + struct.pack("!H", checksum(pseudo + payload)) + payload[8:]
        packet = struct.pack("!IHBB", 6 << 28, len(payload), 17, 64) + pseudo[:32] + payload
        to = (address, 0)
    else:
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0)
        packet += socket.inet_aton(source) + socket.inet_aton(address) + payload
        to = (address, 0)
    echo = udp()
    echo.bind(("::" if V6 else "0.0.0.0", 7777))
    ask(echo, lambda: s.sendto(packet, to), [b"header"])

def ping():
    s = udp(protocol=socket.IPPROTO_ICMPV6 if V6 else socket.IPPROTO_ICMP)
    answered(s, lambda: s.sendto(echo_request(b"ping socket"), (address, 0)), b"ping socket")
    s.connect((address, 0))
    answered(s, lambda: s.send(echo_request(b"ping connected")), b"ping connected")
