//! Unmodified programs: Python scripts stand for any program that uses sockets in its own way.

/// A server that echoes UDP on the port in its first argument, over both families, and says `ready`.
pub const UDP_ECHO: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(65535)
    s.sendto(data, peer)
"#;

/// Sends datagrams of many sizes to an echo server (address, port), unconnected and connected, and prints how many came
/// back unchanged.
pub const UDP_CLIENT: &str = r#"
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
peer = (sys.argv[1], int(sys.argv[2]))
good, missing = 0, []
for connected in (False, True):
    for size in (1, 100, 1200, 1400, 1460, 1472, 2000, 4000, 9000):
        data = os.urandom(size)
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(1)
        if connected:
            s.connect(peer)
        for attempt in range(5):
            try:
                s.send(data) if connected else s.sendto(data, peer)
                if s.recv(65535) == data:
                    good += 1
                    break
            except OSError as error:
                last = error
        else:
            missing.append((connected, size, str(last)))
        s.close()
print("echoed", good, "of 18", *missing)
"#;

/// A TCP server (port) that answers each line in the way it asks for, and says `ready`. `echo`: the line back. `close`:
/// FIN. `reset`: RST.
pub const TCP_SERVER: &str = r#"
import socket, struct, sys, threading
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("::", int(sys.argv[1])))
s.listen(64)
print("ready", flush=True)
def serve(c):
    f = c.makefile("rb")
    for line in f:
        if line == b"close\n":
            break
        if line == b"reset\n":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            break
        try:
            c.sendall(line)
        except OSError:
            break
    f.close()
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// Opens and ends TCP connections to that server (address, port) in every way there is, and prints `done`: keepalives on an
/// idle connection, close by either side, reset by either side, a port nobody listens on.
pub const TCP_CLIENT: &str = r#"
import socket, struct, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
def connect(port=int(sys.argv[2])):
    s = socket.socket(family)
    s.settimeout(10)
    s.connect((sys.argv[1], port))
    return s
def say(s, word):
    s.sendall(word + b"\n")
# Keepalives: two probes and their answers, on a connection that says nothing else.
def came(s):
    return struct.unpack_from("=I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144), 140)[0]  # tcpi_segs_in
s = connect()
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
say(s, b"hello")
assert s.recv(100) == b"hello\n"
before, limit = came(s), time.monotonic() + 15
while came(s) < before + 2:
    assert time.monotonic() < limit, "no keepalive was answered"
    time.sleep(0.05)
say(s, b"again")
assert s.recv(100) == b"again\n"
s.close()
# The other side closes.
s = connect(); say(s, b"close"); assert s.recv(1) == b""; s.close()
# The other side resets.
s = connect(); say(s, b"reset")
try:
    s.recv(1)
except ConnectionResetError:
    print("reset by peer")
s.close()
# This side resets.
s = connect(); say(s, b"x"); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()
# Data for a socket that is gone: answered by a kernel without a socket.
s = connect(); say(s, b"close"); assert s.recv(1) == b""
try:
    say(s, b"late"); say(s, b"later")
except OSError:
    pass
s.close()
# Nobody listens.
try:
    connect(9)
except ConnectionRefusedError:
    print("refused")
print("done")
"#;

/// Sends a line of so many octets to that server (address, port, octets), prints `same` if it comes back.
pub const ONE_LINE: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 4)
line = b"line-" + b"x" * int(sys.argv[3]) + b"\n"
s.sendall(line)
print("same" if s.makefile("rb").readline() == line else "another")
"#;

/// Serves `size` octets of a cheap, checkable stream on `port` (both families) to every connection; prints the SHA-256 first.
pub const BULK_SERVER: &str = r#"
import hashlib, os, socket, sys
port, size = int(sys.argv[1]), int(sys.argv[2])
block = os.urandom(1 << 20)
def blocks():
    left = size
    while left:
        n = min(left, len(block))
        yield block[:n]
        left -= n
digest = hashlib.sha256()
for b in blocks():
    digest.update(b)
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("::", port))
s.listen(8)
print("sha256", digest.hexdigest(), flush=True)
while True:
    c, _ = s.accept()
    try:
        for b in blocks():
            c.sendall(b)
    except OSError:
        pass
    c.close()
