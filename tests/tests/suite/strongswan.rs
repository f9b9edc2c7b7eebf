//! strongSwan with its own data path in user space (kernel-libipsec) as the other implementation: what two of its daemons said to
//! each other opens here, and one of them is replaced by Ravelin while the other goes on.

use lab::rig::{Rig, RigOptions};
use lab::{CaptureOptions, Evidence, Host, Lab, LabOptions, Program, Side, Transport};
use netio::pcap::Reader;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tests::strongswan::{self, Charon, Child, Proposal, inner, outer};
use tests::{PATIENCE, Scratch, binary, program, protect_network, wait_until};

/// What both have: every cipher, every MAC. kernel-libipsec knows neither GMAC nor extended sequence numbers.
const PROPOSALS: [Proposal; 21] = [
    Proposal { theirs: "aes128gcm16", ours: "aes128gcm" },
    Proposal { theirs: "aes192gcm16", ours: "aes192gcm" },
    Proposal { theirs: "aes256gcm16", ours: "aes256gcm" },
    Proposal { theirs: "aes128gcm12", ours: "aes128gcm12" },
    Proposal { theirs: "aes256gcm8", ours: "aes256gcm8" },
    Proposal { theirs: "aes128ccm16", ours: "aes128ccm" },
    Proposal { theirs: "aes192ccm12", ours: "aes192ccm12" },
    Proposal { theirs: "aes256ccm8", ours: "aes256ccm8" },
    Proposal { theirs: "chacha20poly1305", ours: "chacha20poly1305" },
    Proposal { theirs: "aes128-sha256", ours: "aes128cbc-sha256" },
    Proposal { theirs: "aes192-sha384", ours: "aes192cbc-sha384" },
    Proposal { theirs: "aes256-sha512", ours: "aes256cbc-sha512" },
    Proposal { theirs: "aes128-sha1", ours: "aes128cbc-sha1" },
    Proposal { theirs: "aes128-aesxcbc", ours: "aes128cbc-aesxcbc" },
    Proposal { theirs: "aes256-aescmac", ours: "aes256cbc-aescmac" },
    Proposal { theirs: "aes128ctr-sha256", ours: "aes128ctr-sha256" },
    Proposal { theirs: "null-sha256", ours: "null-sha256" },
    Proposal { theirs: "camellia128-sha256", ours: "camellia128cbc-sha256" },
    Proposal { theirs: "camellia256-sha512", ours: "camellia256cbc-sha512" },
    Proposal { theirs: "3des-sha1", ours: "3des-sha1" },
    Proposal { theirs: "aes128-md5", ours: "aes128cbc-md5" },
];

const PORT: u16 = 7020;

/// Sends lines and gets them back, in both directions of one TCP connection; several segments each way.
const CLIENT: &str = r#"
import socket, sys
line = b"the answer to this line is this line\n" * 400
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 15)
got = b""
s.sendall(line)
s.shutdown(socket.SHUT_WR)
while True:
    data = s.recv(65536)
    if not data:
        break
    got += data
print("same" if got == line else "different: %d of %d octets" % (len(got), len(line)))
"#;

/// Answers one connection after the other with what came.
const SERVER: &str = r#"
import socket, sys
s = socket.create_server(("0.0.0.0", int(sys.argv[1])))
while True:
    c, _ = s.accept()
    while True:
        data = c.recv(65536)
        if not data:
            break
        c.sendall(data)
    c.close()
"#;

/// A ping and a TCP connection from one host to the other's address in the tunnel.
fn talk(from: &Host, to: Side) {
    let address = inner(to).to_string();
    let ping =
        Program::new(program("ping")).args(["-n", "-c", "3", "-w", "15", "-i", "0.2", "-s", "900", &address]);
    let done = from.run_program(ping, PATIENCE).unwrap();
    // With a deadline it asks until three answers came: a busy machine may lose one.
    assert!(done.status.success() && done.out().contains("3 received"), "{}{}", done.out(), done.err());
    connect(from, to);
}

fn connect(from: &Host, to: Side) {
    let args = ["-c", CLIENT, &inner(to).to_string(), &PORT.to_string()];
    let done = from.run_program(Program::new(program("python3")).args(args), PATIENCE).unwrap();
    assert_eq!(done.out().trim(), "same", "{}", done.err());
}

fn serve(host: &Host) -> lab::Running {
    let server = Program::new(program("python3")).args(["-c", SERVER, &PORT.to_string()]);
    let mut server = host.spawn(server).unwrap();
    host.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).unwrap();
    server
}

