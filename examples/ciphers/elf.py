#!/usr/bin/env python3
"""Check by readelf what Ravelin asks of a library's file: elf.py FILE... The exit status is 1 if one breaks a rule.

No text relocations, no search path, no executable stack, nothing needed but libc, libm, libgcc_s and the loader, no
memory that stays writable, no constructor, and one exported symbol.
"""

import re
import subprocess
import sys

OUTSIDE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SYMBOL = "ravelin_cipher_v1"
# Sections that the dynamic loader writes and then makes read-only (PT_GNU_RELRO with -z now).
READ_ONLY_LATER = {".data.rel.ro", ".dynamic", ".got", ".got.plt", ".relro_padding"}


def readelf(*arguments):
    """What readelf prints, in English."""
    command = ["env", "LC_ALL=C", "readelf", "-W", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def broken(path):
    """The rules that this file breaks."""
    dynamic, segments, sections = readelf("-d", path), readelf("-l", path), readelf("-S", path)
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if name not in OUTSIDE:
            yield f"it needs {name}"
    for tag in ("TEXTREL", "RPATH", "RUNPATH", "INIT", "INIT_ARRAY", "FINI", "FINI_ARRAY"):
        if re.search(rf"\({tag}\)", dynamic) or tag == "TEXTREL" and re.search(r"\(FLAGS\).*TEXTREL", dynamic):
            yield f"it has {tag}"
    if not re.search(r"\(FLAGS(_1)?\).*\b(BIND_NOW|NOW)\b", dynamic):
        yield "it is not bound at once (-z now)"
    stack = re.search(r"GNU_STACK\s+(?:0x\S+\s+){5}(\S+)", segments)
    if not stack or "E" in stack.group(1):
        yield "its stack is executable"
    if "GNU_RELRO" not in segments:
        yield "it has no RELRO segment"
    for name, size, flags in re.findall(r"\] (\S+)\s+\S+\s+\S+ \S+ (\S+) \S+ +([WAXMSILGTEop]+) ", sections):
        if "W" in flags and name not in READ_ONLY_LATER and int(size, 16) > 0:
            yield f"{name} has {int(size, 16)} octets that stay writable"
    exported = re.findall(r" (?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)", readelf("--dyn-syms", path))
    if exported != [SYMBOL]:
        yield f"it exports {exported}"


def main():
    """Check all files."""
    failed = False
    for path in sys.argv[1:]:
        rules = list(broken(path))
        failed |= bool(rules)
        verdict, name = "FAIL" if rules else "ok  ", path.rsplit("/", 1)[-1]
        print(f"{verdict}  {name}: {'; '.join(rules) or 'the file keeps the rules'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
