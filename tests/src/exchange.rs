//! A transfer that goes on while the world changes: a client asks a server for answers, without a pause, until it is told to end, and
//! says how far it has come and how long it had to wait at most. It gives up by itself after a patience of its own.

/// How long the client waits for one answer before it gives up, in seconds: what a program's own time limit takes for dead. On a busy
/// machine TCP waits 6 or 13 s for its next try, which is no fault of the path.
pub const PATIENCE_SECONDS: u32 = 60;

/// Answers on TCP and UDP (port, both families): a request says how many octets it has and how many the answer is to have.
pub const SERVER: &str = r#"
import socket, struct, sys, threading
def bound(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("::", int(sys.argv[1])))
    return s
def exactly(c, size):
    parts = []
    while size:
        part = c.recv(min(size, 1 << 16))
        if not part:
            raise OSError("ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
def stream(c):
    try:
        while True:
            up, down = struct.unpack("!II", exactly(c, 8))
            exactly(c, up)
            c.sendall(bytes(down))
    except OSError:
        c.close()
def streams(s):
    while True:
        threading.Thread(target=stream, args=(s.accept()[0],), daemon=True).start()
tcp, udp = bound(socket.SOCK_STREAM), bound(socket.SOCK_DGRAM)
tcp.listen(64)
threading.Thread(target=streams, args=(tcp,), daemon=True).start()
print("ready", flush=True)
while True:
    data, peer = udp.recvfrom(65535)
    up, down, number = struct.unpack("!III", data[:12])
    try:
        udp.sendto(data[:12] + bytes(down), peer)
    except OSError:
        pass
"#;

/// The client (tcp or udp, address, port, octets there, octets back, seconds of patience, a file that ends it). Prints `at N` now and
/// then, and at the end `whole N exchanges, longest S s`.
pub const CLIENT: &str = r#"
import os, socket, struct, sys, time
kind, host, port, up, down, patience, stop = sys.argv[1:8]
port, up, down, patience = int(port), int(up), int(down), float(patience)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
number, longest, told = 0, 0.0, 0.0
if kind == "tcp":
    s = socket.create_connection((host, port), patience)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def exchange():
        s.sendall(struct.pack("!II", up, down) + bytes(up))
        left = down
        while left:
            got = len(s.recv(min(left, 1 << 16)))
            assert got, "the server has ended"
            left -= got
else:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.connect((host, port))
    s.settimeout(0.2)
    def exchange():
        request = struct.pack("!III", up, down, number)
        began = time.monotonic()
        while True:
            try:
                s.send(request + bytes(up))
                while s.recv(65535)[:12] != request:
                    pass
                return
            except OSError:
                assert time.monotonic() < began + patience, "no answer"
while not os.path.exists(stop):
    began = time.monotonic()
    exchange()
    now = time.monotonic()
    longest = max(longest, now - began)
    number += 1
    if now > told + 0.05:
        told = now
        print("at", number, flush=True)
    if kind == "udp":
        time.sleep(0.002)
print("whole", number, "exchanges, longest %.2f s" % longest, flush=True)
"#;
