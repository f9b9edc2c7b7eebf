"""What a host does with a library of include/ravelin_cipher.h, in Python and for one call at a time.

A context lies in pages of its own that are read-only behind setkey, as in the daemon. A buffer lies at an odd address
and between octets that a function must not touch. Each call is made twice, to another place and in place.
"""

import ctypes
import mmap

BLOCK, STREAM, AEAD = 1, 2, 3
KINDS = {BLOCK: "block", STREAM: "stream", AEAD: "aead"}
CONSTANT_TIME, IN_PLACE, OVERLAP_FORBIDDEN = 1, 2, 4
OK, BAD_LENGTH, WEAK_KEY, BAD_TAG = 0, -1, -2, -3

SIZE, NUMBER, POINTER = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p


class Ctr(ctypes.Structure):
    """struct ravelin_cipher_ctr."""

    _fields_ = [("counter", ctypes.c_uint8 * 16), ("data", POINTER), ("len", SIZE)]


class Cbc(ctypes.Structure):
    """struct ravelin_cipher_cbc."""

    _fields_ = [("iv", ctypes.c_uint8 * 16), ("data", POINTER), ("len", SIZE)]


class Aead(ctypes.Structure):
    """struct ravelin_cipher_aead."""

    _fields_ = [
        ("nonce", POINTER),
        ("aad", POINTER),
        ("aad_len", SIZE),
        ("data", POINTER),
        ("len", SIZE),
        ("tag", POINTER),
        ("result", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


BLOCKS = ctypes.CFUNCTYPE(None, POINTER, POINTER, POINTER, SIZE)
AEAD_IN = [POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, SIZE, POINTER]


class Cipher(ctypes.Structure):
    """struct ravelin_cipher."""

    _fields_ = [
        ("abi_major", ctypes.c_uint32),
        ("abi_minor", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("flags", NUMBER),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("vendor", ctypes.c_char_p),
        ("block_len", ctypes.c_uint32),
        ("key_len", ctypes.c_uint32),
        ("nonce_len", ctypes.c_uint32),
        ("tag_len", ctypes.c_uint32),
        ("ctx_size", ctypes.c_uint32),
        ("ctx_align", ctypes.c_uint32),
        ("max_octets_per_key", NUMBER),
        ("setkey", ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, POINTER, SIZE)),
        ("encrypt_blocks", BLOCKS),
        ("decrypt_blocks", BLOCKS),
        ("ctr_xor", ctypes.CFUNCTYPE(None, POINTER, POINTER, POINTER, POINTER, SIZE)),
        ("ctr_xor_batch", ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(Ctr), SIZE)),
        ("cbc_encrypt_batch", ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(Cbc), SIZE)),
        ("xor_at", ctypes.CFUNCTYPE(None, POINTER, POINTER, NUMBER, POINTER, POINTER, SIZE)),
        ("seal", ctypes.CFUNCTYPE(None, *AEAD_IN)),
        ("open", ctypes.CFUNCTYPE(ctypes.c_int32, *AEAD_IN)),
        ("seal_batch", ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(Aead), SIZE)),
        ("open_batch", ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(Aead), SIZE)),
    ]


class Wrong(Exception):
    """The library did what the header forbids."""


def load(path):
    """The descriptions of the library's ciphers. Calling them runs its code in this process."""
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
    library.ravelin_cipher_v1.restype = ctypes.POINTER(Cipher)
    library.ravelin_cipher_v1.argtypes = [ctypes.c_uint32]
    ciphers = []
    while True:
        found = library.ravelin_cipher_v1(len(ciphers))
        if not found:
            return ciphers
        ciphers.append(found.contents)


EDGE = bytes(range(0xA0, 0xB0))


class Buffer:
    """Octets at an odd address; `check` finds writes in front of them and behind them."""

    def __init__(self, data):
        self.len = len(data)
        self.memory = ctypes.create_string_buffer(2 * len(EDGE) + self.len + 1)
        first = ctypes.addressof(self.memory)
        self.start = len(EDGE) + (first + len(EDGE) + 1) % 2
        self.before, self.behind = bytes([0x5A]) * self.start, EDGE
        self.memory[: self.start + self.len + len(EDGE)] = self.before + data + self.behind
        self.address = first + self.start if self.len else None

    def octets(self):
        """The octets as they are now."""
        raw = self.memory.raw
        if raw[: self.start] != self.before or raw[self.start + self.len :][: len(EDGE)] != self.behind:
            raise Wrong("it wrote outside of its buffer")
        return raw[self.start : self.start + self.len]


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = [POINTER, SIZE, ctypes.c_int]


