//! Path MTU discovery through associations (RFC 4301 section 8): two daemons, a router between them whose way is narrower, and
//! the ICMP errors that it really sends.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Running, Side, Transport};
use serde_json::Value;
use tests::{PATIENCE, binary, counted, monitor, program, programs, protect, router, wait_until};

const UDP: u16 = 7040;
const TCP: u16 = 7041;

/// Sends datagrams that must not be fragmented, of a size, to an echo server (address, port, size), until the kernel says
/// that they are too long; prints the MTU that it then has, and whether one of exactly that length comes back.
const DISCOVER: &str = r#"
import socket, sys, time
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
level, discover, mtu = (41, 23, 24) if v6 else (0, 10, 14)
s.setsockopt(level, discover, 2)
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(0.2)
deadline = time.monotonic() + 15
while time.monotonic() < deadline:
    try:
        s.send(bytes(int(sys.argv[3])))
        s.recv(65535)
        print("it fits")
        sys.exit()
    except TimeoutError:
        pass
    except OSError as error:
        if error.errno == 90:
            break
# The kernel has heard the router as well, and takes its word for the inner packet, until ours is heard.
headers = 48 if v6 else 28
for attempt in range(20):
    found = s.getsockopt(level, mtu)
    try:
        s.send(b"x" * (found - headers))
        if len(s.recv(65535)) == found - headers:
            print("mtu", found, "echoed")
            break
    except (TimeoutError, OSError):
        pass
else:
    print("mtu", found, "lost")
"#;

/// Sends datagrams that may be fragmented (address, port, size) and prints how many of five came back.
const FRAGMENTED: &str = r#"
import os, socket, sys
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(41 if v6 else 0, 23 if v6 else 10, 0)
s.settimeout(1)
good = 0
for n in range(5):
    data = os.urandom(int(sys.argv[3]))
    for attempt in range(4):
        s.sendto(data, (sys.argv[1], int(sys.argv[2])))
        try:
            if s.recv(65535) == data:
                good += 1
                break
        except TimeoutError:
            pass
print("came back", good)
"#;

fn build(name: &str, pair: &Pair, more: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    router::build(&rig.lab).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
        rig.configure(side, more);
    }
    rig.start_both().unwrap();
    for v6 in [false, true] {
        rig.associate(&Pair { v6, ..pair.clone() }).unwrap();
    }
    rig
}

fn serve(rig: &Rig, side: Side, script: &str, port: u16, transport: Transport) -> Running {
    let server = Program::new(program("python3")).args(["-c", script, &port.to_string()]);
    let mut server = rig.lab.host(side).spawn(server).unwrap();
    rig.lab.host(side).wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
    server
}

fn client(rig: &Rig, script: &str, args: &[&str]) -> String {
    let client = Program::new(program("python3")).args(["-c", script]).args(args);
    let done = rig.lab.alice().run_program(client, PATIENCE * 2).unwrap();
    format!("{}{}", done.out(), done.err())
}

fn address(side: Side, v6: bool) -> String {
    if v6 { side.v6().to_string() } else { side.v4().to_string() }
}

/// Alice's outbound association to Bob over that family.
fn outbound(rig: &Rig, v6: bool) -> Value {
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    let to = address(Side::Bob, v6);
    let all = list["sas"].as_array().unwrap().iter();
    let mut found = all.filter(|sa| sa["direction"] == "out" && sa["remote"] == to.as_str());
    found.next().unwrap().clone()
}

