//! Without UDP: ESP and AH under IP protocol numbers of their own, between two daemons, carry unmodified programs.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side, Transport};
use tests::sites::sh;
use tests::{PATIENCE, binary, copy_of_python, counted, program, programs, wait_until};

const TCP: u16 = 7030;
const UDP: u16 = 7031;

fn policy(app: &std::path::Path, peer: Side, service: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  network {} protected P;\n  \
         protection P {{ localport=any remoteport=any {service} mandatory; }}\n}}\n",
        app.display(),
        peer.v4(),
        peer.v6(),
    )
}

/// Two hosts whose Python talks under this service and these associations.
fn build(name: &str, service: &str, pair: &Pair) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &policy(&program("python3"), peer, service)).unwrap();
    }
    rig.start_both().unwrap();
    for v6 in [false, true] {
        rig.associate(&Pair { v6, ..pair.clone() }).unwrap();
    }
    rig
}

/// Datagrams of up to 9000 octets, connections that end in every way.
fn talk(rig: &Rig) {
    let python = program("python3");
    let servers = [(programs::TCP_SERVER, TCP, Transport::Tcp), (programs::UDP_ECHO, UDP, Transport::Udp)];
    let mut running = Vec::new();
    for (script, port, transport) in servers {
        let server = Program::new(&python).args(["-c", script, &port.to_string()]);
        let mut server = rig.lab.bob().spawn(server).unwrap();
        rig.lab.bob().wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
        running.push(server);
    }
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        for (script, port, want) in
            [(programs::UDP_CLIENT, UDP, "echoed 18 of 18"), (programs::TCP_CLIENT, TCP, "done")]
        {
            let client = Program::new(&python).args(["-c", script, &address, &port.to_string()]);
            let done = rig.lab.alice().run_program(client, PATIENCE * 2).unwrap();
            assert!(done.out().contains(want), "{address}: {} {}", done.out(), done.err());
        }
    }
    for side in Side::BOTH {
        let list = rig.json(side, &["sa", "list"]).unwrap();
        for sa in list["sas"].as_array().unwrap() {
            assert!(sa["counters"]["packets"].as_u64() > Some(10), "{sa}");
            assert_eq!(sa["encapsulation"], "none", "{sa}");
        }
    }
}

fn extra(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

#[test]
fn bare_esp_carries_programs_and_shows_nothing() {
    let args = extra(&["--encapsulation", "none", "--esn"]);
    for (name, mode, suite) in
        [("rvl-bare", "transport", "aes128cbc-sha256"), ("rvl-bare-t", "tunnel", "chacha20poly1305")]
    {
        let pair = Pair { v6: false, mode, suite, alice: args.clone(), bob: args.clone() };
        let rig = build(name, "encryption", &pair);
        let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
        talk(&rig);
        let wire = capture.finish().unwrap();
        assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
        assert!(wire.esp > 100, "{}", wire.esp);
    }
}

#[test]
fn ah_carries_programs() {
    let args = extra(&["--type", "ah"]);
    let pair = Pair { v6: false, mode: "transport", suite: "sha256", alice: args.clone(), bob: args };
    talk(&build("rvl-ah", "authentication", &pair));
}

/// UDP in IP in IP, over both families: to this host (IPv4, IPv6, ports), from inside addresses that it has none of.
const TUNNELLED: &str = r#"
import socket, struct, sys
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
to4, to6 = sys.argv[1], sys.argv[2]
a4, b4 = (socket.inet_pton(socket.AF_INET, a) for a in ("203.0.113.2", to4))
a6, b6 = (socket.inet_pton(socket.AF_INET6, a) for a in ("2001:db8:77::2", to6))
for port in map(int, sys.argv[3:]):
    data = b"tunnelled"
    length = 8 + len(data)
    for family, number, to in ((socket.AF_INET, 4, to4), (socket.AF_INET6, 41, to6)):
        source, target = (a4, b4) if number == 4 else (a6, b6)
        pseudo = source + target + struct.pack("!II", length, 17)
        head = struct.pack("!HHH", 5000, port, length)
        upper = head + struct.pack("!H", checksum(pseudo + head + b"\0\0" + data)) + data
        if number == 4:
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0x4000, 64, 17, 0, source, target)
            ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        else:
            ip = struct.pack("!IHBB16s16s", 6 << 28, length, 17, 64, source, target)
        socket.socket(family, socket.SOCK_RAW, number).sendto(ip + upper, (to, 0))
"#;

/// Says of each datagram to a port whence it came.
const HEARS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    print(data.decode(), peer[0], flush=True)
"#;

