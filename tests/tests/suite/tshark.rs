//! tshark decrypts what this engine sealed: for every suite that it knows, transport and tunnel mode, both families, bare and in UDP.

use crypto::SuiteId;
use netio::pcap::Writer;
use sadb::Spi;
use sadb::wireshark::esp_sa;
use serde_json::json;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tests::{Scratch, binary, program};
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::{protocol, udp};

/// The port of the first association; every association has one of its own, by which its packets find it.
const FIRST: u16 = 20000;

struct Case {
    suite: SuiteId,
    tunnel: bool,
    v6: bool,
    bare: bool,
    port: u16,
}

impl Case {
    fn ends(&self) -> (IpAddr, IpAddr) {
        let ends = if self.v6 { ["2001:db8::a", "2001:db8::b"] } else { ["192.0.2.10", "192.0.2.11"] };
        let [source, destination] = ends.map(|end| end.parse().unwrap());
        (source, destination)
    }

    fn spi(&self) -> u32 {
        0x10000 + u32::from(self.port)
    }

    /// Keying material of the case; no two cases have the same.
    fn keymat(&self) -> Vec<u8> {
        let [high, low] = self.port.to_be_bytes();
        (0..self.suite.keymat_len())
            .map(|i| (i as u8).wrapping_mul(29) ^ if i % 2 == 0 { low } else { high })
            .collect()
    }

    /// A line of a keys file.
    fn line(&self) -> String {
        let (local, remote) = self.ends();
        let keymat: String = self.keymat().iter().map(|octet| format!("{octet:02x}")).collect();
        let mode = if self.tunnel { "tunnel" } else { "transport" };
        let document = json!({
            "direction": "out", "spi": format!("{:#x}", self.spi()), "local": local, "remote": remote, "mode": mode,
            "encapsulation": if self.bare { "none" } else { "udp" }, "suite": self.suite.to_string(), "keymat": keymat,
            "protocol": "udp", "remote_ports": self.port.to_string(),
        });
        format!("{document}\n")
    }

    /// A UDP packet for it.
    fn packet(&self) -> Vec<u8> {
        let (source, destination) = self.ends();
        let payload: Vec<u8> = (0..self.port % 50 + 40).map(|i| (i as u8).wrapping_mul(7)).collect();
        let mut datagram = vec![0; udp::HEADER_LEN];
        let repr = udp::UdpRepr { src_port: 40000, dst_port: self.port, payload_len: payload.len() };
        udp::emit(&mut datagram, &repr).unwrap();
        datagram.extend(payload);
        udp::Udp::new_checked(&mut datagram[..]).unwrap().fill_checksum(source, destination);
        let payload_len = datagram.len();
        let mut packet = vec![0; if self.v6 { 40 } else { 20 }];
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let protocol = protocol::UDP;
                let repr =
                    Ipv4Repr { src, dst, protocol, ttl: 63, tos: 0, id: self.port, df: true, payload_len };
                ipv4::emit(&mut packet, &repr).unwrap();
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let next_header = protocol::UDP;
                let (hop_limit, traffic_class, flow_label) = (63, 0, u32::from(self.port));
                let repr =
                    Ipv6Repr { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len };
                ipv6::emit(&mut packet, &repr).unwrap();
            }
            _ => unreachable!("both ends are of one family"),
        }
        packet.extend(datagram);
        packet
    }

    /// What the ESP header encloses of that packet.
    fn enclosed(&self, packet: &[u8]) -> Vec<u8> {
        let from =
            if self.tunnel { 0 } else { packet.len() - usize::from(self.port % 50) - 40 - udp::HEADER_LEN };
        packet[from..].to_vec()
    }

    fn row(&self) -> Option<String> {
        let (source, destination) = self.ends();
        esp_sa(source, destination, Spi(self.spi()), self.suite, &self.keymat()).map(|row| row.to_string())
    }
}

/// Every suite that it knows, in every form.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for suite in SuiteId::all() {
        for form in 0..8 {
            let port = FIRST + cases.len() as u16;
            cases.push(Case { suite, tunnel: form & 1 != 0, v6: form & 2 != 0, bare: form & 4 != 0, port });
        }
    }
    cases.retain(|case| case.row().is_some());
    cases
}

/// What the engine makes of each case's packet.
fn seal(folder: &Path, cases: &[Case]) {
    let mut item = String::new();
    for network in ["192.0.2.11", "2001:db8::b"] {
        item.push_str(&format!("  network {network} protected P;\n"));
    }
    item.push_str("  protection P { localport=any remoteport=any authentication mandatory; }\n");
    fs::write(folder.join("policy"), format!("application tester {{\n{item}}}\n")).unwrap();
    fs::write(folder.join("ravelin.toml"), "policy = \"policy\"\n[crypto]\nlegacy = true\n").unwrap();
    fs::write(folder.join("keys"), cases.iter().map(Case::line).collect::<String>()).unwrap();
    let mut writer = Writer::create(&folder.join("clear.pcap")).unwrap();
    for case in cases {
        let packet = case.packet();
        writer.write(Duration::from_millis(u64::from(case.port)), &packet, packet.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    let mut replay = Command::new(binary());
    replay.current_dir(folder).args(["replay", "--config", "ravelin.toml", "--in", "clear.pcap", "--out"]);
    let done = replay.args(["esp.pcap", "--keys", "keys", "--app", "tester"]).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{}{printed}", String::from_utf8_lossy(&done.stderr));
    assert!(printed.contains(&format!("{0} packets read, {0} written, 0 dropped", cases.len())), "{printed}");
}

#[test]
fn tshark_decrypts_what_is_sealed_here() {
    let folder = Scratch::new("tshark");
    let cases = cases();
    seal(&folder, &cases);

    let decrypted = |keys: bool| {
        let mut tshark = Command::new(program("tshark"));
        tshark.args(["-r", "esp.pcap", "-n", "-T", "fields", "-e", "esp.spi", "-e", "esp.contained_data"]);
        tshark.current_dir(&*folder).env("HOME", &*folder);
        if keys {
            tshark.args(["-o", "esp.enable_encryption_decode:TRUE"]);
            for row in cases.iter().filter_map(Case::row) {
                tshark.args(["-o", &format!("uat:esp_sa:{row}")]);
            }
        }
        let done = tshark.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let (opened, closed) = (decrypted(true), decrypted(false));
    assert_eq!((opened.lines().count(), closed.lines().count()), (cases.len(), cases.len()));
    for ((case, opened), closed) in cases.iter().zip(opened.lines()).zip(closed.lines()) {
        let packet = case.packet();
        let enclosed: String = case.enclosed(&packet).iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(opened, format!("{:#010x}\t{enclosed}", case.spi()), "{} {}", case.suite, case.port);
        // It was the keys that opened it.
        assert!(!closed.contains(&enclosed), "{closed}");
    }
    // GCM; CBC, CTR, 3DES, DES and null with seven MACs each.
    let known = 9 + (3 + 3 + 1 + 1 + 1) * 7;
    assert_eq!(cases.len(), known * 8);
}
