#!/usr/bin/env python3
"""A small key manager for two hosts: it shows how a program answers Ravelin's acquires over the control API.

    keymanager.py --control /run/ravelin/main/control.sock --psk-file [PEER=]FILE [--listen ADDRESS] [--port 4599]

It runs on both hosts with the same secret file; with PEER=FILE (repeatable) that secret is for the peer of that address
alone, and a peer without a secret is refused. When a flow lacks an association, the daemon holds its first packets
and sends an "acquire"; this program agrees with its peer on SPIs and fresh nonces, derives one key for each
direction from secret and nonces, and adds an association for each direction on both hosts. It asks again when an
association announces its end, and deletes nothing: what is behind its hard limit the daemon deletes itself.

No key travels, and messages are authenticated with the secret; but there is no forward secrecy, so this is an example
and not a replacement for IKE. Of a cipher of one's own (--suite maes512ctr-sha256) both ends compare the number of its
transform, the lengths and the fingerprint of what the cipher computes, and refuse a peer whose cipher differs. This
program's own connection is not protected: the policy must not name it.
"""

import argparse
import hashlib
import hmac
import http.client
import json
import os
import socket
import sys
import threading
import time

KEYMAT_OCTETS = {"aes128gcm": 20, "aes256gcm": 36, "chacha20poly1305": 36}


class Control(http.client.HTTPConnection):
    """HTTP over the daemon's Unix socket."""

    def __init__(self, path):
        super().__init__("ravelin")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def call(path, method, at, body=None):
    """One request; its document, or an exception with the daemon's own words."""
    control = Control(path)
    control.request(method, at, json.dumps(body) if body is not None else None)
    answer = json.loads(control.getresponse().read())
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer


def derive(psk, label, octets):
    """HKDF-Expand with SHA-256 (RFC 5869)."""
    out, block, counter = b"", b"", 1
    while len(out) < octets:
        block = hmac.new(psk, block + label + bytes([counter]), hashlib.sha256).digest()
        out, counter = out + block, counter + 1
    return out[:octets]


def agreement(path, suite):
    """What both ends must have alike: of a cipher of one's own all that the daemon says of it, else the name alone."""
    if suite in KEYMAT_OCTETS:
        return {"suite": suite, "keymat_octets": KEYMAT_OCTETS[suite]}
    for unit in call(path, "GET", "/v1/status")["crypto"]:
        custom = unit.get("custom")
        if unit["suite"] == suite and custom and "fingerprint" in custom:
            # A private number means nothing without whose it is (RFC 7296 section 3.12): the fingerprint says that.
            agreed = {key: custom.get(key) for key in ("transform_id", "key_bits", "integrity", "keymat_octets")}
            return {"suite": suite, "fingerprint": custom["fingerprint"], **agreed}
    raise ValueError(f"the daemon has no suite {suite}; `ravelin status --units` lists them")


