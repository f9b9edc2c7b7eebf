//! Gateway mode: hosts with nothing installed, behind two gateways, talk over somebody else's router; some flows protected, others
//! clear, as the rules say.

use lab::{Capture, CaptureOptions, Evidence, Program, Side, Transport};
use tests::sites::{Sites, WORLD, host, network, python, serve, sh};
use tests::{PATIENCE, counted, program, programs, wait_until};

/// Ports of servers whose traffic between the sites is protected.
const WEB: u16 = 80;
const ECHO: u16 = 7000;
/// Ports of servers whose traffic between the sites is clear.
const OPEN_WEB: u16 = 8080;
const OPEN_ECHO: u16 = 7001;

/// TCP port 80 and UDP port 7000 of the other site or of ours, and every ICMP between the sites, are protected; the rest is clear.
fn rules(side: Side) -> String {
    let peer = if side == Side::Alice { Side::Bob } else { Side::Alice };
    let mut out = String::new();
    for v6 in [false, true] {
        let (local, remote) = (network(side, v6), network(peer, v6));
        let icmp = if v6 { "icmpv6" } else { "icmp" };
        let selectors = [
            format!("proto tcp remote-port {WEB}"),
            format!("proto tcp local-port {WEB}"),
            format!("proto udp remote-port {ECHO}"),
            format!("proto udp local-port {ECHO}"),
            format!("proto {icmp}"),
        ]
        .map(|upper| format!("\"local {local} remote {remote} {upper}\""))
        .join(",");
        out += &format!(
            "{{\"rule\":{{\"direction\":\"both\",\"selectors\":[{selectors}],\"action\":\"protect\"}}}}\n"
        );
    }
    out + "{\"rule\":{\"direction\":\"both\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n"
}

fn is_protected(port: u16) -> bool {
    port == WEB || port == ECHO
}

/// Clear packets of flows that the rules protect.
fn leaks(wire: &Evidence) -> Vec<String> {
    assert!(wire.is_complete());
    let seen = wire.clear_packets(|flow| {
        let sites = ["10.1.", "10.2.", "fd01:", "fd02:"];
        let inside = |addr: std::net::IpAddr| sites.iter().any(|site| addr.to_string().starts_with(site));
        let icmp = matches!(flow.protocol, 1 | 58);
        inside(flow.local)
            && inside(flow.remote)
            && (is_protected(flow.local_port) || is_protected(flow.remote_port) || icmp)
    });
    seen.iter().map(ToString::to_string).collect()
}

fn download(sites: &Sites, port: u16) {
    let (_server, line) =
        serve(sites.host(Side::Bob), programs::BULK_SERVER, &[&port.to_string(), "12000000"]).unwrap();
    for v6 in [false, true] {
        let args = [host(Side::Bob, v6), &port.to_string()];
        let got = python(sites.host(Side::Alice), programs::BULK_CLIENT, &args, PATIENCE * 2)
            .unwrap_or_else(|error| panic!("port {port}, IPv6 {v6}: {error:#}"));
        assert_eq!(got.trim(), format!("{line} 12000000"), "port {port}, IPv6 {v6}");
    }
}

/// Sends datagrams of many sizes (address, port) and prints the hop counts that arrived, and how many came back.
const DATAGRAMS: &str = r#"
import os, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
good, missing = 0, []
sizes = (1, 100, 1200, 1400, 1460, 1472, 2000, 4000, 8000)
for size in sizes:
    data = os.urandom(size)
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    for attempt in range(5):
        last = "silence"
        try:
            s.sendto(data, (sys.argv[1], int(sys.argv[2])))
            if s.recv(65535) == data:
                good += 1
                break
        except OSError as error:
            last = str(error)
    else:
        missing.append((size, last))
    s.close()
print("echoed", good, "of", len(sizes), *missing)
"#;

/// Answers with the TTL or hop limit that a datagram came with.
const HOPS_SERVER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTTL if hasattr(socket, "IP_RECVTTL") else 12, 1)
s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, extra, flags, peer = s.recvmsg(65535, 200)
    hops = [int.from_bytes(d[:4], sys.byteorder) for l, t, d in extra]
    s.sendto(str(hops[-1]).encode(), peer)
"#;

const HOPS_CLIENT: &str = r#"
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(2)
for attempt in range(3):
    s.sendto(b"hops", (sys.argv[1], int(sys.argv[2])))
    try:
        print(s.recv(100).decode())
        break
    except OSError:
        pass
