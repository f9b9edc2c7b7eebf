#!/usr/bin/env python3
"""Check the audit lines that Ravelin sent to a collector (`[audit.remote]`): what is missing, changed or silent.

The file has one message a line, as it was received (rsyslog: template string="%rawmsg%\\n"). A message that came twice,
octet by octet the same, is no fault: the sender repeats what a broken connection left in doubt. The chain has no key;
compare the last number and hash with those of `ravelin status` on the sender (--last).
"""
import argparse
import hashlib
import re
from datetime import datetime

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("files", nargs="+", help="the collector's files, oldest first")
options.add_argument("--from-start", action="store_true", help="message 1 of each sender must be there")
options.add_argument("--last", nargs=2, metavar=("SEQ", "HASH"), help="this message must be there (HASH may be shortened)")
options.add_argument("--silence", type=float, metavar="SECONDS", help="report longer times without a message")
given = options.parse_args()
MESSAGE = re.compile(rb'<\d+>1 (\S+) (\S+) (\S+) \S+ \S+ \[ravelin@32473 seq="(\d+)" prev="([0-9a-f]{64})"\] ')
faults, chains, times = [], {}, {}
lines = (line for file in given.files for line in open(file, "rb"))
for at, line in enumerate(lines, 1):
    line = line.rstrip(b"\n")
    found = MESSAGE.match(line)
    if not found:
        faults.append(f"line {at}: not a message of Ravelin")
        continue
    time, sender, seq = found[1].decode(), found[2] + b" " + found[3], int(found[4])
    digest, prev, chain = hashlib.sha256(line).hexdigest(), found[5].decode(), chains.setdefault(sender, {})
    if seq in chain:
        if chain[seq] != digest:
            faults.append(f"line {at}: message {seq} differs from an earlier line with this number")
        continue
    if (chain or given.from_start) and seq - 1 not in chain and seq > 1:
        faults.append(f"line {at}: messages {max(chain, default=0) + 1} to {seq - 1} are missing")
    elif chain.get(seq - 1, "0" * 64 if seq == 1 else prev) != prev:
        faults.append(f"line {at}: message {seq - 1} was changed, or this one does not follow it")
    now = datetime.fromisoformat(time.replace("Z", "+00:00"))
    if given.silence is not None and sender in times and (now - times[sender]).total_seconds() > given.silence:
        faults.append(f"line {at}: silence from {times[sender]} to {now}")
    chain[seq], times[sender] = digest, now
if given.last and not any(chain.get(int(given.last[0]), "").startswith(given.last[1]) for chain in chains.values()):
    faults.append(f"message {given.last[0]} with the hash {given.last[1]} is missing")
for sender, chain in chains.items():
    print(f"{sender.decode()}: {len(chain)} messages, last {max(chain)} {chain[max(chain)]}")
print("\n".join(faults) if faults else "whole")
raise SystemExit(1 if faults or not chains else 0)