class Key:
    """A key of a cipher, in a context that nothing can write."""

    def __init__(self, cipher, key):
        self.cipher = cipher
        size = -(-cipher.ctx_size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.pages = mmap.mmap(-1, size)
        self.ctx = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        memory = Buffer(key)
        self.result = cipher.setkey(self.ctx, memory.address, len(key))
        if memory.octets() != key:
            raise Wrong("setkey wrote to the key")
        if LIBC.mprotect(self.ctx, size, mmap.PROT_READ) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def twice(self, data, call):
        """What `call(dst, src)` makes of the data, to another place and in place; both must agree."""
        src, dst = Buffer(data), Buffer(bytes(len(data)))
        call(dst.address, src.address)
        if src.octets() != data:
            raise Wrong("it wrote to its input")
        elsewhere = dst.octets()
        if not self.cipher.flags & IN_PLACE:
            return elsewhere
        both = Buffer(data)
        call(both.address, both.address)
        if both.octets() != elsewhere:
            raise Wrong("in place it computes something else")
        return elsewhere

    def encrypt(self, data):
        """Blocks, each for itself, in one call."""
        count = len(data) // self.cipher.block_len
        return self.twice(data, lambda d, s: self.cipher.encrypt_blocks(self.ctx, d, s, count))

    def decrypt(self, data):
        """The inverse of `encrypt`."""
        count = len(data) // self.cipher.block_len
        return self.twice(data, lambda d, s: self.cipher.decrypt_blocks(self.ctx, d, s, count))

    def ctr(self, counter, data):
        """The library's own counter mode."""
        first = Buffer(counter)
        return self.twice(data, lambda d, s: self.cipher.ctr_xor(self.ctx, first.address, d, s, len(data)))

    def batch(self, structure, function, packets):
        """A batch of (counter or IV, data) in place."""
        buffers = [Buffer(data) for _, data in packets]
        array = (structure * len(packets))()
        for packet, (first, _), buffer in zip(array, packets, buffers):
            field = packet.counter if structure is Ctr else packet.iv
            field[:] = first
            packet.data, packet.len = buffer.address, buffer.len
        function(self.ctx, array, len(packets))
        return [buffer.octets() for buffer in buffers]

    def xor_at(self, nonce, offset, data):
        """A stream cipher's key stream from this octet on."""
        at = Buffer(nonce)
        return self.twice(data, lambda d, s: self.cipher.xor_at(self.ctx, at.address, offset, d, s, len(data)))

    def seal(self, nonce, aad, data):
        """Ciphertext and tag of a combined mode."""
        at, extra, tag = Buffer(nonce), Buffer(aad), Buffer(bytes(self.cipher.tag_len))
        call = self.cipher.seal
        ct = self.twice(
            data, lambda d, s: call(self.ctx, at.address, extra.address, len(aad), d, s, len(data), tag.address)
        )
        return ct, tag.octets()

    def open(self, nonce, aad, ct, tag):
        """The plaintext, or None if the library refuses the tag; a refusal must leave no plaintext."""
        at, extra, mark = Buffer(nonce), Buffer(aad), Buffer(tag)
        results = []

        def call(dst, src):
            results.append(
                self.cipher.open(self.ctx, at.address, extra.address, len(aad), dst, src, len(ct), mark.address)
            )

        if self.cipher.flags & IN_PLACE:
            both = Buffer(ct)
            call(both.address, both.address)
            in_place = both.octets()
        src, dst = Buffer(ct), Buffer(bytes(len(ct)))
        call(dst.address, src.address)
        if len(set(results)) != 1 or results[0] not in (OK, BAD_TAG):
            raise Wrong(f"open returned {results}")
        if results[0] == OK:
            if self.cipher.flags & IN_PLACE and in_place != dst.octets():
                raise Wrong("in place it opens something else")
            return dst.octets()
        if any(dst.octets()) or self.cipher.flags & IN_PLACE and in_place not in (ct, bytes(len(ct))):
            raise Wrong("a wrong tag left something in the output")
        return None
