# Traffic under reloads, until SIGUSR1: `reloads.py PEER PORT FORBIDDEN`. Numbered datagrams that policy permits, each of which the peer sends
# back; connections that it permits; datagrams and connections to FORBIDDEN:PORT, which it refuses. At the end one line:
# `sent N answered N twice N refused N connected N failed N forbidden N passed N`.
import errno, os, signal, socket, struct, sys, threading, time

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
peer, forbidden = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[2]))
V6 = ":" in peer[0]
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
stop = threading.Event()
s = socket.socket(FAMILY, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
s.settimeout(0.2)
score = dict.fromkeys(("sent", "answered", "twice", "refused", "connected", "failed", "forbidden", "passed"), 0)
seen = set()

def receive():
    while score["answered"] < score["sent"] or not stop.is_set():
        if stop.is_set() and time.monotonic() > end:
            return
        try:
            number, = struct.unpack("!Q", s.recv(100)[:8])
        except TimeoutError:
            continue
        score["twice" if number in seen else "answered"] += 1
        seen.add(number)

def send():
    while not stop.is_set():
        try:
            s.sendto(struct.pack("!Q", score["sent"]) + b"n" * 92, peer)
            score["sent"] += 1
        except PermissionError:
            score["refused"] += 1
        time.sleep(0.001)  # the rate

def connect():
    while not stop.is_set():
        with socket.socket(FAMILY) as t:
            t.settimeout(10)
            try:
                t.connect(peer)
                t.sendall(b"line\n")
                score["connected" if t.recv(100) == b"line\n" else "failed"] += 1
            except OSError as error:
                print("connect", error, flush=True)
                score["failed"] += 1

def trespass():
    while not stop.is_set():
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with socket.socket(FAMILY, kind) as t:
                t.setblocking(False)
                try:
                    t.connect(forbidden)
                    score["passed"] += 1
                except BlockingIOError:
                    score["passed"] += 1
                except PermissionError:
                    score["forbidden"] += 1
        time.sleep(0.0005)  # the rate

threads = [threading.Thread(target=one) for one in (receive, send, connect, trespass)]
for one in threads:
    one.start()
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
end = time.monotonic() + 10
stop.set()
for one in threads:
    one.join()
print("score", *(f"{name} {count}" for name, count in score.items()), flush=True)