"#;

/// Sends what must not be fragmented until the kernel knows better, for five seconds at most; prints the path MTU that it has.
const PATH_MTU: &str = r#"
import socket, sys, time
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
level, discover, mtu = (41, 23, 24) if v6 else (0, 10, 14)
s.setsockopt(level, discover, 2)
s.connect((sys.argv[1], int(sys.argv[2])))
size = int(sys.argv[3]) - (48 if v6 else 28)
limit = time.monotonic() + 5
while time.monotonic() < limit:
    try:
        s.send(bytes(size))
    except OSError:
        break
    time.sleep(0.02)
print(s.getsockopt(level, mtu))
"#;

/// No probes of the path (docs/design/0029): what is ESP on the wire is the traffic's.
const UNPROBED: &str = "[icmp]\nprobe = false";

#[test]
fn two_sites_talk_as_the_rules_say() {
    let sites = Sites::build("rvl-gw", 1500, rules, UNPROBED).unwrap();
    let (alice, bob) = (sites.host(Side::Alice), sites.host(Side::Bob));
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();

    // Protected, and super-packets come and go whole.
    download(&sites, WEB);
    let wire = capture.evidence().unwrap();
    assert_eq!((leaks(&wire), wire.clear), (vec![], 0), "{:?}", wire.all_clear());
    // Many of them are super-packets, which the wire carries whole.
    assert!(wire.esp > 200, "{}", wire.esp);

    // Clear between the sites: the engine decided, since other flows of the same peers are protected.
    capture.clear().unwrap();
    download(&sites, OPEN_WEB);
    let wire = capture.evidence().unwrap();
    assert!(wire.clear > 200 && wire.esp == 0, "{} {}", wire.clear, wire.esp);
    capture.clear().unwrap();

    // Datagrams in fragments and whole, protected and clear.
    for port in [ECHO, OPEN_ECHO] {
        let (_server, _) = serve(bob, programs::UDP_ECHO, &[&port.to_string()]).unwrap();
        for v6 in [false, true] {
            let got =
                python(alice, DATAGRAMS, &[host(Side::Bob, v6), &port.to_string()], PATIENCE * 2).unwrap();
            assert!(got.contains("echoed 9 of 9"), "port {port}, IPv6 {v6}: {got}");
        }
    }

    // A protected packet passes two routers, a clear one three.
    for (port, left) in [(ECHO, "62"), (OPEN_ECHO, "61")] {
        let (_server, _) = serve(bob, HOPS_SERVER, &[&port.to_string()]).unwrap();
        for v6 in [false, true] {
            let got =
                python(alice, HOPS_CLIENT, &[host(Side::Bob, v6), &port.to_string()], PATIENCE).unwrap();
            assert_eq!(got.trim(), left, "port {port}, IPv6 {v6}");
        }
    }

    // Ping, and the first router on the way.
    for v6 in [false, true] {
        let to = host(Side::Bob, v6);
        let got = sh(alice, &format!("ping -c 3 -i 0.2 -W 2 -s 4000 {to}")).unwrap();
        assert!(got.contains("3 received"), "{got}");
        let got = sh(alice, &format!("ping -c 1 -t 1 -W 2 {to} || true")).unwrap();
        let gateway = if v6 { "fd01::1" } else { "10.1.0.1" };
        assert!(got.contains(gateway) && got.contains("exceeded"), "{got}");
    }

    // Who may not fragment learns what fits.
    for v6 in [false, true] {
        let args = [host(Side::Bob, v6), &ECHO.to_string(), "1500"];
        let mtu: u32 = python(alice, PATH_MTU, &args, PATIENCE).unwrap().trim().parse().unwrap();
        assert!((1300..1480).contains(&mtu), "IPv6 {v6}: {mtu}");
    }
    let wire = capture.evidence().unwrap();
    assert_eq!(leaks(&wire), Vec::<String>::new());

    // To the world the kernel forwards by itself: the engine sees nothing.
    let seen =
        |sites: &Sites| sites.rig.json(Side::Alice, &["status"]).unwrap()["outbound"]["clear"].as_u64();
    let before = seen(&sites);
    for world in WORLD {
        let got = sh(alice, &format!("ping -c 2 -i 0.2 -W 2 {world}")).unwrap();
        assert!(got.contains("2 received"), "{got}");
    }
    assert_eq!(seen(&sites), before);
}