/// Discovery with this association, over both families, on a way that carries 1400 octets.
fn discover(rig: &Rig) {
    let _echo = serve(rig, Side::Bob, programs::UDP_ECHO, UDP, Transport::Udp);
    let events = monitor(rig, Side::Alice);
    for v6 in [false, true] {
        let to = address(Side::Bob, v6);
        assert_eq!(outbound(rig, v6)["path_mtu"], 1500);
        let wide = outbound(rig, v6)["inner_mtu"].as_u64().unwrap();
        let size = wide - if v6 { 48 } else { 28 };
        let port = UDP.to_string();
        assert!(client(rig, DISCOVER, &[&to, &port, &size.to_string()]).contains("it fits"));
        router::narrow(&rig.lab, 1400).unwrap();
        let said = client(rig, DISCOVER, &[&to, &port, &size.to_string()]);
        let sa = outbound(rig, v6);
        let inner = sa["inner_mtu"].as_u64().unwrap();
        assert_eq!(said.trim(), format!("mtu {inner} echoed"), "{sa}");
        assert_eq!((&sa["path_mtu"], &sa["pmtu"]["configured"]), (&1400.into(), &1500.into()), "{sa}");
        assert_eq!(sa["pmtu"]["learned"], true);
        assert!(sa["pmtu"]["age_seconds"].as_u64().unwrap() < 60);
        // What may be fragmented still goes, in fragments that fit.
        let said = client(rig, FRAGMENTED, &[&to, &port, "1400"]);
        assert_eq!(said.trim(), "came back 5", "{v6}");
        events.wait_for_output(&format!(r#""event":"pmtu","spi":{}"#, sa["spi"]), PATIENCE).unwrap();
        router::narrow(&rig.lab, 1500).unwrap();
    }
    assert!(counted(rig, Side::Alice, "outbound", "icmp_taken") >= 2);
    let human = rig.ravelin(Side::Alice, &["sa", "list"], "").unwrap();
    assert!(human.contains("PMTU") && human.contains("1400 ("), "{human}");
}

fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

#[test]
fn esp_in_udp_learns_the_path() {
    for (name, mode) in [("rvl-pmtu", "transport"), ("rvl-pmtu-t", "tunnel")] {
        discover(&build(name, &Pair { mode, ..Pair::default() }, ""));
    }
}

#[test]
fn bare_esp_learns_the_path() {
    let extra = args(&["--encapsulation", "none"]);
    let pair = Pair { mode: "tunnel", alice: extra.clone(), bob: extra, ..Pair::default() };
    discover(&build("rvl-pmtu-b", &pair, ""));
}

#[test]
fn a_stream_gets_through_a_narrow_way_and_what_was_learned_is_forgotten() {
    let rig = build("rvl-pmtu-s", &Pair::default(), "[icmp]\npmtu_age = 8\n");
    let events = monitor(&rig, Side::Alice);
    router::narrow(&rig.lab, 1300).unwrap();
    for v6 in [false, true] {
        // Bulk goes from Alice's server to Bob's client.
        let server = Program::new(program("python3")).args([
            "-c",
            programs::BULK_SERVER,
            &TCP.to_string(),
            &(1 << 20).to_string(),
        ]);
        let mut server = rig.lab.alice().spawn(server).unwrap();
        rig.lab.alice().wait_for_listener(Transport::Tcp, TCP, &mut server, PATIENCE).unwrap();
        server.wait_for_output("\n", PATIENCE).unwrap();
        let digest = server.output().split(' ').nth(1).unwrap().trim().to_owned();
        let from = address(Side::Alice, v6);
        let client =
            Program::new(program("python3")).args(["-c", programs::BULK_CLIENT, &from, &TCP.to_string()]);
        let done = rig.lab.bob().run_program(client, PATIENCE * 2).unwrap();
        assert_eq!(done.out().trim(), format!("sha256 {digest} {}", 1 << 20), "{}", done.err());
        assert_eq!(outbound(&rig, v6)["path_mtu"], 1300);
        wait_until("it is forgotten", PATIENCE, || outbound(&rig, v6)["path_mtu"] == 1500);
        assert_eq!(outbound(&rig, v6)["pmtu"]["learned"], false);
    }
    let told = events.output();
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(r#""event":"pmtu""#)).collect();
    assert!(lines.iter().any(|line| line.contains(r#""mtu":1300"#) && line.contains(router::V4)), "{told}");
    assert!(lines.iter().any(|line| line.contains(r#""mtu":1500"#) && !line.contains("from")), "{told}");
}

/// Sends "fragmentation needed" to (address), quoting a datagram of ESP from it to (peer) with this (SPI, sequence number).
const FORGE: &str = r#"
import socket, struct, sys
def total(data):
    s = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
victim, peer = (socket.inet_aton(a) for a in sys.argv[1:3])
spi, sequence = (int(n, 0) for n in sys.argv[3:5])
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 1500, 0, 0x4000, 60, 17, 0, victim, peer)
quote = ip + struct.pack("!HHHHII", 4500, 4500, 1480, 0, spi, sequence) + bytes(500)
icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 700) + quote
icmp = icmp[:2] + struct.pack("!H", total(icmp)) + icmp[4:]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.sendto(icmp, (sys.argv[1], 0))
"#;

#[test]
fn forged_errors_are_counted_and_teach_nothing() {
    let rig = build("rvl-pmtu-f", &Pair::default(), "");
    let _echo = serve(&rig, Side::Bob, programs::UDP_ECHO, UDP, Transport::Udp);
    let to = address(Side::Bob, false);
    client(&rig, FRAGMENTED, &[&to, &UDP.to_string(), "100"]);
    let sa = outbound(&rig, false);
    let spi = u64::from_str_radix(sa["spi"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let sent = sa["sequence"].as_u64().unwrap();
    let (victim, peer) = (Side::Alice.v4().to_string(), to);
    let forge = |spi: u64, sequence: u64| {
        let (spi, sequence) = (spi.to_string(), sequence.to_string());
        router::run(&rig.lab, "python3", &["-", &victim, &peer, &spi, &sequence], FORGE).unwrap();
    };
    for (spi, sequence, reason) in [
        (spi ^ 1, sent, "icmp_unrelated"),
        (spi, sent + 1, "icmp_sequence"),
        (spi, sent + (1 << 31), "icmp_sequence"),
    ] {
        let before = counted(&rig, Side::Alice, "outbound", reason);
        forge(spi, sequence);
        wait_until(reason, PATIENCE, || counted(&rig, Side::Alice, "outbound", reason) == before + 1);
    }
    assert_eq!(outbound(&rig, false)["path_mtu"], 1500);
    // The same from somebody who saw the packet is believed, down to the floor at most.
    forge(spi, sent);
    wait_until("it is believed", PATIENCE, || outbound(&rig, false)["path_mtu"] == 700);
}
