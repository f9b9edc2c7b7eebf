# The other end of every row, on bob: one TCP listener for plain connections (fast open allowed), one for MPTCP, one that
# never reads, one UDP echo. All on both families. Arguments: first port. Says `ready`.
import socket, struct, sys, threading
port = int(sys.argv[1])
IPPROTO_MPTCP = 262

def listen(port, protocol=0, buffer=0):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, protocol)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    s.bind(("::", port))
    if not protocol:
        s.setsockopt(socket.IPPROTO_TCP, 23, 64)  # TCP_FASTOPEN
    s.listen(64)
    return s

def serve(c):
    # Each line is a wish: `close` FIN, `reset` RST, any other comes back.
    rest = b""
    while data := c.recv(65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line == b"reset":
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if line in (b"close", b"reset"):
                return
            c.sendall(line + b"\n")

def accept(listener, held):
    while True:
        c, _ = listener.accept()
        if held is None:
            threading.Thread(target=guarded, args=(c,), daemon=True).start()
        else:
            held.append(c)

def guarded(c):
    with c:
        try:
            serve(c)
        except OSError:
            pass

def echo():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    s.bind(("::", port))
    while True:
        try:
            data, peer = s.recvfrom(65535)
            s.sendto(data, peer)
        except OSError:
            pass

held = []
listeners = [(listen(port), None), (listen(port + 1, IPPROTO_MPTCP), None), (listen(port + 2, 0, 4096), held)]
for one in listeners:
    threading.Thread(target=accept, args=one, daemon=True).start()
threading.Thread(target=echo, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
