//! Gateway mode: hosts with nothing installed, behind two gateways, talk over somebody else's router; some flows protected, others
//! clear, as the rules say.

use netio::lab::{CaptureOptions, Evidence, Side};
use tests::sites::{Sites, WORLD, host, network, python, serve, sh};
use tests::{PATIENCE, programs};

/// Protected.
const WEB: u16 = 80;
const ECHO: u16 = 7000;
/// Clear.
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

/// Sends what must not be fragmented until the kernel knows better; prints the path MTU that it learned.
const PATH_MTU: &str = r#"
import socket, sys, time
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
level, discover, mtu = (41, 23, 24) if v6 else (0, 10, 14)
s.setsockopt(level, discover, 2)
s.connect((sys.argv[1], int(sys.argv[2])))
size = int(sys.argv[3]) - (48 if v6 else 28)
for attempt in range(50):
    try:
        s.send(bytes(size))
    except OSError:
        break
    time.sleep(0.1)
print(s.getsockopt(level, mtu))
"#;

#[test]
fn two_sites_talk_as_the_rules_say() {
    let sites = Sites::build("rvl-gw", 1500, rules, "").unwrap();
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
