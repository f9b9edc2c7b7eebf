# Sockets that change hands: by SCM_RIGHTS, fork, exec. `HOW MAKE USE` in the arguments behind the address: one program makes
# a socket, another uses it. Goes behind client.py.
import subprocess

def made(how):
    if how == "udp":
        return udp()
    if how == "udp connected":
        s = udp()
        s.connect(PEER)
        return s
    if how == "tcp":
        s = socket.socket(FAMILY)
        s.settimeout(LIMIT)
        return s
    if how == "tcp connected":
        return tcp()
    icmp = socket.IPPROTO_ICMPV6 if V6 else socket.IPPROTO_ICMP
    if how == "ping":
        return udp(protocol=icmp)
    if how == "raw":
        return udp(kind=socket.SOCK_RAW, protocol=icmp)
    if how == "raw connected":
        s = udp(kind=socket.SOCK_RAW, protocol=icmp)
        s.connect((address, 0))
        return s
    raise KeyError(how)

def use(s, how):
    if how == "sendto":
        ask(s, lambda: s.sendto(b"passed on", PEER), [b"passed on"])
    elif how == "send":
        ask(s, lambda: s.send(b"passed on, connected"), [b"passed on, connected"])
    elif how == "connect":
        s.connect(PEER)
        if s.type == socket.SOCK_STREAM:
            line(s)
        else:
            ask(s, lambda: s.send(b"connected by the taker"), [b"connected by the taker"])
    elif how == "bind":
        # The hook of bind alone makes it the taker's.
        s.bind((sys.argv[4], 0))
        body = b"bound by the taker"
        answered(s, lambda: s.sendto(echo_request(body), (address, 0)), body)
    elif how == "line":
        line(s)
    elif how == "echo":
        answered(s, lambda: s.sendto(echo_request(b"echo passed on"), (address, 0)), b"echo passed on")
    elif how == "echo connected":
        answered(s, lambda: s.send(echo_request(b"echo, connected")), b"echo, connected")
    else:
        raise KeyError(how)

def other(how, fd, channel=-1):
    program = os.environ["PLAIN" if os.path.basename(sys.executable) == "app" else "APP"]
    args = [program, __file__, how, address, str(port), sys.argv[4], sys.argv[5], sys.argv[6], str(fd), str(channel)]
    return args

def passed():
    # Over a Unix socket.
    s = made(sys.argv[5])
    ours, theirs = socket.socketpair()
    taker = subprocess.Popen(other("taken", -1, theirs.fileno()), pass_fds=[theirs.fileno()])
    socket.send_fds(ours, [b"x"], [s.fileno()])
    s.close()
    assert taker.wait(40) == 0

def adopted(fd):
    s = socket.socket(fileno=fd)
    s.settimeout(LIMIT if s.type == socket.SOCK_STREAM else 1)
    return s

def taken():
    channel = socket.socket(fileno=int(sys.argv[8]))
    _, fds, _, _ = socket.recv_fds(channel, 1, 1)
    use(adopted(fds[0]), sys.argv[6])

def inherited():
    # Over exec: what this prints at its end is the other program's `done`.
    s = made(sys.argv[5])
    s.set_inheritable(True)
    sys.stdout.flush()
    args = other("after_exec", s.fileno())
    os.execv(args[0], args)

def after_exec():
    use(adopted(int(sys.argv[7])), sys.argv[6])

def forked():
    s = made(sys.argv[5])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            use(s, sys.argv[6])
            code = 0
        finally:
            os._exit(code)
    s.close()
    assert os.waitpid(pid, 0)[1] == 0
