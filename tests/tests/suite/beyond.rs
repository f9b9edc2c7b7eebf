//! Traffic that is not between two hosts (ravelin-policy(5), section of that name): loopback, multicast, broadcast, neighbour
//! discovery. What each gets is stated there; here it is seen.

use std::collections::BTreeMap;

use lab::{CaptureOptions, Class, Program, Side};
use tests::inside::Inner;
use tests::kinds::{Over, Stage, Table};
use tests::sites::sh;
use tests::{PATIENCE, counted, program, protected_rig, wait_until};
use wire::ip::Headers;

const BEYOND: &str = include_str!("../../programs/beyond.py");

/// What a call answered and what the program's own receiver got, by kind.
type Answers = BTreeMap<String, String>;

fn ask(stage: &Stage, body: &str) -> Answers {
    let text = format!("application \"{}\" {{\n{body}}}\n", stage.app.display());
    stage.rig.set_policy(Side::Alice, &text).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    stage.forget().unwrap();
    let own = Over::BOTH.map(|over| over.address(Side::Alice).to_string());
    let program = Program::new(&stage.app).args(["-c", BEYOND, &own[0], &own[1], "eth0"]);
    let done = stage.rig.lab.alice().run_program(program, PATIENCE * 2).unwrap();
    assert!(done.out().ends_with("done\n"), "{}{}", done.out(), done.err());
    done.out()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, what)| (name.to_owned(), what.to_owned()))
        .collect()
}

/// Addresses beyond this host that were sent to, on the TUN.
fn on_the_tun(stage: &Stage, address: &str) -> usize {
    let address: std::net::IpAddr = address.parse().unwrap();
    stage.inside[0].look().iter().filter(|one| one.out && one.headers.dst == address).count()
}

/// Number of packets to this address that were in clear on the wire.
fn in_clear(stage: &Stage, address: &str) -> usize {
    let address: std::net::IpAddr = address.parse().unwrap();
    stage
        .wire
        .look(|wire| {
            let packets =
                wire.frames.iter().filter(|seen| seen.class != Class::Esp).map(|seen| seen.packet());
            packets
                .filter_map(|packet| Headers::parse(packet).ok())
                .filter(|headers| headers.dst == address)
                .count()
        })
        .unwrap()
}

/// What is sent to many, and a unicast address of nobody.
const MANY: [(&str, &str); 6] = [
    ("multicast4", "239.1.2.3"),
    ("multicast6", "ff15::1:2:3"),
    ("link-multicast4", "224.0.0.251"),
    ("link-multicast6", "ff02::fb"),
    ("broadcast", "255.255.255.255"),
    ("subnet-broadcast", "198.51.100.255"),
];

const LOCAL: [&str; 7] =
    ["loopback4", "loopback6", "own4", "own6", "tcp-loopback4", "tcp-loopback6", "tcp-own4"];