/// Wait until nothing is under way, so that ending a child loses no packet between the device and the wire. The client sends
/// the first FIN and keeps its socket; the server's goes with the acknowledgement of the second one, the last packet there is.
fn settle(server: &Host) {
    let ours = format!(":{PORT:04X}");
    wait_until("the end of the server's connection", PATIENCE, || {
        let table = server.run(|| fs::read_to_string("/proc/thread-self/net/tcp")).unwrap().unwrap();
        // Number, local address, remote address, state: all but LISTEN.
        let mut sockets = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        !sockets.any(|socket| socket[1].ends_with(&ours) && socket[3] != "0A")
    });
}

fn addresses(lab: &Lab) {
    for side in Side::BOTH {
        strongswan::add_inner(lab.host(side)).unwrap();
    }
}

/// An inbound association of a keys file: what `from` sends to `to`.
fn receives(from: Side, to: Side, suite: &str, spi: &str, key: &str) -> String {
    let document = json!({
        "direction": "in", "spi": spi, "local": to.v4(), "remote": from.v4(), "mode": "tunnel", "suite": suite,
        "keymat": key, "selector_local": format!("{}/32", inner(to)), "selector_remote": format!("{}/32", inner(from)),
    });
    format!("{document}\n")
}

/// ESP packets on the wire: UDP to port 4500 that is neither IKE nor a keepalive.
fn esp_packets(evidence: &Evidence) -> usize {
    let is_esp = |packet: &[u8]| {
        packet.len() > 40
            && packet[0] == 0x45
            && packet[9] == 17
            && packet[22..24] == 4500u16.to_be_bytes()
            && packet[28..32] != [0; 4]
    };
    evidence.frames.iter().filter(|seen| is_esp(seen.packet())).count()
}

/// The packets of a capture between the two inner addresses, sorted.
fn inner_packets(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path).unwrap();
    let frames = std::iter::from_fn(|| reader.next_frame().unwrap());
    let ends = Side::BOTH.map(|side| inner(side).octets());
    let mut packets: Vec<Vec<u8>> = frames
        .filter_map(|frame| frame.ip().map(<[u8]>::to_vec))
        .filter(|p| {
            p[0] >> 4 == 4
                && ends.iter().any(|end| p[12..16] == *end)
                && ends.iter().any(|end| p[16..20] == *end)
        })
        .collect();
    packets.sort();
    packets
}

/// What only the one has, and only the other, of two sorted lists.
fn only_in(one: &[Vec<u8>], other: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut one, mut other) = (one.to_vec(), other.to_vec());
    for packet in one.clone() {
        if let Ok(at) = other.binary_search(&packet) {
            other.remove(at);
            one.remove(one.binary_search(&packet).unwrap());
        }
    }
    (one, other)
}