/// Sends datagrams with one hop more each time to an echo server (address, port) and prints who said "time exceeded", hop by hop,
/// then the server's address when it answers.
const TRACE: &str = r#"
import select, socket, sys
v6 = ":" in sys.argv[1]
family = socket.AF_INET6 if v6 else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
level, hops, errors, exceeded = (41, 16, 25, 3) if v6 else (0, 2, 11, 11)
s.setsockopt(level, errors, 1)
poll = select.poll()
poll.register(s, select.POLLIN)
def answer():
    for attempt in range(5):
        s.sendto(b"trace", (sys.argv[1], int(sys.argv[2])))
        for _, event in poll.poll(1500):
            if not event & select.POLLERR:
                return s.recvfrom(100)[1][0]
            # struct sock_extended_err, and behind it the address of who sent the error.
            _, (control, *_), _, _ = s.recvmsg(100, 200, socket.MSG_ERRQUEUE)
            kind, code, address = control[2][5], control[2][6], control[2][24:40] if v6 else control[2][20:24]
            name = socket.inet_ntop(family, address)
            return name if (kind, code) == (exceeded, 0) else "%s says %d/%d" % (name, kind, code)
    return "*"
for left in range(1, 7):
    s.setsockopt(level, hops, left)
    hop = answer()
    print(hop, end=" ")
    if hop == sys.argv[1]:
        break
"#;

/// Each hop of a protected flow answers that is one: the gateways, and no router between them; their errors are as protected as what
/// they are about (RFC 4301 section 6.2).
#[test]
fn a_way_through_both_gateways_can_be_traced() {
    let sites = Sites::build("rvl-gwtrace", 1500, rules, UNPROBED).unwrap();
    let (alice, bob) = (sites.host(Side::Alice), sites.host(Side::Bob));
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    for v6 in [false, true] {
        // The kernel answers with an address of the interface that the packet came by. The TUN has none: there it is the one that
        // fits the way back, of IPv6 that of the site (RFC 6724 section 5, rule 6).
        let [near, router, outside, far] = if v6 {
            ["fd01::1", "2001:db8:51::fe", "2001:db8:51::2", "fd02::1"]
        } else {
            ["10.1.0.1", "198.51.100.254", "198.51.100.2", "198.51.100.2"]
        };
        let end = host(Side::Bob, v6);
        for (port, way) in [(ECHO, vec![near, far, end]), (OPEN_ECHO, vec![near, router, outside, end])] {
            let (_server, _) = serve(bob, programs::UDP_ECHO, &[&port.to_string()]).unwrap();
            capture.clear().unwrap();
            let got = python(alice, TRACE, &[end, &port.to_string()], PATIENCE * 2).unwrap();
            let wire = capture.evidence().unwrap();
            let state = || sites.rig.ravelin(Side::Bob, &["counters"], "").unwrap();
            assert_eq!(got.split_whitespace().collect::<Vec<_>>(), way, "port {port}: {}", state());
            assert_eq!(wire.clear == 0, is_protected(port), "{:?}", wire.all_clear());
            assert_eq!(wire.esp > 0, is_protected(port), "{}", wire.esp);
        }
        // What is no socket's own: echo requests, which the rules protect as well.
        capture.clear().unwrap();
        let got = sh(alice, &format!("ping -n -c 1 -t 2 -W 3 {end} || true")).unwrap();
        assert!(got.contains(&format!("From {far}")) && got.contains("exceeded"), "{got}");
        let wire = capture.evidence().unwrap();
        assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    }
}

/// Sends one spoofed UDP datagram (source, destination, source port, destination port), or, with a fifth argument, an ICMP
/// "fragmentation needed" from the router about a datagram that the destination would have sent, with that MTU.
const FORGE: &str = r#"
import socket, struct, sys
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def ip(src, dst, protocol, payload):
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0,
                       socket.inet_aton(src), socket.inet_aton(dst)) + payload
src, dst, sport, dport = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if len(sys.argv) == 5:
    packet = ip(src, dst, 17, struct.pack("!HHHH", sport, dport, 14, 0) + b"forged")
else:
    quoted = ip(dst, src, 17, struct.pack("!HHHH", dport, sport, 1400, 0))
    body = struct.pack("!BBHHH", 3, 4, 0, 0, int(sys.argv[5])) + quoted
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    packet = ip("198.51.100.254", dst, 1, body)
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
s.sendto(packet, (dst, 0))
"#;

