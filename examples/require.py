#!/usr/bin/env python3
"""Ask for encryption on one's own socket, whatever the host's policy says (docs/socket-api.md).

    require.py serve PORT            echo lines to whoever connects under protection
    require.py connect HOST PORT     send one line, print it and the protection it had
    require.py defaults              what this host gives a program without policy
"""

import errno
import socket
import struct
import sys

SOL_RAVELIN = 0x52564C
REQUIRE, STATE, DEFAULTS = 1, 2, 3
AUTHENTICATION, ENCRYPTION = 1, 2
STATE_FIELDS = ("version application required demanded class level in_force generation proven").split()
DEFAULTS_FIELDS = ("version supported without_policy active generation tun enc zero").split()


def read(s, option, layout, names):
    return dict(zip(names, struct.unpack(layout, s.getsockopt(SOL_RAVELIN, option, struct.calcsize(layout)))))


def state(s):
    return read(s, STATE, "=8IQ", STATE_FIELDS)


def defaults(s):
    return read(s, DEFAULTS, "=8I", DEFAULTS_FIELDS)


def require(s, services):
    try:
        s.setsockopt(SOL_RAVELIN, REQUIRE, struct.pack("=I", services))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            sys.exit("Ravelin does not run here")
        raise


def serve(port):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    # What is accepted here inherits it, and a connection in clear is not even answered.
    require(listener, ENCRYPTION)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        for line in connection.makefile("rb"):
            connection.sendall(line)
        connection.close()


def connect(host, port):
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    s = socket.socket(family, kind, protocol)
    s.settimeout(8)
    # Before the first packet, so that it is protected as well.
    require(s, ENCRYPTION)
    s.connect(address)
    s.sendall(b"hello\n")
    print(s.makefile().readline().strip(), state(s))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", port]:
            serve(int(port))
        case ["connect", host, port]:
            connect(host, int(port))
        case ["defaults"]:
            print(defaults(socket.socket()))
        case _:
            sys.exit(__doc__)
