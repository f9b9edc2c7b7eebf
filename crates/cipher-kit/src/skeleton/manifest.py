#!/usr/bin/env python3
"""Write @NAME@.json: what about.json says, and the digests of library and vectors."""

import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def reference(name):
    """A file and its digest."""
    return {"file": name, "sha256": hashlib.sha256((HERE / name).read_bytes()).hexdigest()}


manifest = json.loads((HERE / "about.json").read_text())
manifest["library"] = reference("@NAME@.so")
manifest["vectors"] = reference("@NAME@.vectors.json")
(HERE / "@NAME@.json").write_text(json.dumps(manifest, indent=2) + "\n")