/// Hears datagrams on a port (first argument) until one comes from the source port in its second argument, which is the last
/// that was sent; prints the source ports of all.
const HEARD: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
s.settimeout(15)
heard = []
while not heard or heard[-1] != int(sys.argv[2]):
    data, peer = s.recvfrom(100)
    heard.append(peer[1])
print(*heard, flush=True)
"#;

/// Prints the path MTU towards (address, port), and another one as soon as the kernel learns it.
const LEARNED: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[3])))
s.setsockopt(0, 10, 2)
s.connect((sys.argv[1], int(sys.argv[2])))
before = s.getsockopt(0, 14)
print(before, flush=True)
limit = time.monotonic() + 15
while s.getsockopt(0, 14) == before and time.monotonic() < limit:
    time.sleep(0.02)
print(s.getsockopt(0, 14), flush=True)
"#;

/// The next line of a server's output.
fn rest(server: &mut tests::sites::Server) -> String {
    server.line().unwrap()
}

#[test]
fn what_comes_in_clear_for_a_protected_flow_ends() {
    let sites = Sites::build("rvl-gwin", 1500, rules, "").unwrap();
    let (alice, router) = (sites.host(Side::Alice), sites.rig.lab.wire());
    let (us, them) = (host(Side::Alice, false), host(Side::Bob, false));
    let forge = |args: &[&str]| python(router, FORGE, args, PATIENCE).map(drop).unwrap();

    // A datagram as if from the protected server, then one of a flow that is clear by the rules.
    let refused = || counted(&sites.rig, Side::Alice, "outbound", "clear_refused");
    let (mut server, _) = serve(alice, HEARD, &["9999", &OPEN_ECHO.to_string()]).unwrap();
    for port in [ECHO, OPEN_ECHO] {
        forge(&[them, us, &port.to_string(), "9999"]);
    }
    assert_eq!(rest(&mut server), OPEN_ECHO.to_string());
    wait_until("the first is counted", PATIENCE, || refused() == 1);

    // "Fragmentation needed" about a protected flow, then about a clear one: the kernel has one path MTU for both.
    let learned = |port: u16, from: &str| serve(alice, LEARNED, &[them, &port.to_string(), from]).unwrap();
    let (_protected, _) = learned(ECHO, "9998");
    forge(&[them, us, &ECHO.to_string(), "9998", "1000"]);
    wait_until("the error is refused", PATIENCE, || refused() == 2);
    let (mut clear, before) = learned(OPEN_ECHO, "9997");
    assert_eq!(before, "1500");
    forge(&[them, us, &OPEN_ECHO.to_string(), "9997", "1000"]);
    assert_eq!(rest(&mut clear), "1000");
    let counters = sites.rig.json(Side::Alice, &["counters"]).unwrap().to_string();
    assert!(counters.contains("gateway_arrived"), "{counters}");

    // The second lock inbound: a firewall gives what arrives for the gateway to a host behind it. From the protected server
    // it ends, from the world it does not.
    let publish = "nft add table ip u; nft add chain ip u pre '{ type nat hook prerouting priority -100; }'; \
                   nft add rule ip u pre ip daddr 198.51.100.1 udp dport 9999 dnat to 10.1.0.2";
    sh(sites.rig.lab.alice().netns(), publish).unwrap();
    let (mut server, _) = serve(alice, HEARD, &["9999", "5555"]).unwrap();
    for (from, port) in [(them, ECHO), (WORLD[0], 5555)] {
        forge(&[from, "198.51.100.1", &port.to_string(), "9999"]);
    }
    assert_eq!(rest(&mut server), "5555");
    // Fragments whose time is over.
    sh(alice, &format!("ping -c 1 -t 1 -W 1 -s 4000 {them} || true")).unwrap();
    let counters = sites.rig.json(Side::Alice, &["counters"]).unwrap().to_string();
    assert!(counters.contains("\"gateway_unproven\""), "{counters}");
    assert!(counters.contains("\"gateway_fragment_over\""), "{counters}");

    // The second lock: a firewall turns what may pass in clear into what may not, behind the first.
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    let rewrite = "nft add table ip t; nft add chain ip t pre '{ type nat hook prerouting priority -100; }'; \
                   nft add rule ip t pre ip daddr 203.0.113.77 dnat to 10.2.0.2";
    sh(sites.rig.lab.alice().netns(), rewrite).unwrap();
    let (_server, _) = serve(sites.host(Side::Bob), programs::BULK_SERVER, &["80", "1000"]).unwrap();
    let attempt = "timeout 2 bash -c 'exec 3<>/dev/tcp/203.0.113.77/80' && echo open || true";
    let got = sh(alice, attempt).unwrap();
    assert!(!got.contains("open"), "{got}");
    assert_eq!(leaks(&capture.finish().unwrap()), Vec::<String>::new());
    let counters = sites.rig.json(Side::Alice, &["counters"]).unwrap();
    let unseen = counters.to_string().contains("\"gateway_unseen\"");
    assert!(unseen, "{counters}");
}

