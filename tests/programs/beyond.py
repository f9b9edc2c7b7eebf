# Traffic that is not between two hosts: `beyond.py OWN4 OWN6 DEVICE`. One line for each kind: `NAME CALL HEARD`, what the call answered, and
# whether the program's own receiver got it.
import errno, socket, struct, sys
own4, own6, device = sys.argv[1], sys.argv[2], socket.if_nametoindex(sys.argv[3])

def receiver(family, port, group=None):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    if group and family == socket.AF_INET:
        s.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own4))
    elif group:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(family, group) + struct.pack("=I", device))
    return s

def datagram(name, to, port, group=False):
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    r = receiver(family, port, to if group else None)
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    if family == socket.AF_INET:
        s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton(own4))
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, device)
    try:
        s.sendto(name.encode(), (to, port))
        call = "ok"
    except OSError as error:
        call = errno.errorcode[error.errno]
    r.setblocking(False)
    # What comes over lo or is looped back is there when the call returns.
    try:
        heard = "heard" if r.recv(100) == name.encode() else "another"
    except BlockingIOError:
        heard = "silent"
    print(name, call, heard, flush=True)

def connection(name, to):
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    listener = socket.create_server((to, 0), family=family)
    s = socket.socket(family)
    s.settimeout(3)
    try:
        s.connect(listener.getsockname()[:2])
        c, _ = listener.accept()
        s.sendall(b"over lo")
        print(name, "ok", "heard" if c.recv(100) == b"over lo" else "silent", flush=True)
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, "TIMEOUT"), "silent", flush=True)

def raw(name, family, protocol, packet, to):
    s = socket.socket(family, socket.SOCK_RAW, protocol)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, device)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    else:
        s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton(own4))
    try:
        s.sendto(packet, (to, 0))
        print(name, "ok", "-", flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], "-", flush=True)

datagram("loopback4", "127.0.0.1", 7301)
datagram("loopback6", "::1", 7302)
datagram("own4", own4, 7303)
datagram("own6", own6, 7304)
connection("tcp-loopback4", "127.0.0.1")
connection("tcp-loopback6", "::1")
connection("tcp-own4", own4)
datagram("multicast4", "239.1.2.3", 7305, True)
datagram("multicast6", "ff15::1:2:3", 7306, True)
datagram("link-multicast4", "224.0.0.251", 7307, True)
datagram("link-multicast6", "ff02::fb", 7308, True)
datagram("broadcast", "255.255.255.255", 7309)
datagram("subnet-broadcast", "198.51.100.255", 7310)
raw("own-igmp", socket.AF_INET, 2, struct.pack("!BBH4s", 0x16, 0, 0xE9FF, b"\xef\x01\x02\x03"), "239.1.2.3")
solicitation = struct.pack("!BBHI16s", 135, 0, 0, 0, socket.inet_pton(socket.AF_INET6, "2001:db8:51::2"))
raw("own-solicitation", socket.AF_INET6, socket.IPPROTO_ICMPV6, solicitation, "ff02::1:ff00:2")
print("done")
