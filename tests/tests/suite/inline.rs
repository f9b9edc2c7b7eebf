//! The scrubber in line: what goes from one interface to the other goes through it, or not at all (docs/design/0024).

use lab::{Program, Running, Side};
use std::io::{Read, Write};
use tests::line::LineRig;
use tests::{PATIENCE, program, programs, wait_for, wait_until};

const ALICE: &str = "198.51.100.1";
const BOB: &str = "198.51.100.2";
/// An address that the gateway does not need, and has in a test.
const GATEWAY: &str = "198.51.100.254";

/// Prints a line for each packet that arrives from outside: protocol, total length of the frame, TTL, whether the reserved flag of IPv4 is set,
/// whether it is a fragment, VLAN, data of TCP and UDP in hexadecimal (the first 40 octets).
const SNIFF: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(263, 8, 1)
s.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
s.bind(("eth0", 0))
wanted = sys.argv[1:]
print("ready", flush=True)
while True:
    frame, extra, flags, origin = s.recvmsg(70000, 200)
    if origin[2] == 4:
        continue
    tags = []
    for level, kind, data in extra:
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
        if level == 263 and kind == 8 and status & 16:
            tags.append(f"{tpid:x}:{tci & 4095}")
    kind, at = struct.unpack("!H", frame[12:14])[0], 14
    while kind in (0x8100, 0x88a8):
        tags.append(f"{kind:x}:{struct.unpack('!H', frame[at:at + 2])[0] & 4095}")
        kind, at = struct.unpack("!H", frame[at + 2:at + 4])[0], at + 4
    if kind != 0x800:
        continue
    ip = frame[at:]
    total, _, fragment, ttl, protocol = struct.unpack("!HHHBB", ip[2:10])
    if wanted and str(protocol) not in wanted:
        continue
    upper = ip[(ip[0] & 15) * 4:total]
    data = upper[8:] if protocol == 17 else upper[(upper[12] >> 4) * 4:] if protocol == 6 and len(upper) > 12 else upper
    evil, piece = fragment >> 15, int(fragment & 0x3fff != 0)
    print("packet", protocol, len(frame), ttl, f"evil={evil}", f"piece={piece}", f"vlan={'+'.join(tags)}", data[:40].hex(), flush=True)
"#;

/// Sends UDP datagrams to a host by hand: address, port, how many, the IPv4 flags and offset field, text. Seconds between them as the last.
const BY_HAND: &str = r#"
import socket, struct, sys, time
src, dst, port, count, field, text, pause = sys.argv[1:8]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
data = text.encode()
udp = struct.pack("!HHHH", 5555, int(port), 8 + len(data), 0) + data
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 77, int(field, 16), 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
for _ in range(int(count)):
    try:
        s.sendto(ip + udp, (dst, 0))
    except OSError:
        pass
    time.sleep(float(pause))
"#;

fn sniff(rig: &LineRig, protocols: &[&str]) -> Running {
    rig.serve(Side::Bob, SNIFF, protocols).unwrap()
}

fn packets(sniffer: &Running) -> Vec<String> {
    sniffer.output().lines().filter(|line| line.starts_with("packet")).map(str::to_owned).collect()
}

/// Joins a group, and leaves it.
const JOIN: &str = r#"
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
group = socket.inet_pton(socket.AF_INET6, "ff02::77") + struct.pack("I", socket.if_nametoindex("eth0"))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
"#;