/// Every packet of both directions, for every suite that both have: each opens, and what comes out is what strongSwan's own
/// device showed.
#[test]
fn what_two_strongswans_said_opens_here() {
    let options = LabOptions { name: "rvl-swan".to_owned(), segmentation: false };
    let lab = Lab::build(&options).unwrap();
    addresses(&lab);
    let folder = Scratch::new("strongswan");
    let bob = Charon::start(lab.bob(), &folder, false, &PROPOSALS).unwrap();
    let alice = Charon::start(lab.alice(), &folder, false, &PROPOSALS).unwrap();
    let _server = serve(lab.bob());
    let clear = folder.join("clear.pcap");
    // Immediate mode, since what waits in the kernel when tcpdump ends would be lost; short slots, or the ring has but eight.
    let args =
        ["-U", "-n", "-Z", "root", "--immediate-mode", "-s", "2000", "-B", "16384", "-i", "ipsec0", "-w"];
    let tcpdump = Program::new(program("tcpdump")).args(args).arg(&clear);
    let tcpdump = lab.alice().spawn(tcpdump).unwrap();
    tcpdump.wait_for_output("listening on", PATIENCE).unwrap();
    let capture = lab.capture(CaptureOptions::default()).unwrap();
    let mut keys = String::new();
    for Proposal { ours, .. } in &PROPOSALS {
        let Child { spi_in, spi_out, key_in, key_out } = alice.initiate(lab.alice(), ours).unwrap();
        keys.push_str(&receives(Side::Bob, Side::Alice, ours, &spi_in, &key_in));
        keys.push_str(&receives(Side::Alice, Side::Bob, ours, &spi_out, &key_out));
        talk(lab.alice(), Side::Bob);
        settle(lab.bob());
        alice.terminate(lab.alice(), ours).unwrap();
    }
    let evidence = capture.finish().unwrap();
    assert!(evidence.is_complete() && evidence.not_kept == 0);
    tcpdump.signal(libc::SIGINT).unwrap();
    let seen = tcpdump.finish(PATIENCE).unwrap();
    assert!(seen.err().contains("\n0 packets dropped by kernel"), "{}", seen.err());
    drop((alice, bob));

    evidence.write_pcap(&folder.join("wire.pcap")).unwrap();
    fs::write(folder.join("keys"), keys).unwrap();
    fs::write(folder.join("policy"), "application none {\n  network 0.0.0.0/0 trusted;\n}\n").unwrap();
    fs::write(folder.join("ravelin.toml"), "policy = \"policy\"\n[crypto]\nlegacy = true\n").unwrap();
    let mut replay = std::process::Command::new(binary());
    replay.current_dir(&*folder).args(["replay", "--config", "ravelin.toml", "--in", "wire.pcap", "--out"]);
    let done = replay.args(["opened.pcap", "--keys", "keys", "--json"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report = String::from_utf8(done.stdout).unwrap();
    let mut delivered = 0;
    for line in report.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if line["direction"] == "inbound" && line["reason"] != "ike_unsupported" {
            assert_eq!(line["verdict"], "deliver", "{line}");
            delivered += 1;
        }
    }
    assert_eq!(delivered, esp_packets(&evidence));
    // Six of ping and at least eight of TCP for each suite.
    assert!(delivered >= 14 * PROPOSALS.len(), "{delivered}");
    let (opened, seen) = (inner_packets(&folder.join("opened.pcap")), inner_packets(&clear));
    assert_eq!(only_in(&opened, &seen), (Vec::new(), Vec::new()));
}

/// Two strongSwans negotiate; one is killed and Ravelin takes over its associations, while the other notices nothing.
fn ravelin_takes_over(name: &str, v6: bool, proposal: Proposal) {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    addresses(&rig.lab);
    let bob = Charon::start(rig.lab.bob(), rig.folder(), v6, &[proposal]).unwrap();
    let alice = Charon::start(rig.lab.alice(), rig.folder(), v6, &[proposal]).unwrap();
    let child = alice.initiate(rig.lab.alice(), proposal.ours).unwrap();
    alice.kill().unwrap();

    let (local, remote) = (inner(Side::Alice), inner(Side::Bob));
    strongswan::ip(rig.lab.alice(), &format!("route replace {remote}/32 dev eth0 src {local}")).unwrap();
    let policy: String =
        ["ping", "python3"].iter().map(|name| protect_network(&program(name), &remote.to_string())).collect();
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.start(Side::Alice).unwrap();
    for (direction, spi, key) in
        [("in", &child.spi_in, &child.key_in), ("out", &child.spi_out, &child.key_out)]
    {
        let ends = [Side::Alice, Side::Bob].map(|side| outer(side, v6).to_string());
        let selectors = [format!("{local}/32"), format!("{remote}/32")];
        let args =
            ["sa", "add", "--direction", direction, "--spi", spi, "--local", &ends[0], "--remote", &ends[1]];
        let more = ["--mode", "tunnel", "--suite", proposal.ours, "--selector-local", &selectors[0]];
        let args: Vec<&str> =
            args.into_iter().chain(more).chain(["--selector-remote", &selectors[1]]).collect();
        rig.ravelin(Side::Alice, &args, key).unwrap();
    }

    let capture = rig.lab.capture(CaptureOptions::default()).unwrap();
    let at_bob = serve(rig.lab.bob());
    talk(rig.lab.alice(), Side::Bob);
    drop(at_bob);
    // The other way round: strongSwan's side begins.
    let _at_alice = serve(rig.lab.alice());
    connect(rig.lab.bob(), Side::Alice);

    let wire = capture.finish().unwrap();
    assert_eq!(wire.clear, 0, "{}", wire.all_clear().first().map(ToString::to_string).unwrap_or_default());
    let sas = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    for sa in sas["sas"].as_array().unwrap() {
        assert!(sa["counters"]["packets"].as_u64() >= Some(20), "{sa}");
    }
    bob.kill().unwrap();
}

#[test]
fn ravelin_takes_over_aes_128_gcm() {
    ravelin_takes_over("rvl-swan-gcm", false, Proposal { theirs: "aes128gcm16", ours: "aes128gcm" });
}

#[test]
fn ravelin_takes_over_chacha20_poly1305() {
    let proposal = Proposal { theirs: "chacha20poly1305", ours: "chacha20poly1305" };
    ravelin_takes_over("rvl-swan-chacha", false, proposal);
}

#[test]
fn ravelin_takes_over_aes_128_cbc_with_hmac_sha_256() {
    ravelin_takes_over("rvl-swan-cbc", false, Proposal { theirs: "aes128-sha256", ours: "aes128cbc-sha256" });
}

/// A tunnel of IPv4 in IPv6.
#[test]
fn ravelin_takes_over_across_ipv6() {
    ravelin_takes_over("rvl-swan-v6", true, Proposal { theirs: "aes256gcm16", ours: "aes256gcm" });
}