/// Paper 001 section 2.3: IP in IP is taken from the wire by its protocol number, and has no service.
#[test]
fn ip_in_ip_that_arrives_bare_is_clear_and_reaches_nobody_who_wants_protection() {
    const OPEN: u16 = 7032;
    const CLOSED: u16 = 7033;
    let options =
        RigOptions { name: "rvl-ipip".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let [open, closed] = ["open", "closed"].map(|name| copy_of_python(rig.folder(), name));
    let block = |app: &std::path::Path, level: &str| {
        format!(
            "application \"{}\" {{\n  network 203.0.113.0/24 protected P;\n  network 2001:db8:77::/64 protected P;\n  \
             protection P {{ localport=any remoteport=any encryption {level}; }}\n}}\n",
            app.display()
        )
    };
    rig.set_policy(Side::Alice, &(block(&open, "optional") + &block(&closed, "mandatory"))).unwrap();
    let (alice, bob) = (
        [Side::Alice.v4().to_string(), Side::Alice.v6().to_string()],
        [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()],
    );
    rig.configure(Side::Alice, &format!("[ipip]\nfrom = {bob:?}\n"));
    rig.start(Side::Alice).unwrap();
    for (at, inside) in ["203.0.113.0/24", "2001:db8:77::/64"].iter().enumerate() {
        let sa = ["sa", "add", "--type", "ipip", "--direction", "in", "--spi", "auto", "--mode", "tunnel"];
        let ends = ["--local", &alice[at], "--remote", &bob[at], "--selector-remote", inside];
        rig.ravelin(Side::Alice, &[&sa[..], &ends[..]].concat(), "").unwrap();
    }
    let hears = |app: &std::path::Path, port: u16| -> Running {
        let server = Program::new(app).args(["-c", HEARS, &port.to_string()]);
        let server = rig.lab.alice().spawn(server).unwrap();
        server.wait_for_output("ready", PATIENCE).unwrap();
        server
    };
    // The daemon sets rp_filter of the TUN to 2: an IPv4 source needs a route, be it by another interface. A host has a
    // default route; the lab has none.
    sh(rig.lab.alice().netns(), "ip route add 203.0.113.0/24 dev eth0").unwrap();
    let (open, closed) = (hears(&open, OPEN), hears(&closed, CLOSED));
    let send = |ports: &[u16]| {
        let ports = ports.iter().map(u16::to_string);
        let args = ["-c", TUNNELLED, &alice[0], &alice[1]].map(str::to_owned);
        let sender = Program::new(program("python3")).args(args.into_iter().chain(ports));
        let sent = rig.lab.bob().run_program(sender, PATIENCE).unwrap();
        assert!(sent.status.success(), "{}", sent.err());
    };
    // No rule says that what is inside may be clear.
    send(&[OPEN]);
    wait_until("both are refused", PATIENCE, || counted(&rig, Side::Alice, "inbound", "unkeyed") >= 2);
    for inside in ["203.0.113.0/24", "2001:db8:77::/64"] {
        let rule = ["spd", "add", "--direction", "in", "--action", "bypass", "--selector"];
        rig.ravelin(Side::Alice, &[&rule[..], &[&format!("remote {inside}")]].concat(), "").unwrap();
    }
    send(&[CLOSED, OPEN]);
    for source in ["203.0.113.2", "2001:db8:77::2"] {
        open.wait_for_output(
            &format!("tunnelled {}{source}", if source.contains(':') { "" } else { "::ffff:" }),
            PATIENCE,
        )
        .unwrap();
    }
    wait_until("whoever wants protection is spared", PATIENCE, || {
        counted(&rig, Side::Alice, "kernel", "ingress_no_proof") >= 2
    });
    assert!(!closed.output().contains("tunnelled"), "{}", closed.output());
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    for sa in list["sas"].as_array().unwrap() {
        assert_eq!(sa["counters"]["packets"], 2, "{sa}");
    }
    // A rule that wants protection, even optionally, takes none of it.
    rig.ravelin(Side::Alice, &["spd", "flush"], "").unwrap();
    let rule = [
        "spd",
        "add",
        "--direction",
        "in",
        "--selector",
        "any",
        "--action",
        "protect",
        "--level",
        "optional",
    ];
    rig.ravelin(Side::Alice, &rule, "").unwrap();
    send(&[OPEN]);
    wait_until("it is refused", PATIENCE, || counted(&rig, Side::Alice, "inbound", "inbound_policy") >= 2);
}