/// Sends a datagram to (address, port) and prints the error that comes back.
const HEARS_WHY: &str = r#"
import errno, socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"may I")
try:
    print("answered", s.recv(100))
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
"#;

/// Sends ICMP messages (type and code each) to an address; each quotes a datagram of it.
const ICMP_ERRORS: &str = r#"
import socket, struct, sys
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, 58 if v6 else 1)
for kind in sys.argv[2:]:
    kind, code = map(int, kind.split("/"))
    head = struct.pack("!BBHI", 6 << 4 if v6 else 0x45, 0, 0 if v6 else 36, 0)
    body = struct.pack("!BBHI", kind, code, 0, 1400) + head + bytes(48 if v6 else 28)
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    s.sendto(body, (sys.argv[1], 0))
"#;

/// RFC 4301 sections 5.1.1 and 6.1.2.
#[test]
fn who_is_refused_hears_why_and_errors_from_inside_are_believed_by_type() {
    let with_discard = |side| {
        let selectors = "[\"proto udp remote-port 6666\",\"proto udp local-port 6666\"]";
        let rule = format!(
            "{{\"rule\":{{\"direction\":\"both\",\"selectors\":{selectors},\"action\":\"discard\"}}}}\n"
        );
        rule + &rules(side)
    };
    let settings = "icmp = [\"icmp/3/4\", \"icmpv6/2\"]\n[icmp]\nrefusals = 100";
    let sites = Sites::build("rvl-gwwhy", 1500, with_discard, settings).unwrap();
    let alice = sites.host(Side::Alice);
    for (v6, why) in [(false, "EHOSTUNREACH"), (true, "EACCES")] {
        let got = python(alice, HEARS_WHY, &[host(Side::Bob, v6), "6666"], PATIENCE).unwrap();
        assert_eq!(got.trim(), why, "IPv6 {v6}");
    }
    assert_eq!(counted(&sites.rig, Side::Alice, "outbound", "rule_discard"), 2);

    let refused = || counted(&sites.rig, Side::Alice, "kernel", "gateway_icmp");
    // What the configuration lists, and what is no error, goes on to the kernel.
    python(alice, ICMP_ERRORS, &["10.1.0.1", "3/4"], PATIENCE).unwrap();
    python(alice, ICMP_ERRORS, &["fd01::1", "2/0"], PATIENCE).unwrap();
    for address in ["10.1.0.1", "fd01::1"] {
        sh(alice, &format!("ping -c 1 -W 5 {address}")).unwrap();
    }
    assert_eq!(refused(), 0);
    python(alice, ICMP_ERRORS, &["10.1.0.1", "5/1", "3/3", "3/13", "11/0"], PATIENCE).unwrap();
    python(alice, ICMP_ERRORS, &["fd01::1", "137/0", "1/4", "3/0"], PATIENCE).unwrap();
    wait_until("all seven are refused", PATIENCE, || refused() == 7);
}

