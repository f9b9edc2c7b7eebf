"""The worker of a cipher, written a second time from docs/cipher-worker.md: no code of Ravelin, no library of a cipher.

It has the toy ciphers of toy.c (blocks) and flow.c (a stream cipher), computes key stream ahead, and does everything in
one process. It writes into its own memory alone, and reads the host's through a mapping that cannot be written.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys

LANES, LANE, DATA, ENTRIES, PAGE = 4, 270336, 8192, 4096, 4096
PLACES, PLACE, HEAD, RING = 682, 1536, 64, 1048576
RECORDS = RINGS = PAGE + LANES * LANE
MASK = (1 << 64) - 1
OK, LENGTH, FAILED, REFUSED = 0, 1, 3, 4


def turn(x, by):
    return (x << by | x >> (64 - by)) & MASK


def mix(x, k):
    return turn((x * 0x9E3779B97F4A7C15 + k) & MASK, 23) ^ turn(x, 7)


class Block:
    """The cipher of toy.c."""

    def __init__(self, key):
        words = struct.unpack("<4Q", key)
        self.rounds = [(words[i % 4] + 0x0101010101010101 * i) & MASK for i in range(16)]

    def encrypt(self, data):
        out = bytearray()
        for at in range(0, len(data), 16):
            l, r = struct.unpack_from("<2Q", data, at)
            for k in self.rounds:
                l, r = r, l ^ mix(r, k)
            out += struct.pack("<2Q", r, l)
        return bytes(out)

    def decrypt(self, data):
        out = bytearray()
        for at in range(0, len(data), 16):
            r, l = struct.unpack_from("<2Q", data, at)
            for k in reversed(self.rounds):
                l, r = r ^ mix(l, k), l
            out += struct.pack("<2Q", l, r)
        return bytes(out)

    def cbc(self, iv, data):
        out = b""
        for at in range(0, len(data), 16):
            iv = self.encrypt(bytes(a ^ b for a, b in zip(iv, data[at : at + 16])))
            out += iv
        return out

    def stream(self, counter, _offset, octets):
        low = int.from_bytes(counter[12:], "big")
        blocks = (octets + 15) // 16
        counters = b"".join(counter[:12] + ((low + i) & 0xFFFFFFFF).to_bytes(4, "big") for i in range(blocks))
        return self.encrypt(counters)[:octets]


class Stream:
    """The cipher of flow.c."""

    def __init__(self, key):
        self.key = struct.unpack("<4Q", key)

    def stream(self, nonce, offset, octets):
        first, second = struct.unpack_from("<Q", nonce)[0], struct.unpack_from("<Q", nonce, 4)[0]
        out = bytearray()
        for word in range(offset // 8, (offset + octets + 7) // 8):
            for k in self.key:
                word = mix((word + first) & MASK, k) ^ second
            out += struct.pack("<Q", word)
        return bytes(out[offset % 8 :][:octets])


class Worker:
    def __init__(self, make, host, worker):
        self.make, self.host, self.own = make, host, worker
        self.keys, self.progress = {}, {}
        assert host[:8] == b"RVLCW\0\0\0" and self.word(8) == 1
        self.count = self.word(12)
        self.served = [self.word(self.lane(i)) for i in range(LANES)]
        self.put(4, 1)
        self.put(8, self.word(16))
        self.put(0, 1)

    @staticmethod
    def lane(index):
        return PAGE + index * LANE

    def word(self, at):
        return struct.unpack_from("=I", self.host, at)[0]

    def put(self, at, value):
        # One store, so that the host never sees half of it.
        ctypes.c_uint32.from_buffer(self.own, at).value = value

    def turn(self):
        for index in range(LANES):
            request = self.word(self.lane(index))
            if request != self.served[index]:
                self.served[index] = request
                status = self.batch(self.lane(index))
                self.put(self.lane(index) + 4, status)
                self.put(self.lane(index), request)
                self.wake(self.lane(index))
        for key in self.keys:
            self.ahead(key)

    def wake(self, at):
        if self.word(at + 4):
            address = ctypes.addressof(ctypes.c_uint32.from_buffer(self.own, at))
            number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
            ctypes.CDLL(None).syscall(number, ctypes.c_void_p(address), 1, 2**31 - 1, None, None, 0)

    def batch(self, lane):
        op, index, count = struct.unpack_from("=3I", self.host, lane + 8)
        if count > 64 or index >= self.count:
            return REFUSED
        entries = [self.entry(lane + ENTRIES + 64 * i) for i in range(count)]
        data = lambda entry: self.host[lane + DATA + entry[0] : lane + DATA + entry[0] + entry[1]]
        if op == 1:
            key = data(entries[0])
            if len(key) != 32:
                return LENGTH
            self.keys[index] = self.make(key)
            self.progress.pop(index, None)
            return OK
        key = self.keys.get(index)
        if op == 2:
            self.keys.pop(index, None)
            return OK
        if key is None:
            return REFUSED
        for entry in entries:
            at, octets, offset, nonce = entry
            if op == 5:
                out = key.stream(nonce, offset, octets)
            elif op == 3 and isinstance(key, Block):
                out = key.encrypt(data(entry))
            elif op == 4 and isinstance(key, Block):
                out = key.decrypt(data(entry))
            elif op == 6 and isinstance(key, Block):
                out = key.cbc(nonce, data(entry))
            else:
                return FAILED
            self.own[lane + DATA + at : lane + DATA + at + octets] = out
        return OK

    def entry(self, at):
        data, octets = struct.unpack_from("=2I", self.host, at)
        offset = struct.unpack_from("=Q", self.host, at + 16)[0]
        return data, octets, offset, self.host[at + 32 : at + 48]

    def ahead(self, index):
        """One number for this key, if one is wanted."""
        at = RECORDS + 64 * index
        generation, octets, first = struct.unpack_from("=2IQ", self.host, at)
        template = self.host[at + 16 : at + 32]
        if generation == 0 or self.word(at) != generation or octets > PLACE - HEAD:
            return
        known, number = self.progress.get(index, (0, 0))
        number = max(number, first) if known == generation else first
        if number >= first + PLACES:
            return
        nonce = template[:4] + number.to_bytes(8, "big") + template[12:]
        stream = self.keys[index].stream(nonce, 0, octets)
        place = RINGS + RING * index + PLACE * (number % PLACES)
        self.put(place, 0)
        self.own[place + HEAD : place + HEAD + octets] = stream
        self.put(place + 4, octets)
        struct.pack_into("=Q", self.own, place + 8, number)
        self.put(place, generation)
        self.progress[index] = generation, number + 1


def main():
    _library, manifest, control, host, worker = map(int, os.environ["RAVELIN_CIPHER_WORKER"].split(","))
    kind = json.loads(os.pread(manifest, 1 << 20, 0))["kind"]
    make = {"block": Block, "stream": Stream}[kind]
    control = socket.socket(fileno=control)
    host = mmap.mmap(host, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    own = mmap.mmap(worker, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    while True:
        command = control.recv(16)
        if not command:
            return
        if command != b"S":
            continue
        child = os.fork()
        if child == 0:
            served = Worker(make, host, own)
            while os.getppid() != 1:
                served.turn()
        control.send(b"R" + struct.pack("=I", child))
        ended = os.pidfd_open(child)
        while True:
            ready, _, _ = select.select([control, ended], [], [])
            if ended in ready:
                break
            here = control.recv(16)
            os.kill(child, signal.SIGKILL)
            if not here:
                return
        _, status = os.waitpid(child, 0)
        os.close(ended)
        control.send(b"E" + struct.pack("=i", status))


if __name__ == "__main__":
    sys.exit(main())