/// Octets arrive as they were sent, either way, over both families; hosts find each other; super-packets stay whole.
#[test]
fn a_connection_passes_and_super_packets_stay_whole() {
    let rig = LineRig::with_line("inline-passes", &[]).unwrap();
    // ARP, neighbour discovery.
    for address in [BOB, &Side::Bob.v6().to_string()] {
        rig.wait_for_ping(Side::Alice, address).unwrap();
    }
    rig.wait_for_ping(Side::Bob, ALICE).unwrap();
    let sniffer = sniff(&rig, &["6"]);
    let _echo = rig.serve(Side::Bob, programs::TCP_SERVER, &["7000"]).unwrap();
    for address in [BOB.to_owned(), Side::Bob.v6().to_string()] {
        let out = rig.python(Side::Alice, programs::ONE_LINE, &[&address, "7000", "3000000"]).unwrap();
        assert!(out.contains("same"), "{address}: {out}");
    }
    let _udp = rig.serve(Side::Bob, programs::UDP_ECHO, &["7001"]).unwrap();
    for address in [BOB.to_owned(), Side::Bob.v6().to_string()] {
        let out = rig.python(Side::Alice, programs::UDP_CLIENT, &[&address, "7001"]).unwrap();
        assert_eq!(out.trim(), "echoed 18 of 18", "{address}");
    }
    assert!(rig.side(0, "/super_packets").unwrap() > 0);
    let long = |line: &String| line.split(' ').nth(2).and_then(|n| n.parse::<usize>().ok()) > Some(3000);
    assert!(packets(&sniffer).iter().any(long), "no super-packet arrived whole");
    // Reports of multicast listeners are as the hosts sent them. Each comes twice; the ping comes behind the first.
    let before = rig.side(0, "/heard/frames").unwrap();
    rig.python(Side::Alice, JOIN, &[]).unwrap();
    wait_until("the report", PATIENCE, || rig.side(0, "/heard/frames").unwrap() > before);
    rig.wait_for_ping(Side::Alice, &Side::Bob.v6().to_string()).unwrap();
    assert_eq!(rig.rule("6.10").unwrap(), [0, 0, 0]);
    // They keep their stations.
    let neighbours = rig.lab.alice().run(|| {
        let out = std::process::Command::new("ip").args(["neigh", "show", BOB]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    });
    let station = rig.lab.bob().device().unwrap().address;
    let station: Vec<String> = station.iter().map(|octet| format!("{octet:02x}")).collect();
    assert!(neighbours.as_ref().unwrap().contains(&station.join(":")), "{neighbours:?}");
    let status = rig.json(&["status"]).unwrap();
    for side in 0..2 {
        assert_eq!(status["sides"][side]["guarded"], true, "{status}");
        assert_eq!(status["sides"][side]["dropped"]["unreadable"], 0, "{status}");
    }
}

/// What an attacker sends twice, in two ways, is the first for everybody; a fragment that is a whole packet's part arrives with it.
#[test]
fn overlaps_are_rewritten_and_fragments_put_together() {
    let rig = LineRig::with_line("inline-attack", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let sniffer = sniff(&rig, &["6", "17"]);
    let reader = rig.serve(Side::Bob, programs::FIRST_LINE, &["7000"]).unwrap();
    let steps = ["5 first\n", "5 OTHER\n", "0 begin"];
    let _attacker =
        rig.serve(Side::Alice, programs::SEGMENTS, &[&[BOB, "7000"], &steps[..]].concat()).unwrap();
    reader.wait_for_output(r"read b'beginfirst\n'", PATIENCE).unwrap();
    let [first, other] = ["first\n", "OTHER\n"].map(hex);
    wait_until("both copies", PATIENCE, || {
        packets(&sniffer).iter().filter(|line| line.ends_with(&first)).count() == 2
    });
    assert!(!sniffer.output().contains(&other), "a second reading arrived: {}", sniffer.output());
    let [_, changed, _] = rig.rule("Q.8").unwrap();
    assert_eq!(changed, 1);
    // Why, from the packet's own record.
    let events = rig.json(&["explain", ALICE, "--most", "1000"]).unwrap();
    let events = events["events"].as_array().unwrap();
    let event =
        events.iter().find(|event| event["acted"] == serde_json::json!(["Q.8"])).expect("the rewritten one");
    // Both readings; the line's end is the same in both.
    for reading in [&other, &first] {
        assert!(event["changes"].to_string().contains(reading.trim_end_matches("0a")), "{event}");
    }
    assert!(event["rules"][0]["text"].as_str().unwrap().contains("rewritten to the first one"), "{event}");

    // Two fragments, the second one first.
    let _udp = rig.serve(Side::Bob, programs::UDP_ECHO, &["7001"]).unwrap();
    rig.python(Side::Alice, BY_HAND_FRAGMENTS, &[ALICE, BOB, "7001"]).unwrap();
    wait_until("the datagram", PATIENCE, || {
        packets(&sniffer).iter().any(|line| line.starts_with("packet 17"))
    });
    let seen: Vec<String> = packets(&sniffer).into_iter().filter(|l| l.starts_with("packet 17")).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].contains("piece=0") && seen[0].starts_with("packet 17 642 "), "{seen:?}");
}

/// A datagram of 600 octets in two fragments, in the wrong order.
const BY_HAND_FRAGMENTS: &str = r#"
import socket, struct, sys
src, dst, port = sys.argv[1:4]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
udp = struct.pack("!HHHH", 5555, int(port), 608, 0) + b"x" * 600
for at, more in ((304, 0), (0, 0x2000)):
    data = udp[at:at + 304]
    field = at // 8 | more
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 77, field, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    s.sendto(ip + data, (dst, 0))
"#;

