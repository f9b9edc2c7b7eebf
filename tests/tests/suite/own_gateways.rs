//! Figures 2 and 4 of paper 004: two networks whose hosts have nothing installed, gateways with a cipher of one's own at their
//! borders, and a computer between them that records.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;

use lab::{CaptureOptions, Side};
use tests::sites::{Sites, host, network, python, serve, sh};
use tests::{PATIENCE, binary};

const CIPHER: &str = "[[cipher]]\nbuiltin = \"maes512\"\n";
const SUITE: &str = "maes512ctr-sha256";
/// The port of a server whose flows are protected, and that of one whose flows are clear by rule.
const PROTECTED: u16 = 80;
const CLEAR: u16 = 8080;

/// Sends a marker many times to each connection (port, marker), from both families.
const SERVER: &str = r#"
import socket, sys
s = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(sys.argv[2].encode() * 4000)
    c.close()
"#;

/// Reads all that a server sends (address, port, marker) and prints how many markers these are.
const CLIENT: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
print(b"".join(iter(lambda: s.recv(65536), b"")).count(sys.argv[3].encode()))
"#;

fn other(side: Side) -> Side {
    if side == Side::Alice { Side::Bob } else { Side::Alice }
}

/// TCP port 80 between the networks is protected by the cipher of one's own, the rest is clear.
fn rules(side: Side) -> String {
    let mut out = String::new();
    for v6 in [false, true] {
        let (local, remote) = (network(side, v6), network(other(side), v6));
        let selectors = ["remote-port", "local-port"]
            .map(|port| format!("\"local {local} remote {remote} proto tcp {port} {PROTECTED}\""))
            .join(",");
        let _ = writeln!(
            out,
            r#"{{"rule":{{"direction":"both","selectors":[{selectors}],"action":"protect","suite":"{SUITE}"}}}}"#
        );
    }
    out + "{\"rule\":{\"direction\":\"both\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n"
}

/// The two ends of a tunnel for each direction and family, with fresh keys: lines for both gateways, and those that receive.
fn associations() -> ([String; 2], String) {
    let (mut lines, mut receiving) = ([String::new(), String::new()], String::new());
    for (number, (v6, from)) in
        [(false, Side::Alice), (false, Side::Bob), (true, Side::Alice), (true, Side::Bob)]
            .into_iter()
            .enumerate()
    {
        let to = other(from);
        let mut key = [0; 100];
        netio::random::fill(&mut key).unwrap();
        let key: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        for (direction, here, there) in [("out", from, to), ("in", to, from)] {
            let address = |side: Side| if v6 { side.v6().to_string() } else { side.v4().to_string() };
            let line = serde_json::json!({
                "direction": direction, "spi": 0x4000 + number, "local": address(here), "remote": address(there),
                "mode": "tunnel", "suite": SUITE, "keymat": key,
                "selector_local": network(here, v6), "selector_remote": network(there, v6),
            });
            let _ = writeln!(lines[here as usize], "{line}");
            if direction == "in" {
                let _ = writeln!(receiving, "{line}");
            }
        }
    }
    (lines, receiving)
}

#[test]
fn networks_behind_gateways_are_protected_by_it_and_the_middle_reads_nothing() {
    let mut sites = Sites::without_daemons("rvl-owngw", 1500).unwrap();
    sites.start(rules, CIPHER).unwrap();
    let (lines, receiving) = associations();
    let secret = |name: &str, text: &str| {
        let path = sites.rig.folder().join(name);
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path.display().to_string()
    };
    for side in Side::BOTH {
        sites.rig.ravelin(side, &["sa", "flush"], "").unwrap();
        let file = secret(&format!("{}.sas", side.name()), &lines[side as usize]);
        sites
            .rig
            .ravelin(
                side,
                &["import", &file, "--config", &sites.rig.config_file(side).display().to_string()],
                "",
            )
            .unwrap();
    }
    let read = |port: u16, marker: &str| {
        let server = sites.host(Side::Bob);
        let (_server, _) = serve(server, SERVER, &[&port.to_string(), marker]).unwrap();
        for v6 in [false, true] {
            let args = [host(Side::Bob, v6), &port.to_string(), marker];
            let got = python(sites.host(Side::Alice), CLIENT, &args, PATIENCE).unwrap();
            assert_eq!(got.trim(), "4000", "port {port}, IPv6 {v6}");
        }
    };
    let record = |marker: &str| {
        let watch = vec![marker.as_bytes().to_vec()];
        sites.rig.lab.capture(CaptureOptions { keep: 4 << 20, watch }).unwrap()
    };

    // Packets as they would be on a wire, so that the recording is one of packets.
    for side in Side::BOTH {
        sh(sites.rig.lab.host(side).netns(), "ip link set eth0 gso_max_segs 1").unwrap();
    }

    // The recording of the middle has no marker of the protected flow, and has one of the clear flow.
    let hidden = "a marker that nobody in the middle reads";
    let capture = record(hidden);
    read(PROTECTED, hidden);
    let wire = capture.finish().unwrap();
    let longest = wire.esp_packets().iter().map(|seen| seen.packet().len()).max();
    assert!(wire.is_complete() && wire.esp > 200 && longest <= Some(1500), "{} {longest:?}", wire.esp);
    assert!(!wire.contains_bytes(hidden.as_bytes()));
    let recording = sites.rig.folder().join("middle.pcap");
    wire.write_pcap(&recording).unwrap();
    let open = "a marker that everybody in the middle reads";
    let capture = record(open);
    read(CLEAR, open);
    assert!(capture.finish().unwrap().contains_bytes(open.as_bytes()));

    // Whoever has the keys and the cipher reads the recording.
    let keys = format!(
        "{{\"rule\":{{\"direction\":\"both\",\"selectors\":[\"any\"],\"action\":\"protect\",\"suite\":\"{SUITE}\"}}}}\n{receiving}"
    );
    let (keys, decrypted) = (secret("keys", &keys), sites.rig.folder().join("read.pcap"));
    let config = sites.rig.folder().join("replay.toml");
    let policy = secret("none.policy", "");
    std::fs::write(&config, format!("policy = \"{policy}\"\n{CIPHER}")).unwrap();
    let args = [
        "replay",
        "--direction",
        "in",
        "--config",
        &config.display().to_string(),
        "--keys",
        &keys,
        "--in",
        &recording.display().to_string(),
        "--out",
        &decrypted.display().to_string(),
    ];
    let done = std::process::Command::new(binary()).args(args).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}");
    let octets = std::fs::read(&decrypted).unwrap();
    let found = octets.windows(hidden.len()).filter(|part| *part == hidden.as_bytes()).count();
    assert!(found > 4000, "{found} markers in {} octets: {said}", octets.len());

    // Both ends say what carried it.
    for side in Side::BOTH {
        let list = sites.rig.json(side, &["sa", "list"]).unwrap();
        for sa in list["sas"].as_array().unwrap() {
            assert!(sa["suite"] == SUITE && sa["counters"]["packets"].as_u64() > Some(0), "{sa}");
        }
        let rules = sites.rig.json(side, &["spd", "list"]).unwrap();
        assert_eq!(rules["rules"][0]["suite"], SUITE);
    }
}