#[test]
fn what_stays_on_the_host_and_what_goes_to_many() {
    let stage = Stage::build("rvl-beyond").unwrap();
    sh(stage.rig.lab.alice().netns(), "ip route add 255.255.255.255 dev eth0").unwrap();
    // Every peer protected: what stays on the host passes, what leaves it does not without an association for its address.
    let protected = ask(
        &stage,
        "  network 0.0.0.0/0 protected P;\n  network ::/0 protected P;\n  protection P { localport=any remoteport=any encryption mandatory; }\n",
    );
    for name in LOCAL {
        assert_eq!(protected[name], "ok heard", "{name}: {protected:?}");
    }
    for (name, address) in MANY {
        // What no association takes to a group is refused to the sender; a broadcast goes to the engine. Not even its own copy comes back:
        // that has no proof.
        let group = name.contains("multicast");
        assert_eq!(
            protected[name],
            if group { "EPERM silent" } else { "ok silent" },
            "{name}: {protected:?}"
        );
        assert_eq!(on_the_tun(&stage, address) > 0, !group, "{name}");
        assert_eq!(in_clear(&stage, address), 0, "{name}");
    }
    assert!(counted(&stage.rig, Side::Alice, "kernel", "egress_group") >= 4);
    let told = stage.rig.json(Side::Alice, &["explain", "--drop", "all"]).unwrap().to_string();
    assert!(told.contains("egress_group"), "{told}");
    // Its own IGMP and neighbour discovery are like any packets of it; the kernel's are the host's.
    assert_eq!(
        (protected["own-igmp"].as_str(), protected["own-solicitation"].as_str()),
        ("EPERM -", "EPERM -")
    );
    let of = |protocol: u8| move |one: &Inner| one.out && one.headers.protocol == protocol;
    assert!(!stage.inside[0].look().iter().any(of(2)), "IGMP on the TUN");
    assert!(
        !stage.inside[0].look().iter().any(|one| one.out && one.icmp() == Some(135)),
        "a solicitation on the TUN"
    );
    // Reports of membership, which the kernel delays.
    wait_until("an IGMPv3 report of the kernel", PATIENCE, || in_clear(&stage, "224.0.0.22") > 0);
    wait_until("an MLDv2 report of the kernel", PATIENCE, || in_clear(&stage, "ff02::16") > 0);
    wait_until("the engine's refusal", PATIENCE, || {
        counted(&stage.rig, Side::Alice, "outbound", "no_sa") > 0
    });
    // The selectors of the lab's tunnel hold the directed broadcast: it left under ESP.
    assert_eq!(stage.complaint(|_| false).unwrap(), None);

    // With an association for one group, as long as that is there.
    let [alice, bob] = Side::BOTH.map(|side| side.v4().to_string());
    let add = ["sa", "add", "--direction", "out", "--spi", "0x7100", "--local", &alice, "--remote", &bob];
    let served = ["--mode", "tunnel", "--suite", "aes128gcm", "--selector-remote", "239.1.2.3/32"];
    stage.rig.ravelin(Side::Alice, &[&add[..], &served[..]].concat(), &"53".repeat(20)).unwrap();
    let everything = "  network 0.0.0.0/0 protected P;\n  protection P { localport=any remoteport=any encryption mandatory; }\n";
    let with = ask(&stage, everything);
    assert_eq!((&*with["multicast4"], &*with["link-multicast4"]), ("ok silent", "EPERM silent"));
    assert!(on_the_tun(&stage, "239.1.2.3") > 0 && in_clear(&stage, "239.1.2.3") == 0);
    let list = stage.rig.json(Side::Alice, &["sa", "list"]).unwrap();
    let group = list["sas"].as_array().unwrap().iter().find(|sa| sa["spi"] == "0x00007100").unwrap();
    assert!(group["counters"]["packets"].as_u64() > Some(0), "{group}");
    stage.rig.ravelin(Side::Alice, &["sa", "del", "0x7100", "--direction", "out"], "").unwrap();
    assert_eq!(ask(&stage, everything)["multicast4"], "EPERM silent");

    // Only the lab's networks: what goes to many is in none of them, and clear; the directed broadcast is in one.
    let named = ask(
        &stage,
        "  network 198.51.100.0/24 protected P;\n  network 2001:db8:51::/64 protected P;\n  \
         protection P { localport=any remoteport=any encryption mandatory; }\n",
    );
    for name in LOCAL {
        assert_eq!(named[name], "ok heard", "{name}: {named:?}");
    }
    for (name, address) in MANY {
        // The copy that comes back is from an address of a protected network, and is not on lo.
        // That from the link-local address is not.
        let own_copy = if name == "link-multicast6" { "ok heard" } else { "ok silent" };
        assert_eq!(named[name], own_copy, "{name}: {named:?}");
        let clear = name != "subnet-broadcast";
        assert_eq!(in_clear(&stage, address) > 0, clear, "{name}");
        assert_eq!(on_the_tun(&stage, address) > 0, !clear, "{name}");
    }

    // Untrusted is refused everywhere, on the host too.
    let refused = ask(&stage, "  network 0.0.0.0/0 untrusted;\n  network ::/0 untrusted;\n");
    for name in LOCAL.into_iter().chain(MANY.map(|(name, _)| name)) {
        assert_eq!(refused[name], "EPERM silent", "{name}: {refused:?}");
    }
    for (name, address) in MANY {
        assert_eq!((in_clear(&stage, address), on_the_tun(&stage, address)), (0, 0), "{name}");
    }
}

/// Prints each datagram that comes to its port, also of a group (arguments: port, own address).
const LISTENER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", int(sys.argv[1])))
s.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton(sys.argv[2]))
print("ready", flush=True)
while True:
    print("heard", s.recv(100).decode(), flush=True)