#[test]
fn without_its_daemon_a_gateway_lets_nothing_protected_pass_and_detach_opens_it() {
    let mut sites = Sites::build("rvl-gwdead", 1500, rules, "").unwrap();
    download(&sites, WEB);
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    sites.rig.kill(Side::Alice).unwrap();
    let attempt = "for i in 1 2 3; do timeout 1 bash -c 'exec 3<>/dev/tcp/10.2.0.2/80' 2>&1 && echo open; \
                   timeout 1 bash -c 'exec 3<>/dev/tcp/fd02::2/80' 2>&1 && echo open; \
                   ping -c 1 -W 1 10.2.0.2; ping -c 1 -W 1 fd02::2; \
                   echo x > /dev/udp/10.2.0.2/7000; done; true";
    let bash = format!("bash -c '{}'", attempt.replace('\'', "'\\''"));
    let nothing_protected_passes = |sites: &Sites, capture: &Capture| {
        let (_server, _) = serve(sites.host(Side::Bob), programs::BULK_SERVER, &["80", "1000"]).unwrap();
        let got = sh(sites.host(Side::Alice), &bash).unwrap();
        assert!(!got.contains("open") && !got.contains("1 received"), "{got}");
        let wire = capture.evidence().unwrap();
        assert_eq!((leaks(&wire), wire.clear), (vec![], 0), "{:?}", wire.all_clear());
    };
    nothing_protected_passes(&sites, &capture);
    // What is clear by address alone goes on.
    let got = sh(sites.host(Side::Alice), &format!("ping -c 2 -i 0.2 -W 2 {}", WORLD[0])).unwrap();
    assert!(got.contains("2 received"), "{got}");

    // Nor from an inside interface that was made anew, and that no program of ours sits on.
    sites.remake_inside(Side::Alice, 1500).unwrap();
    capture.clear().unwrap();
    nothing_protected_passes(&sites, &capture);
    // It is forwarded from, where the address alone allows that.
    let got = sh(sites.host(Side::Alice), &format!("ping -c 2 -i 0.2 -W 2 {}", WORLD[0])).unwrap();
    assert!(got.contains("2 received"), "{got}");

    // A new daemon has the rules of its file at once, and closes what needs an association it has not.
    sites.rig.start(Side::Alice).unwrap();
    capture.clear().unwrap();
    let got = sh(sites.host(Side::Alice), "ping -c 2 -i 0.2 -W 1 10.2.0.2 || true").unwrap();
    assert!(got.contains("0 received"), "{got}");
    assert_eq!(leaks(&capture.evidence().unwrap()), Vec::<String>::new());
    // Where the rules change, what passed alone stops at once, and the other way round.
    let world = format!("ping -c 2 -i 0.2 -W 1 {} || true", WORLD[0]);
    sites
        .rig
        .ravelin(
            Side::Alice,
            &[
                "spd",
                "add",
                "--name",
                "no",
                "--place",
                "first",
                "--selector",
                "remote 203.0.113.0/24",
                "--action",
                "discard",
            ],
            "",
        )
        .unwrap();
    assert!(sh(sites.host(Side::Alice), &world).unwrap().contains("0 received"));
    sites.rig.ravelin(Side::Alice, &["spd", "del", "no"], "").unwrap();
    assert!(sh(sites.host(Side::Alice), &world).unwrap().contains("2 received"));
    // Without rules nothing is forwarded.
    sites.rig.ravelin(Side::Alice, &["spd", "flush"], "").unwrap();
    assert!(sh(sites.host(Side::Alice), &world).unwrap().contains("0 received"));
    let reasons = sites.rig.json(Side::Alice, &["counters"]).unwrap().to_string();
    assert!(reasons.contains("no_spd_entry"), "{reasons}");

    // Off the host: an ordinary router again. The control that leaks would be seen.
    sites.rig.stop(Side::Alice).unwrap();
    sites.rig.stop(Side::Bob).unwrap();
    for side in Side::BOTH {
        sites.rig.command(side, &["detach", "--yes"], "").unwrap();
    }
    capture.clear().unwrap();
    download(&sites, WEB);
    assert!(!leaks(&capture.evidence().unwrap()).is_empty());
}

/// The gateway's own programs, under a policy of their own, beside the networks behind it.
#[test]
fn programs_of_the_gateway_itself_keep_their_policy() {
    let mut sites = Sites::without_daemons("rvl-gwhost", 1500).unwrap();
    for side in Side::BOTH {
        let peer = if side == Side::Alice { Side::Bob } else { Side::Alice };
        sites.rig.set_policy(side, &tests::protect(&program("python3"), peer)).unwrap();
    }
    sites.start(rules, "default = \"bypass\"").unwrap();
    tests::associate(&sites.rig).unwrap();
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    let python = program("python3");
    let (alice, bob) = (sites.rig.lab.alice(), sites.rig.lab.bob());
    let server = Program::new(&python).args(["-u", "-c", programs::UDP_ECHO, "7050"]);
    let mut server = bob.spawn(server).unwrap();
    bob.wait_for_listener(Transport::Udp, 7050, &mut server, PATIENCE).unwrap();
    for to in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let client = Program::new(&python).args(["-c", programs::UDP_CLIENT, &to, "7050"]);
        let done = alice.run_program(client, PATIENCE * 2).unwrap();
        assert!(done.out().contains("echoed 18 of 18"), "{to}: {} {}", done.out(), done.err());
    }
    download(&sites, WEB);
    let wire = capture.finish().unwrap();
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
}