"#;

/// Receives everything from (address, port), prints `sha256 DIGEST OCTETS`.
pub const BULK_CLIENT: &str = r#"
import hashlib, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 30)
digest, total = hashlib.sha256(), 0
buffer = bytearray(1 << 20)
while True:
    n = s.recv_into(buffer)
    if not n:
        break
    total += n
    digest.update(memoryview(buffer)[:n])
print("sha256", digest.hexdigest(), total)
"#;

/// Opens a connection (address, port) and writes into it by hand, step by step: `PLACE TEXT` sends a segment, `wait FILE` waits until
/// there is such a file. Says `ready` when it is through.
pub const SEGMENTS: &str = r#"
import os, socket, struct, sys, time
dst, port = sys.argv[1], int(sys.argv[2])
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("eth0", 0))
c = socket.create_connection((dst, port), 4)
c.settimeout(10)
src, sport = c.getsockname()
def check(octets):
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
while True:
    frame, origin = tap.recvfrom(70000)
    ip = frame[14:]
    if frame[12:14] != b"\x08\x00":
        continue
    tcp = ip[(ip[0] & 15) * 4:]
    if ip[9] == 6 and struct.unpack("!HH", tcp[:4]) == (sport, port) and not tcp[13] & 2:
        seq, ack = struct.unpack("!II", tcp[4:12])
        options = tcp[20:(tcp[12] >> 4) * 4]
        break
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def send(at, data):
    head = struct.pack("!HHIIBBHHH", sport, port, (seq + at) & 0xffffffff, ack, (20 + len(options)) // 4 << 4, 0x18, 512, 0, 0) + options
    pseudo = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!HH", 6, len(head) + len(data))
    head = head[:16] + struct.pack("!H", check(pseudo + head + data)) + head[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0x4000, 64, 6, 0, socket.inet_aton(src), socket.inet_aton(dst))
    raw.sendto(ip + head + data, (dst, 0))
for step in sys.argv[3:]:
    word, text = step.split(" ", 1)
    if word == "wait":
        while not os.path.exists(text):
            time.sleep(0.02)
    else:
        send(int(word), text.encode())
    print("done", step.strip(), flush=True)
print("ready", flush=True)
time.sleep(60)
"#;

/// Prints the first line of a connection, and ends it.
pub const FIRST_LINE: &str = r#"
import socket, sys
s = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
c, _ = s.accept()
print("read", c.makefile("rb").readline(), flush=True)
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
"#;

/// Receives every connection on `port` to its end and answers with the SHA-256 of it, and says `ready`. With a file as second argument a
/// connection is read only once that file is there.
pub const SINK: &str = r#"
import hashlib, os, socket, sys, threading, time
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("::", int(sys.argv[1])))
s.listen(64)
print("ready", flush=True)
def serve(c):
    while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    digest = hashlib.sha256()
    while True:
        data = c.recv(1 << 16)
        if not data:
            break
        digest.update(data)
    c.sendall(digest.hexdigest().encode())
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// Sends random octets to a [`SINK`] (address, port, octets) and prints `same` if the answer is right. With a number as fourth argument
/// its sequence numbers begin there (TCP_REPAIR while the socket is closed).
pub const UPLOAD: &str = r#"
import hashlib, os, socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
if len(sys.argv) > 4:
    s.setsockopt(socket.IPPROTO_TCP, 19, 1)  # TCP_REPAIR
    s.setsockopt(socket.IPPROTO_TCP, 20, 2)  # TCP_REPAIR_QUEUE: what is sent
    n = int(sys.argv[4])
    s.setsockopt(socket.IPPROTO_TCP, 21, n - (1 << 32) if n >= 1 << 31 else n)  # TCP_QUEUE_SEQ
    s.setsockopt(socket.IPPROTO_TCP, 19, -1)  # off, without a probe
s.connect((sys.argv[1], int(sys.argv[2])))
data = os.urandom(int(sys.argv[3]))
s.sendall(data)
s.shutdown(socket.SHUT_WR)
answer = b""
while True:
    part = s.recv(1000)
    if not part:
        break
    answer += part
print("same" if answer == hashlib.sha256(data).hexdigest().encode() else "another")
"#;
