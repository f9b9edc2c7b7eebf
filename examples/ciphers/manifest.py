#!/usr/bin/env python3
"""Write NAME.json beside a built library and its vectors: manifest.py FOLDER NAME...

Name, kind and lengths are those of the library's own description; what a library cannot know is in the table.
"""

import hashlib
import json
import pathlib
import sys

import host

# The first of four private-use transform ids (RFC 7296 section 3.3.2): CTR, CBC, GCM and cascade.
TRANSFORM_IDS = {
    "aes256c": 61696,
    "maes512c": 61700,
    "chacha20cpp": 61704,
    "chachapolyrs": 61708,
    "kuznyechik": 61712,
    "sm4rs": 61716,
    "aria256rs": 61720,
    "camellia256rs": 61724,
}


def reference(path):
    """A file and its digest."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def manifest(folder, name):
    """The manifest of the library NAME.so."""
    library = folder / f"{name}.so"
    (cipher,) = host.load(library.resolve())
    if cipher.name.decode() != name:
        sys.exit(f"{library}: the cipher is called {cipher.name.decode()}")
    return {
        "name": name,
        "version": cipher.version.decode(),
        "vendor": cipher.vendor.decode(),
        "kind": host.KINDS[cipher.kind],
        "block": cipher.block_len,
        "key": cipher.key_len,
        "nonce": cipher.nonce_len,
        "tag": cipher.tag_len,
        "constant_time": bool(cipher.flags & host.CONSTANT_TIME),
        "max_octets": cipher.max_octets_per_key,
        "transform_id": TRANSFORM_IDS[name],
        "library": reference(library),
        "vectors": reference(folder / f"{name}.vectors.json"),
        "source": f"examples/ciphers/{name} of Ravelin's source",
        "licence": "MIT OR Apache-2.0",
    }


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    for cipher_name in sys.argv[2:]:
        text = json.dumps(manifest(out, cipher_name), indent=2)
        (out / f"{cipher_name}.json").write_text(text + "\n")
