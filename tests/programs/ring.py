# io_uring by its system calls (io_uring(7)): one request at a time, from the caller, from a worker of the kernel
# (IOSQE_ASYNC), or from the kernel's polling thread (IORING_SETUP_SQPOLL). Goes behind client.py.

class Ring:
    SQPOLL, GETEVENTS, WAKEUP = 2, 1, 2

    def __init__(self, flags=0):
        params = bytearray(120)
        struct.pack_into("=III", params, 8, flags, 0, 2000)
        address = (ctypes.c_char * 120).from_buffer(params)
        self.fd = libc.syscall(425, 8, address)  # io_uring_setup
        if self.fd < 0:
            raise Impossible(f"io_uring_setup: {os.strerror(ctypes.get_errno())}")
        self.polled = flags & self.SQPOLL
        entries, completions = struct.unpack_from("=II", params, 0)
        self.tail, self.mask, self.array = (struct.unpack_from("=I", params, 40 + at)[0] for at in (4, 8, 24))
        self.chead, self.ctail, self.cmask, self.cqes = (
            struct.unpack_from("=I", params, 80 + at)[0] for at in (0, 4, 8, 20))
        def area(size, offset):
            return mmap.mmap(self.fd, size, mmap.MAP_SHARED, offset=offset)
        self.sq = area(self.array + 4 * entries, 0)
        self.cq = area(self.cqes + 16 * completions, 0x8000000)
        self.entries = area(64 * entries, 0x10000000)

    def do(self, opcode, fd, flags=0, off=0, addr=0, length=0, more=0):
        tail, = struct.unpack_from("=I", self.sq, self.tail)
        slot = tail & struct.unpack_from("=I", self.sq, self.mask)[0]
        sqe = struct.pack("=BBHiQQIIQHHiQQ", opcode, flags, 0, fd, off, addr, length, more, 7, 0, 0, 0, 0, 0)
        self.entries[slot * 64:slot * 64 + 64] = sqe
        struct.pack_into("=I", self.sq, self.array + 4 * slot, slot)
        struct.pack_into("=I", self.sq, self.tail, (tail + 1) & 0xFFFFFFFF)
        submit = 0 if self.polled else 1
        first = None
        # Zero copy has a second completion (flag 2), which is awaited too.
        while True:
            head, = struct.unpack_from("=I", self.cq, self.chead)
            if head == struct.unpack_from("=I", self.cq, self.ctail)[0]:
                if libc.syscall(426, self.fd, submit, 1, self.GETEVENTS | self.WAKEUP, None, 0) < 0:
                    error = ctypes.get_errno()
                    if error != 4:
                        raise OSError(error, "io_uring_enter")
                submit = 0
                continue
            at = self.cqes + 16 * (head & struct.unpack_from("=I", self.cq, self.cmask)[0])
            _, result, cflags = struct.unpack_from("=QiI", self.cq, at)
            struct.pack_into("=I", self.cq, self.chead, (head + 1) & 0xFFFFFFFF)
            if cflags & 8:  # IORING_CQE_F_NOTIF
                return first
            if result < 0:
                if result == -22 and opcode in (45, 47, 48):
                    raise Impossible(f"io_uring request {opcode} is not known to this kernel")
                raise OSError(-result, f"{os.strerror(-result)} of io_uring request {opcode}")
            if not cflags & 2:  # IORING_CQE_F_MORE
                return result
            first = result

def threads():
    return {open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")}

def hold(octets):
    keep = ctypes.create_string_buffer(octets, len(octets))
    return keep, ctypes.addressof(keep)

def uring_exchange(ring, flags):
    SOCKET, CONNECT, SEND, RECV, SENDMSG, SEND_ZC = 45, 16, 26, 27, 9, 47
    name = sockaddr()
    # TCP: the socket itself is made by the ring too.
    fd = ring.do(SOCKET, FAMILY, flags, socket.SOCK_STREAM, 0, 0)
    ring.do(CONNECT, fd, flags, len(name), ctypes.addressof(name))
    for send in (SEND, SEND_ZC):
        text, at = hold(b"by io_uring\n")
        assert ring.do(send, fd, flags, 0, at, 12) == 12
        got, at = hold(bytes(100))
        assert ring.do(RECV, fd, flags, 0, at, 100) == 12 and got.raw[:12] == text.raw
    os.close(fd)
    # UDP: sendmsg with a name, unconnected, on a socket of the ring; then connected by the ring.
    fd = ring.do(SOCKET, FAMILY, flags, socket.SOCK_DGRAM, 0, 0)
    s = socket.socket(fileno=fd)
    s.settimeout(1)
    text = b"a datagram by io_uring"
    one = Msghdr(ctypes.addressof(name), len(name), ctypes.pointer(Iovec(text, len(text))), 1, None, 0, 0)
    def sendmsg():
        assert ring.do(SENDMSG, fd, flags, 0, ctypes.addressof(one), 1) == len(text)
    ask(s, sendmsg, [text])
    ring.do(CONNECT, fd, flags, len(name), ctypes.addressof(name))
    keep, at = hold(b"connected by io_uring")
    ask(s, lambda: ring.do(SEND, fd, flags, 0, at, len(keep)), [keep.raw])

def uring():
    uring_exchange(Ring(), 0)

def uring_async():
    # IOSQE_ASYNC: a worker of the kernel does it, never the caller.
    uring_exchange(Ring(), 16)
    assert any(name.startswith("iou-wrk-") for name in threads()), threads()

def uring_polled():
    ring = Ring(Ring.SQPOLL)
    uring_exchange(ring, 0)
    assert any(name.startswith("iou-sqp-") for name in threads()), threads()
