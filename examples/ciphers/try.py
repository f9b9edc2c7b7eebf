#!/usr/bin/env python3
"""Run every vector of a cipher through its library, in each way that the library offers.

Usage: try.py [--library FILE] MANIFEST... The library and the vectors lie beside the manifest, and their digests are
compared with it; `--library` tries another build of the same cipher. One line for each library; the exit status is 1
if one of them failed. The library runs in this process: try none that is not trusted.
"""

import argparse
import hashlib
import json
import pathlib
import sys

import host
import primitives as p
from host import Key, Wrong

# A value applied to itself many times, where its definition names one: key, block, times, result (docs/maes.md).
ITERATED = {
    "maes512c": (
        bytes(range(64)),
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        1000,
        bytes.fromhex("676265a50eba2bce0ceb97a134adf4de"),
    )
}


def same(got, want, what):
    """Stop if these differ. Octets of keys and messages are not printed."""
    if got != want:
        raise Wrong(f"{what} differs")


def block(key, test, _):
    """All blocks in one call, each in a call of its own, and none, both ways."""
    msg, ct, size = test["msg"], test["ct"], key.cipher.block_len
    same(key.encrypt(msg), ct, "encrypt_blocks")
    same(key.decrypt(ct), msg, "decrypt_blocks")
    single = b"".join(key.encrypt(msg[at : at + size]) for at in range(0, len(msg), size))
    same(single, ct, "encrypt_blocks, block by block")
    same(key.encrypt(b"") + key.decrypt(b""), b"", "what is made of no block")


def host_blocks(key):
    """The library's blocks for the modes of primitives.py."""
    return lambda _, data: key.encrypt(data)