"#;

/// Sends to all in every way (arguments: port, own address, peer, word).
const TELLER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.setsockopt(0, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[2]))
for name, to in (("multicast", "239.1.2.3"), ("broadcast", "198.51.100.255"), ("unicast", sys.argv[3])):
    s.sendto((sys.argv[4] + " " + name).encode(), (to, int(sys.argv[1])))
"#;

#[test]
fn what_comes_to_many_in_clear_is_not_for_a_protected_program() {
    let stage = Stage::build("rvl-beyond-in").unwrap();
    let [alice, bob] = Side::BOTH.map(|side| side.v4().to_string());
    let listen = |program: &std::path::Path, port: u16| {
        let program = Program::new(program).args(["-u", "-c", LISTENER, &port.to_string(), &alice]);
        let running = stage.rig.lab.alice().spawn(program).unwrap();
        running.wait_for_output("ready", PATIENCE).unwrap();
        running
    };
    let (plain, app) = (listen(&stage.plain, 7320), listen(&stage.app, 7321));
    let tell = |program: &std::path::Path, port: u16, word: &str| {
        let program = Program::new(program).args(["-c", TELLER, &port.to_string(), &bob, &alice, word]);
        let done = stage.rig.lab.bob().run_program(program, PATIENCE).unwrap();
        assert!(done.status.success(), "{}", done.err());
    };
    let refused = || counted(&stage.rig, Side::Alice, "kernel", "ingress_no_proof");
    let before = refused();
    tell(&stage.plain, 7321, "clear");
    wait_until("three refusals", PATIENCE, || refused() >= before + 3);
    // The control, and the end: what comes behind is heard.
    tell(&stage.plain, 7320, "clear");
    for way in ["multicast", "broadcast", "unicast"] {
        plain.wait_for_output(&format!("heard clear {way}"), PATIENCE).unwrap();
    }
    tell(&stage.app, 7321, "protected");
    app.wait_for_output("heard protected unicast", PATIENCE).unwrap();
    assert!(!app.output().contains("heard clear"), "{}", app.output());
}

#[test]
fn neighbours_are_found_in_clear() {
    let stage = Stage::build("rvl-beyond-nd").unwrap();
    let mut table = Table::new("neighbours");
    for over in Over::BOTH {
        table.row(&stage, "a neighbour that nobody knows", over, || {
            for side in Side::BOTH {
                sh(stage.rig.lab.host(side).netns(), "ip neigh flush all; ip -6 neigh flush all")?;
            }
            stage.run("handshake", over)?;
            let seen = stage.wire.look(|wire| wire.housekeeping)?;
            anyhow::ensure!(seen >= 2, "{seen} frames of ARP or neighbour discovery");
            Ok(())
        });
    }
    table.close();
}

/// Echoes each datagram with what IP_PKTINFO said of it: the address and the device that it came to.
const BY_DEVICE: &str = r#"
import socket, sys
IP_PKTINFO = 8
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, beside, _, peer = s.recvmsg(2000, 200)
    info = [(level, kind, value) for level, kind, value in beside if kind == IP_PKTINFO]
    assert info and any(info[0][2][:4])
    s.sendmsg([data], info, 0, peer)
"#;

/// Asks (address, port) twenty times; how often the answer was the question.
const ASKS: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect((sys.argv[1], int(sys.argv[2])))
good = 0
for n in range(20):
    s.send(b"%d" % n)
    try:
        good += s.recv(100) == b"%d" % n
    except OSError:
        break
print(good)
"#;

#[test]
fn a_server_that_answers_by_the_device_of_the_question_is_protected() {
    const PORT: &str = "7006";
    let python = program("python3");
    let rig = protected_rig("rvl-bydevice", false, &[&python]).unwrap();
    let server = Program::new(&python).args(["-c", BY_DEVICE, PORT]);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let client = Program::new(&python).args(["-c", ASKS, &Side::Bob.v4().to_string(), PORT]);
    let client = rig.lab.alice().run_program(client, PATIENCE * 2).unwrap();
    assert_eq!(client.out().trim(), "20", "{}{}", client.out(), client.err());
    let evidence = wire.finish().unwrap();
    assert_eq!(evidence.clear_packets(|flow| flow.protocol == 17).len(), 0);
}