#[test]
fn jumbo_frames_are_used_whole() {
    let sites = Sites::build("rvl-gwjumbo", 9000, rules, "").unwrap();
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    download(&sites, WEB);
    let (_server, _) = serve(sites.host(Side::Bob), programs::UDP_ECHO, &[&ECHO.to_string()]).unwrap();
    for v6 in [false, true] {
        let args = [host(Side::Bob, v6), &ECHO.to_string()];
        let got = python(sites.host(Side::Alice), DATAGRAMS, &args, PATIENCE * 2).unwrap();
        assert!(got.contains("echoed 9 of 9"), "IPv6 {v6}: {got}");
        let mtu: u32 = python(sites.host(Side::Alice), PATH_MTU, &[args[0], args[1], "9000"], PATIENCE)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!((8800..8980).contains(&mtu), "IPv6 {v6}: {mtu}");
    }
    let wire = capture.finish().unwrap();
    assert_eq!((leaks(&wire), wire.clear), (vec![], 0), "{:?}", wire.all_clear());
    // One frame holds what was one datagram.
    assert!(wire.frames.iter().any(|seen| (8000..9014).contains(&seen.frame.len())));
}

/// Frames from the driver are the daemon's only if they are for this host: hosts behind it have associations of their own.
#[test]
fn frames_for_hosts_behind_a_gateway_are_forwarded() {
    let sites = Sites::build("rvl-gwxdp", 1500, rules, "[io]\nouter = \"af_xdp\"").unwrap();
    let alice = sites.host(Side::Alice);
    for v6 in [false, true] {
        let got = sh(alice, &format!("ping -c 2 -i 0.2 -W 2 {}", host(Side::Bob, v6))).unwrap();
        assert!(got.contains("2 received"), "{got}");
    }
    let (mut server, _) = serve(alice, HEARD, &["4500", "5555"]).unwrap();
    let args = [WORLD[0], host(Side::Alice, false), "5555", "4500"];
    python(sites.rig.lab.wire(), FORGE, &args, PATIENCE).unwrap();
    assert_eq!(rest(&mut server), "5555");
}

/// Host mode over links of 9000 octets.
#[test]
fn jumbo_frames_carry_programs_of_the_host_itself() {
    let mut sites = Sites::without_daemons("rvl-jumbo", 9000).unwrap();
    let python = program("python3");
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        sites.rig.set_policy(side, &tests::protect(&python, peer)).unwrap();
    }
    sites.rig.start_both().unwrap();
    tests::associate(&sites.rig).unwrap();
    let capture = sites.rig.lab.capture(CaptureOptions::default()).unwrap();
    let (alice, bob) = (sites.rig.lab.alice(), sites.rig.lab.bob());
    let bulk = Program::new(&python).args(["-u", "-c", programs::BULK_SERVER, "7060", "12000000"]);
    let mut bulk = bob.spawn(bulk).unwrap();
    bob.wait_for_listener(Transport::Tcp, 7060, &mut bulk, PATIENCE).unwrap();
    let echo = Program::new(&python).args(["-u", "-c", programs::UDP_ECHO, "7061"]);
    let mut echo = bob.spawn(echo).unwrap();
    bob.wait_for_listener(Transport::Udp, 7061, &mut echo, PATIENCE).unwrap();
    for to in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let run = |script: &str, port: &str| {
            let client = Program::new(&python).args(["-c", script, &to, port]);
            alice.run_program(client, PATIENCE * 2).unwrap().out()
        };
        let sum = bulk.output();
        assert_eq!(run(programs::BULK_CLIENT, "7060").trim(), format!("{} 12000000", sum.trim()), "{to}");
        assert!(run(programs::UDP_CLIENT, "7061").contains("echoed 18 of 18"), "{to}");
    }
    let wire = capture.finish().unwrap();
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    assert!(wire.frames.iter().any(|seen| (4000..9014).contains(&seen.frame.len())));
}