fn hex(text: &str) -> String {
    text.bytes().map(|octet| format!("{octet:02x}")).collect()
}

/// Frames that have ended at the guards of both interfaces, and frames of others that were refused, with or without a process.
fn at_the_guard(rig: &LineRig) -> [u64; 2] {
    let line = rig.check().unwrap();
    let sum = |word: &str| {
        let all = line["interfaces"].as_array().unwrap_or_else(|| panic!("{line}"));
        all.iter().map(|interface| interface[word].as_u64().unwrap()).sum()
    };
    [sum("arrived"), sum("refused")]
}

/// A killed process leaves nothing open, whatever the host would do; only a word opens it.
#[test]
fn without_a_process_nothing_passes() {
    let mut rig = LineRig::with_line("inline-closed", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    rig.kill().unwrap();
    // All that a host could do about it: route, bridge.
    rig.lab.wire().run(|| netio::sysctl::set("net/ipv4/ip_forward", 1)).unwrap().unwrap();
    rig.ip("addr add 198.51.100.254/32 dev alice").unwrap();
    rig.ip("addr add 198.51.100.254/32 dev bob").unwrap();
    rig.ip(&format!("route add {ALICE} dev alice")).unwrap();
    rig.ip(&format!("route add {BOB} dev bob")).unwrap();
    let sniffer = sniff(&rig, &["17"]);
    for bridged in [false, true] {
        if bridged {
            rig.ip("link set alice master wire").unwrap();
            rig.ip("link set bob master wire").unwrap();
        }
        let [before, _] = at_the_guard(&rig);
        for (side, from, to) in [(Side::Alice, ALICE, BOB), (Side::Bob, BOB, ALICE)] {
            // Neighbours are known, so that frames leave.
            let device = rig.lab.host(side).device().unwrap().name;
            let station = "02:00:00:00:00:77";
            rig.lab.host(side).run(|| neighbour(to, station, &device)).unwrap();
            rig.python(side, BY_HAND, &[from, to, "9", "20", "0", "unscrubbed", "0"]).unwrap();
        }
        wait_until("the frames are at the guards", PATIENCE, || at_the_guard(&rig)[0] >= before + 40);
    }
    rig.ip("link set alice nomaster").unwrap();
    rig.ip("link set bob nomaster").unwrap();
    // The host itself hears nothing.
    let station = rig.lab.wire().run(|| netio::packet::FrameDevice::of(index_of("alice"))).unwrap().unwrap();
    let station: Vec<String> = station.station.iter().map(|octet| format!("{octet:02x}")).collect();
    rig.lab.alice().run(|| neighbour(GATEWAY, &station.join(":"), "eth0")).unwrap();
    let ear = rig.lab.wire().run(|| std::net::UdpSocket::bind((GATEWAY, 7002))).unwrap().unwrap();
    ear.set_nonblocking(true).unwrap();
    let heard = || ear.recv_from(&mut [0; 64]).is_ok();
    let call =
        || rig.python(Side::Alice, BY_HAND, &[ALICE, GATEWAY, "7002", "5", "0", "hello", "0"]).unwrap();
    let [before, _] = at_the_guard(&rig);
    call();
    wait_until("the frames are at the guard", PATIENCE, || at_the_guard(&rig)[0] >= before + 5);
    assert!(!heard(), "the host has heard a frame of the line");
    // The host's own words do not leave either.
    let [_, refused] = at_the_guard(&rig);
    let _ = rig.ip("neigh replace 198.51.100.2 lladdr 02:00:00:00:00:78 dev bob");
    rig.lab.wire().run(|| say("198.51.100.2")).unwrap();
    wait_until("the host's own frame is refused", PATIENCE, || at_the_guard(&rig)[1] > refused);
    assert!(packets(&sniffer).is_empty(), "{}", sniffer.output());
    let line = rig.check().unwrap();
    assert_eq!(
        (&line["running"], &line["interfaces"][1]["guarded"]),
        (&false.into(), &true.into()),
        "{line}"
    );

    rig.ravelin(&["inline", "detach"]).unwrap();
    assert!(rig.check().unwrap().is_null());
    rig.ip("link set alice master wire").unwrap();
    rig.ip("link set bob master wire").unwrap();
    rig.lab.alice().run(|| forget(BOB)).unwrap();
    rig.lab.bob().run(|| forget(ALICE)).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    rig.ip("link set alice nomaster").unwrap();
    wait_until("the host hears", PATIENCE, || {
        call();
        heard()
    });
}

fn index_of(name: &str) -> u32 {
    netio::link::Links::open().and_then(|mut links| links.index(name)).unwrap()
}

fn run_ip(args: &str) {
    let done = std::process::Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
}

fn neighbour(address: &str, station: &str, device: &str) {
    run_ip(&format!("neigh replace {address} lladdr {station} dev {device}"));
}

fn forget(address: &str) {
    run_ip(&format!("neigh del {address} dev eth0"));
}

fn say(address: &str) {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let _ = socket.send_to(b"own", (address, 9));
}

/// While a line comes up, a frame passes as the host passed it before, or not at all, or scrubbed: never unscrubbed beside it.
#[test]
fn the_guard_is_there_before_the_first_worker() {
    let mut rig = LineRig::build("inline-start").unwrap();
    rig.lab.wire().run(|| netio::sysctl::set("net/ipv4/ip_forward", 1)).unwrap().unwrap();
    for (address, port) in [(ALICE, "alice"), (BOB, "bob")] {
        rig.lab
            .wire()
            .run(|| netio::sysctl::set(&format!("net/ipv4/conf/{port}/proxy_arp"), 1))
            .unwrap()
            .unwrap();
        rig.ip(&format!("route add {address} dev {port}")).unwrap();
    }
    let sniffer = sniff(&rig, &["17"]);
    // The reserved flag is set: rule 4.5 clears it.
    let flood = [ALICE, BOB, "9", "100000", "8000", "evil", "0.0002"];
    let _flood = rig.lab.alice().spawn(Program::new(program("python3")).args(["-c", BY_HAND]).args(flood));
    let evil = |line: &String| line.contains("evil=1");
    wait_until("the host passes frames", PATIENCE, || packets(&sniffer).iter().any(evil));
    rig.start(&[]).unwrap();
    wait_until("scrubbed frames", PATIENCE, || {
        packets(&sniffer).iter().filter(|line| !evil(line)).count() > 100
    });
    let seen = packets(&sniffer);
    let first = seen.iter().position(|line| !evil(line)).unwrap();
    let late: Vec<&String> = seen.iter().skip(first).filter(|line| evil(line)).collect();
    assert!(late.is_empty(), "{} unscrubbed beside scrubbed ones: {late:?}", late.len());
}

/// Sends datagrams in VLANs: each argument behind the addresses is a list of tags, as in 88a8:9+8100:7.
const TAGGED: &str = r#"
import socket, struct, sys
src, dst = sys.argv[1:3]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for tags in sys.argv[3:]:
    udp = struct.pack("!HHHH", 5555, 9, 12, 0) + b"vlan"
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0x8000, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst))
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xffff) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~total & 0xffff) + ip[12:]
    tag = b"".join(struct.pack("!HH", int(t.split(":")[0], 16), int(t.split(":")[1])) for t in tags.split("+") if t)
    s.send(bytes.fromhex("020000000077020000000078") + tag + b"\x08\x00" + ip + udp)
