# Many voices at once, until it is killed: each is a thread that asks the server in its own way, for ever, and is not put
# off by failure. `voices.py ADDRESS PORT`. Prints `NAME TRIED ANSWERED` for every voice again and again.
import itertools, os, socket, struct, sys, threading, time
address, port = sys.argv[1], int(sys.argv[2])
V6 = ":" in address
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
PEER = (address, port)
ICMP = socket.IPPROTO_ICMPV6 if V6 else socket.IPPROTO_ICMP
tried, answered = {}, {}

def voice(name, once):
    tried[name] = answered[name] = 0
    def sing():
        for n in itertools.count():
            tried[name] += 1
            try:
                if once(b"%s %d\n" % (name.encode(), n)):
                    answered[name] += 1
            except OSError:
                pass
            time.sleep(0.02)  # the rate
    threading.Thread(target=sing, daemon=True).start()

def heard(s, text):
    # Answers of before may come late.
    while s.recv(65535) != text:
        pass
    return True

def open_udp(kind=socket.SOCK_DGRAM, protocol=0):
    s = socket.socket(FAMILY, kind, protocol)
    s.settimeout(0.2)
    return s

def fresh_udp(text):
    with open_udp() as s:
        s.sendto(text, PEER)
        return heard(s, text)

old_udp, connected_udp = open_udp(), open_udp()
connected_udp.connect(PEER)

def unconnected(text):
    old_udp.sendto(text, PEER)
    return heard(old_udp, text)

def connected(text):
    connected_udp.send(text)
    return heard(connected_udp, text)

def fragments(text):
    with open_udp() as s:
        if not V6:
            s.setsockopt(0, 10, 0)  # DF off
        s.sendto(text * 300, PEER)
        return heard(s, text * 300)

def fresh_tcp(text):
    with socket.socket(FAMILY) as s:
        s.settimeout(1)
        s.connect(PEER)
        s.sendall(text)
        return s.recv(2000) == text

# One connection for ever: what is not answered in time stays on its way.
old_tcp = socket.socket(FAMILY)
old_tcp.settimeout(30)
old_tcp.connect(PEER)
old_tcp.settimeout(0.5)
awaited = [b""]

def established(text):
    if not awaited[0]:
        old_tcp.sendall(text)
        awaited[0] = text
    awaited[0] = awaited[0][len(old_tcp.recv(2000)):]
    return not awaited[0]

def checksum(octets):
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF

def echo(s, text):
    body = text + bytes(40 - len(text))
    head = struct.pack("!BBHHH", 128 if V6 else 8, 0, 0, 77, 1) + body
    if not V6:
        head = head[:2] + struct.pack("!H", checksum(head)) + head[4:]
    s.sendto(head, (address, 0))
    for _ in range(20):
        got = s.recv(2000)
        if body in got and got[0] != head[0] and got[-len(head)] != head[0]:
            return True

raw = open_udp(socket.SOCK_RAW, ICMP)
ping = open_udp(socket.SOCK_DGRAM, ICMP)
voice("udp-fresh", fresh_udp)
voice("udp-old", unconnected)
voice("udp-connected", connected)
voice("udp-fragments", fragments)
voice("tcp-fresh", fresh_tcp)
voice("tcp-old", established)
voice("raw", lambda text: echo(raw, text))
voice("ping", lambda text: echo(ping, text))
while True:
    print(";".join(f"{name} {tried[name]} {answered[name]}" for name in list(answered)), flush=True)
    time.sleep(0.05)