def parts(msg, unit):
    """Lengths of the packets of a batch: the message, parts of it, nothing; the longest is not the first."""
    units = len(msg) // unit
    return [unit * count for count in (units // 2, 0, units, 1, units, *[units * 2 // 3] * 4, 0, units)]


def ctr(key, test, used):
    """Counter mode by the host, and by the library where it has one."""
    msg, ct, counter, cipher = test["msg"], test["ct"], test["iv"], key.cipher
    same(p.ctr(host_blocks(key), b"", counter, msg), ct, "CTR of encrypt_blocks")
    if cipher.ctr_xor:
        used.add("ctr_xor")
        same(key.ctr(counter, msg), ct, "ctr_xor")
        same(key.ctr(counter, ct), msg, "ctr_xor of ciphertext")
    if cipher.ctr_xor_batch:
        used.add("ctr_xor_batch")
        lengths = parts(msg, 1)
        got = key.batch(host.Ctr, cipher.ctr_xor_batch, [(counter, msg[:length]) for length in lengths])
        same(got, [ct[:length] for length in lengths], "ctr_xor_batch")


def cbc(key, test, used):
    """CBC by the host, and by the library where it has one."""
    msg, ct, iv, cipher = test["msg"], test["ct"], test["iv"], key.cipher
    same(p.cbc(host_blocks(key), b"", iv, msg), ct, "CBC of encrypt_blocks")
    same(p.xor(key.decrypt(ct), iv + ct), msg, "CBC of decrypt_blocks")
    if cipher.cbc_encrypt_batch:
        used.add("cbc_encrypt_batch")
        lengths = parts(msg, cipher.block_len)
        got = key.batch(host.Cbc, cipher.cbc_encrypt_batch, [(iv, msg[:length]) for length in lengths])
        same(got, [ct[:length] for length in lengths], "cbc_encrypt_batch")


def gcm(key, test, _):
    """GCM by the host. A changed test must not give the tag."""
    ct, tag = p.gcm(host_blocks(key), b"", test["iv"], test["aad"], test["msg"])
    if test["result"] == "valid":
        same((ct, tag), (test["ct"], test["tag"]), "GCM of encrypt_blocks")
    elif (ct, tag) == (test["ct"], test["tag"]):
        raise Wrong("an invalid test is sealed as it stands")


def stream(key, test, _):
    """The key stream from the offset on, in one piece and in two."""
    msg, ct, nonce, offset = test["msg"], test["ct"], test["iv"], test.get("offset", 0)
    same(key.xor_at(nonce, offset, msg), ct, "xor_at")
    cut = len(msg) // 3
    pieces = key.xor_at(nonce, offset, msg[:cut]) + key.xor_at(nonce, offset + cut, msg[cut:])
    same(pieces, ct, "xor_at in two pieces")


def aead(key, test, used):
    """Seal and open. An invalid test must not open."""
    nonce, aad, msg, ct, tag = (test[name] for name in ("iv", "aad", "msg", "ct", "tag"))
    if test["result"] == "invalid":
        same(key.open(nonce, aad, ct, tag), None, "the answer to a forged packet")
        return
    same(key.seal(nonce, aad, msg), (ct, tag), "seal")
    same(key.open(nonce, aad, ct, tag), msg, "open")


MODES = {"block": block, "ctr": ctr, "cbc": cbc, "gcm": gcm, "stream": stream, "aead": aead}
OCTETS = ("key", "iv", "aad", "msg", "ct", "tag")


def run(cipher, test, used):
    """One test. An invalid one of a mode without a tag has a key that setkey must refuse."""
    test = {name: bytes.fromhex(value) if name in OCTETS else value for name, value in test.items()}
    key = Key(cipher, test["key"])
    if test["result"] == "invalid" and test["mode"] not in ("gcm", "aead"):
        same(key.result, host.WEAK_KEY, "the answer to a weak key")
        return
    same(key.result, host.OK, "the answer of setkey")
    MODES[test["mode"]](key, test, used)


def lengths(cipher):
    """Keys of other lengths are refused."""
    for length in (0, cipher.key_len - 1, cipher.key_len + 1):
        same(Key(cipher, bytes(range(length))).result, host.BAD_LENGTH, f"the answer to a key of {length} octets")


def iterated(cipher):
    """The cipher applied to its own output."""
    key, value, times, result = ITERATED[cipher.name.decode()]
    key = Key(cipher, key)
    for _ in range(times):
        value = key.encrypt(value)
    same(value, result, f"the result of {times} applications")


def described(cipher, manifest):
    """The description says what the manifest says."""
    says = {
        "name": cipher.name.decode(),
        "version": cipher.version.decode(),
        "vendor": cipher.vendor.decode(),
        "kind": host.KINDS.get(cipher.kind),
        "block": cipher.block_len,
        "key": cipher.key_len,
        "nonce": cipher.nonce_len,
        "tag": cipher.tag_len,
        "constant_time": bool(cipher.flags & host.CONSTANT_TIME),
        "max_octets": cipher.max_octets_per_key,
    }
    same((cipher.abi_major, cipher.abi_minor), (1, 0), "the version of the ABI")
    same(cipher.struct_size, host.ctypes.sizeof(host.Cipher), "struct_size")
    for name, value in says.items():
        same(value, manifest[name], f"`{name}` in the manifest")


def content(folder, entry):
    """The file that a manifest names, if it has the digest that the manifest names."""
    octets = (folder / entry["file"]).read_bytes()
    same(hashlib.sha256(octets).hexdigest(), entry["sha256"], f"the digest of {entry['file']}")
    return octets


def attempt(path, library):
    """Try one cipher and return what was done."""
    manifest = json.loads(path.read_text())
    content(path.parent, manifest["library"])
    vectors = json.loads(content(path.parent, manifest["vectors"]))
    same(vectors["cipher"], manifest["name"], "the name in the vector file")
    ciphers = host.load((library or path.parent / manifest["library"]["file"]).resolve())
    same(len(ciphers), 1, "the number of ciphers")
    described(ciphers[0], manifest)
    lengths(ciphers[0])
    used, counts = set(), {}
    for test in vectors["tests"]:
        try:
            run(ciphers[0], test, used)
        except Wrong as wrong:
            raise Wrong(f"test {test['tcId']} ({test['mode']}): {wrong}") from None
        counts[test["mode"]] = counts.get(test["mode"], 0) + 1
    same(sum(counts.values()) >= 100, True, "the number of tests")
    done = [f"{count} {mode}" for mode, count in counts.items()] + sorted(used)
    if manifest["name"] in ITERATED:
        iterated(ciphers[0])
        done.append("iterated")
    return ", ".join(done)


def main():
    """Try all, then say whether all passed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--library", type=pathlib.Path, help="another build of the same cipher")
    arguments.add_argument("manifest", type=pathlib.Path, nargs="+")
    options = arguments.parse_args()
    failed = False
    for path in options.manifest:
        name = (options.library or path).name
        try:
            print(f"ok    {name}: {attempt(path, options.library)}")
        except (Wrong, OSError, KeyError, ValueError, AttributeError) as error:
            failed = True
            print(f"FAIL  {name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