class Keys:
    def __init__(self, options):
        self.options = options
        self.agreed = agreement(options.control, options.suite)
        self.secrets = {}
        for argument in options.psk_file:
            peer, _, path = argument.rpartition("=")
            with open(path, "rb") as file:
                self.secrets[peer] = hashlib.sha256(file.read()).digest()
        self.busy = set()
        self.lock = threading.Lock()

    def psk(self, peer):
        """The secret that this host shares with the peer: its own, or the one for all."""
        secret = self.secrets.get(peer, self.secrets.get(""))
        if secret is None:
            raise ValueError("no secret is for this peer")
        return secret

    def seal(self, peer, message):
        text = json.dumps(message, sort_keys=True)
        mac = hmac.new(self.psk(peer), text.encode(), hashlib.sha256).hexdigest()
        return json.dumps({"text": text, "mac": mac})

    def open(self, peer, line):
        if not line:
            raise ValueError("the peer says nothing: it may have another secret")
        sealed = json.loads(line)
        mac = hmac.new(self.psk(peer), sealed["text"].encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(mac, sealed["mac"]):
            raise ValueError("a message under another secret")
        return json.loads(sealed["text"])

    def add(self, direction, spi, local, remote, key):
        call(self.options.control, "POST", "/v1/sa", {
            "direction": direction, "spi": spi, "local": local, "remote": remote, "mode": "transport",
            "suite": self.options.suite, "keymat": key.hex(),
            "lifetime": {"soft": {"seconds": self.options.soft}, "hard": {"seconds": self.options.hard}, "jitter": 10},
        })

    def install(self, local, remote, own_spi, peer_spi, offer_nonce, answer_nonce, offered_by_us):
        """Both directions, inbound first: the peer may send as soon as it has heard of us."""
        octets = self.agreed["keymat_octets"]
        nonces = bytes.fromhex(offer_nonce) + bytes.fromhex(answer_nonce)
        forward = derive(self.psk(remote), b"to the answerer" + nonces, octets)
        backward = derive(self.psk(remote), b"to the offerer" + nonces, octets)
        inbound, outbound = (backward, forward) if offered_by_us else (forward, backward)
        self.add("in", own_spi, local, remote, inbound)
        self.add("out", peer_spi, local, remote, outbound)

    def offer(self, local, remote):
        """Agree with the peer. A pair of hosts is worked on once at a time."""
        with self.lock:
            if (local, remote) in self.busy:
                return
            self.busy.add((local, remote))
        try:
            spi = call(self.options.control, "POST", "/v1/spi")["spi"]
            nonce = os.urandom(32).hex()
            with socket.create_connection((remote, self.options.port), 5, (local, 0)) as peer:
                message = {"kind": "offer", "from": local, "to": remote, "spi": spi, "nonce": nonce}
                message["agreed"] = self.agreed
                peer.sendall(self.seal(remote, message).encode() + b"\n")
                answer = self.open(remote, peer.makefile("rb").readline(65536))
            if answer.get("kind") == "refusal":
                raise ValueError(f"the peer refuses: {answer.get('why')}")
            if answer.get("kind") != "answer" or answer.get("offer") != nonce:
                raise ValueError("an answer to something else")
            self.install(local, remote, spi, answer["spi"], nonce, answer["nonce"], True)
            print(f"associations {local} <-> {remote}: in {spi}, out {answer['spi']}", flush=True)
        finally:
            with self.lock:
                self.busy.discard((local, remote))

    def answer(self, connection, address):
        """The other end of `offer`."""
        with connection:
            connection.settimeout(5)
            offer = self.open(address[0], connection.makefile("rb").readline(65536))
            ends = (offer.get("from"), offer.get("to"))
            if offer.get("kind") != "offer" or ends != (address[0], connection.getsockname()[0]):
                raise ValueError("an offer in somebody else's name")
            if offer.get("agreed") != self.agreed:
                why = f"one end has {offer.get('agreed')}, the other {self.agreed}"
                connection.sendall(self.seal(address[0], {"kind": "refusal", "why": why}).encode() + b"\n")
                raise ValueError(why)
            spi = call(self.options.control, "POST", "/v1/spi")["spi"]
            nonce = os.urandom(32).hex()
            self.install(offer["to"], offer["from"], spi, offer["spi"], offer["nonce"], nonce, False)
            message = {"kind": "answer", "offer": offer["nonce"], "spi": spi, "nonce": nonce}
            connection.sendall(self.seal(address[0], message).encode() + b"\n")


def in_background(work, *arguments):
    def run():
        try:
            work(*arguments)
        except Exception as error:  # one exchange that fails must not end the others
            print(f"keymanager: {error}", file=sys.stderr, flush=True)
    threading.Thread(target=run, daemon=True).start()


def listen(keys, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.create_server((address, port), family=family)
    while True:
        in_background(keys.answer, *server.accept())


def acquire(keys, event):
    for attempt in range(3):
        try:
            return keys.offer(event["local"], event["remote"])
        except (OSError, ValueError, RuntimeError) as error:
            print(f"keymanager: {event['remote']}: {error}", file=sys.stderr, flush=True)
            time.sleep(0.5 * (attempt + 1))
    # Nobody there, or not one of ours: what waits need not wait longer.
    call(keys.options.control, "DELETE", f"/v1/acquire/{event['id']}")


def events(path):
    """What the daemon tells. A daemon that takes over, or starts again, is listened to as the one before it was."""
    lost = None
    while True:
        control = Control(path)
        try:
            control.request("GET", "/v1/events?acquire=true")
            answer = control.getresponse()
            if answer.status != 200:
                raise OSError(answer.read().decode())
            lost = "the daemon ended the stream"
            yield from map(json.loads, answer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if lost is None:
                sys.exit(f"keymanager: {path}: {error}; is the daemon running? --control names its socket")
        finally:
            control.close()
        if lost:
            print(f"keymanager: {lost}; trying again until one answers", file=sys.stderr, flush=True)
            lost = ""
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--control", default="/run/ravelin/main/control.sock", help="the daemon's control socket")
    parser.add_argument("--psk-file", required=True, action="append", metavar="[PEER=]FILE",
                        help="the secret that both hosts share, or that this host shares with PEER (repeatable)")
    parser.add_argument("--listen", action="append", default=[], help="own address to answer on (repeatable)")
    parser.add_argument("--port", type=int, default=4599)
    parser.add_argument("--suite", default="aes128gcm",
                        help=f"{', '.join(KEYMAT_OCTETS)}, or one of a cipher of one's own")
    parser.add_argument("--soft", type=int, help="seconds until a successor is asked for (default: 5/6 of --hard)")
    parser.add_argument("--hard", type=int, default=3600, help="seconds until an association ends")
    options = parser.parse_args()
    if options.soft is None:
        options.soft = options.hard * 5 // 6
    if options.soft > options.hard:
        parser.error("--soft is behind --hard: nobody would ask for a successor")
    try:
        keys = Keys(options)
    except OSError as error:
        sys.exit(f"keymanager: {error.filename}: {error.strerror}")
    except (RuntimeError, ValueError) as error:
        sys.exit(f"keymanager: {error}")
    for address in options.listen:
        in_background(listen, keys, address, options.port)
    local_of = {}
    for event in events(options.control):
        if event["event"] == "ready":
            print("ready", flush=True)
        elif event["event"] == "acquire":
            local_of[event["remote"]] = event["local"]
            in_background(acquire, keys, event)
        elif event["event"] == "expire" and event["state"] == "dying" and event["direction"] == "out":
            # The host that asked first asks again; the other one has never seen an acquire for this peer.
            if event["remote"] in local_of:
                in_background(keys.offer, local_of[event["remote"]], event["remote"])
        elif event["event"] == "lost":
            print(f"keymanager: {event['count']} events were lost", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