"#;

/// What is in a VLAN is scrubbed and stays in it; with more tags than anybody looks behind it ends.
#[test]
fn vlans_pass_with_their_tags() {
    let rig = LineRig::with_line("inline-vlan", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let sniffer = sniff(&rig, &["17"]);
    let deep = "8100:1+8100:2+8100:3+8100:4";
    let tags = ["", "8100:7", "88a8:9+8100:7", "8100:9+8100:7+8100:5", deep, "8100:4094"];
    rig.python(Side::Alice, TAGGED, &[&[ALICE, BOB], &tags[..]].concat()).unwrap();
    wait_until("the last one", PATIENCE, || sniffer.output().contains("vlan=8100:4094"));
    let seen: Vec<String> = packets(&sniffer);
    let got: Vec<&str> =
        seen.iter().filter_map(|line| line.split(' ').find_map(|w| w.strip_prefix("vlan="))).collect();
    assert_eq!(got, ["", "8100:7", "88a8:9+8100:7", "8100:9+8100:7+8100:5", "8100:4094"], "{seen:?}");
    assert!(seen.iter().all(|line| line.contains("evil=0")), "{seen:?}");
    assert_eq!(rig.side(0, "/dropped/not_ip").unwrap(), 1);
}

/// Pairs of hosts are spread over workers; what two hosts say is heard by one, either way.
#[test]
fn two_workers_share_the_hosts() {
    let rig = LineRig::with_line("inline-workers", &["--workers", "2"]).unwrap();
    let hosts: Vec<String> = (10..42).map(|n| format!("198.51.100.{n}")).collect();
    rig.lab
        .bob()
        .run(|| hosts.iter().for_each(|host| run_ip(&format!("addr add {host}/24 dev eth0"))))
        .unwrap();
    rig.wait_for_ping(Side::Alice, &hosts[0]).unwrap();
    let _echo = rig.serve(Side::Bob, programs::TCP_SERVER, &["7000"]).unwrap();
    for host in &hosts {
        let out = rig.python(Side::Alice, programs::ONE_LINE, &[host, "7000", "1000"]).unwrap();
        assert!(out.contains("same"), "{host}: {out}");
    }
    let status = rig.json(&["status"]).unwrap();
    let workers = status["workers"].as_array().unwrap();
    // 32 pairs all on one worker: one case in 2^31.
    assert!(workers.len() == 2 && workers.iter().all(|w| w["connections"].as_u64().unwrap() > 0), "{status}");
    let flows = rig.json(&["flows"]).unwrap();
    assert_eq!(flows["total"], 32, "{flows}");
    assert_eq!(flows["flows"].as_array().unwrap().len(), 32);
}

/// The server ends each connection first and waits for old segments of it, while its client takes the same port for the next one
/// (RFC 6191): each port about six times, within a second.
#[test]
fn a_port_that_is_used_again_at_once_connects() {
    const CONNECTIONS: usize = 1500;
    let rig = LineRig::with_line("inline-again", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let few = || std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40255");
    rig.lab.alice().run(few).unwrap().unwrap();
    let listener = rig.lab.bob().run(|| std::net::TcpListener::bind((BOB, 7000))).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(CONNECTIONS) {
                stream.unwrap().write_all(b"page").unwrap();
            }
        });
        let client = || {
            for at in 0..CONNECTIONS {
                let mut page = Vec::new();
                let mut stream = std::net::TcpStream::connect((BOB, 7000)).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.read_to_end(&mut page).unwrap();
                assert_eq!(page, b"page", "connection {at}");
            }
        };
        rig.lab.alice().run(client).unwrap();
    });
    for rule in ["Q.1", "Q.2", "Q.13", "Q.14"] {
        assert_eq!(rig.rule(rule).unwrap(), [0, 0, 0], "{rule}: {}", rig.log());
    }
}

/// Rule Q.4: the server's numbers are others outside; with loss, acknowledgments select. Nobody notices.
#[test]
fn numbers_of_hosts_inside_are_hidden_and_transfers_go_on() {
    let rig = LineRig::with_line("inline-isn", &["--rule", "Q.4=on"]).unwrap();
    for address in [BOB, &Side::Bob.v6().to_string()] {
        rig.wait_for_ping(Side::Alice, address).unwrap();
    }
    let _echo = rig.serve(Side::Bob, programs::TCP_SERVER, &["7000"]).unwrap();
    let drop = "meta l4proto tcp numgen random mod 100 < 1 drop";
    let chain = |hook: &str| format!("chain {hook} {{ type filter hook {hook} priority 0; {drop}; }}\n");
    let table = format!("table inet loss {{ {} {} }}", chain("input"), chain("output"));
    let nft = Program::new(program("nft")).arg(table);
    let done = rig.lab.alice().run_program(nft, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    for address in [BOB.to_owned(), Side::Bob.v6().to_string()] {
        let out = rig.python(Side::Alice, programs::ONE_LINE, &[&address, "7000", "3000000"]).unwrap();
        assert!(out.contains("same"), "{address}: {out}");
    }
    assert!(rig.rule("Q.4").unwrap()[1] > 100, "{:?}", rig.rule("Q.4"));
    for rule in ["Q.7", "O.4", "Q.11"] {
        assert_eq!(rig.rule(rule).unwrap(), [0, 0, 0], "{rule}");
    }
}

/// An interface that is pulled out closes nothing else and, back again, is served as before.
#[test]
fn an_interface_goes_and_comes_back() {
    let rig = LineRig::with_line("inline-hotplug", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    rig.ip("link del alice").unwrap();
    wait_until("the interface is gone", PATIENCE, || rig.json(&["status"]).is_err());
    rig.ip("link add alice type veth peer name there").unwrap();
    rig.ip("link set alice up").unwrap();
    let namespace = format!("{}-alice", rig.lab.name());
    rig.ip(&format!("link set there netns {namespace} name eth0")).unwrap();
    rig.lab
        .alice()
        .run(|| {
            run_ip("link set eth0 up");
            run_ip(&format!("addr add {ALICE}/24 dev eth0"));
        })
        .unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let status =
        wait_for("both guarded", PATIENCE, || rig.json(&["status"]).map_err(|error| error.to_string()));
    assert_eq!(status["sides"][0]["guarded"], true, "{status}");
    // Another name opens nothing, and closes nothing.
    rig.ip("link set bob name carol").unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let line = rig.check().unwrap();
    assert!(line["interfaces"].as_array().unwrap().iter().all(|i| i["guarded"] == true), "{line}");
    assert!(line["interfaces"].to_string().contains("carol"), "{line}");
    rig.ip("link set carol name bob").unwrap();
    // Down and up again.
    rig.ip("link set bob down").unwrap();
    rig.ip("link set bob up").unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
}

/// Who only looks changes nothing and says what it would have.
#[test]
fn observing_changes_nothing_and_counts() {
    let rig = LineRig::with_line("inline-observe", &["--profile", "observe"]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let sniffer = sniff(&rig, &["17"]);
    rig.python(Side::Alice, BY_HAND, &[ALICE, BOB, "9", "3", "8000", "evil", "0"]).unwrap();
    wait_until("three datagrams", PATIENCE, || packets(&sniffer).len() == 3);
    assert!(packets(&sniffer).iter().all(|line| line.contains("evil=1")), "{}", sniffer.output());
    let [dropped, changed, observed] = rig.rule("4.5").unwrap();
    assert_eq!((dropped, changed, observed), (0, 0, 3));
    assert_eq!(rig.json(&["status"]).unwrap()["observing"], true);
}

/// What a crash left is taken over by the next start; a second process of the name is refused; the end closes, and says so.
#[test]
fn a_start_behind_a_crash() {
    let mut rig = LineRig::with_line("inline-crash", &[]).unwrap();
    rig.kill().unwrap();
    rig.start(&["--workers", "3"]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let line = rig.check().unwrap();
    assert_eq!(line["running"], true, "{line}");
    let interfaces = line["interfaces"].as_array().unwrap();
    assert!(interfaces.len() == 2 && interfaces.iter().all(|i| i["guarded"] == true), "{line}");
    let second = rig.ravelin(&["inline", "run", "--outside", "alice", "--inside", "bob"]).unwrap_err();
    assert!(second.to_string().contains("runs already"), "{second}");
    let refused = rig.ravelin(&["inline", "detach"]).unwrap_err();
    assert!(refused.to_string().contains("runs already"), "{refused}");
    rig.stop().unwrap();
    assert!(rig.log().contains("the line is closed"), "{}", rig.log());
    assert!(!rig.pings(Side::Alice, BOB).unwrap());
    let take_over =
        rig.ravelin(&["inline", "run", "--outside", "alice", "--inside", "bob", "--take-over"]).unwrap_err();
    assert!(take_over.to_string().contains("no process to take it over from"), "{take_over}");
}

/// A guard whose pin somebody removed, or in front of which somebody put another program, is put back.
#[test]
fn a_guard_that_is_gone_is_put_back() {
    let rig = LineRig::with_line("inline-mend", &[]).unwrap();
    let folder = format!("/sys/fs/bpf/ravelin-inline/{}/links", rig.lab.name());
    let pins = || std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(pins().len(), 4);
    pins().iter().for_each(|pin| std::fs::remove_file(pin).unwrap());
    wait_until("the guards are pinned again", PATIENCE, || pins().len() == 4);
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    assert_eq!(rig.json(&["status"]).unwrap()["sides"][1]["guarded"], true);
    assert!(rig.log().contains("closing it again"), "{}", rig.log());
}

/// Packets of one flow that arrive together are joined in front of the line, and cut behind it where a host asks for that.
#[test]
fn small_frames_are_joined() {
    let rig = LineRig::with_line("inline-gro", &[]).unwrap();
    rig.lab.alice().set_segmentation(false).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let _echo = rig.serve(Side::Bob, programs::TCP_SERVER, &["7000"]).unwrap();
    // How many arrive together is up to the scheduler.
    wait_until("super-packets", PATIENCE, || {
        let out = rig.python(Side::Alice, programs::ONE_LINE, &[BOB, "7000", "1000000"]).unwrap();
        assert!(out.contains("same"), "{out}");
        rig.side(0, "/super_packets").unwrap() > 0
    });
}
