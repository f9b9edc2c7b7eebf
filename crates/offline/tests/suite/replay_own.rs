//! Whole ESP packets under mAES-512 through `ravelin replay`, beside those that another program has made from the
//! standards: `oracle/own.txt` by `oracle/own.py`, which says what its lines are and what they cover.
//!
//! Every octet of every packet is compared, except for four: identification and checksum of the outer IPv4 header of a
//! tunnel, where that header may be fragmented. There the identification is the sender's own choice, and the test asks
//! only that the checksum is right. With `--gather` headers of packets in UDP go through what a UDP socket passes on.
//! Opened packets of transport and BEET mode lose identification, DF flag and flow label; sealed ones of transport mode
//! lose identification and flow label.

use crate::replay_kit;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use api::{ReplayLine, ReplayVerdict};
use config::Config;
use crypto::Registry;
use netio::pcap::{Reader, Writer};
use offline::replay::{EngineOptions, Replay, ReplayOptions, run};
use replay_kit::{Line, inner_hosts, step};
use serde_json::json;
use wire::ip::Headers;

const PACKETS: &str = include_str!("../oracle/own.txt");
/// One suite of each composition; they have every form.
const COMPOSITIONS: [&str; 4] =
    ["maes512ctr-sha256", "maes512cbc-sha256", "maes512gcm", "maes512ctr-aes256gcm"];

/// The cipher is in the configuration. Rules decide about packets here, so its policy is any that loads.
static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gather");
    let text =
        "policy = \"policy\"\n[crypto]\nlegacy = true\n[[cipher]]\nbuiltin = \"maes512\"\nalone = true\n";
    Config::parse(&folder.join("ravelin.toml"), text).unwrap()
});

/// The units that `run` makes of that configuration, for tests with many engines.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    documents::crypto_units::untimed(&CONFIG.crypto, &mut |_, _| Err("nothing is loaded here".to_owned()))
        .unwrap()
});

/// A line of the oracle: an association, and a packet inside and outside of it.
struct OracleLine {
    text: &'static str,
    suite: &'static str,
    mode: &'static str,
    families: &'static str,
    encapsulation: &'static str,
    extended: bool,
    sequence: u64,
    spi: u32,
    keymat: &'static str,
    inner: Vec<u8>,
    outer: Vec<u8>,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn oracle_line(text: &'static str) -> OracleLine {
    let [suite, mode, families, encapsulation, bits, sequence, spi, keymat, inner, outer] =
        text.split(' ').collect::<Vec<_>>()[..]
    else {
        panic!("{text}")
    };
    assert!(bits == "64" || bits == "32", "{text}");
    OracleLine {
        text,
        suite,
        mode,
        families,
        encapsulation,
        extended: bits == "64",
        sequence: sequence.parse().unwrap(),
        spi: u32::from_str_radix(spi.strip_prefix("0x").unwrap(), 16).unwrap(),
        keymat,
        inner: unhex(inner),
        outer: unhex(outer),
    }
}

fn oracle_lines() -> Vec<OracleLine> {
    PACKETS.lines().map(oracle_line).collect()
}

impl OracleLine {
    /// The form without the suite: mode, families, encapsulation, bits of the sequence number.
    fn form(&self) -> Vec<&'static str> {
        self.text.split(' ').skip(1).take(4).collect()
    }

    /// The association as an end has it, and the rule that lets it carry this flow. `sequence` is the number of the
    /// first packet to send, or the highest that was received. The port inside is the SPI, at the sender's end.
    fn file(&self, direction: &str, sequence: u64) -> String {
        let (inner_v6, outer_v6) = (self.families.starts_with('6'), self.families.ends_with('6'));
        let mut line = Line::new(outer_v6, self.mode, self.suite, 0)
            .with("spi", format!("{:#x}", self.spi))
            .with("keymat", self.keymat)
            .with("encapsulation", self.encapsulation)
            .with("esn", self.extended)
            .with("sequence", sequence)
            .with("protocol", "udp");
        if self.mode != "transport" {
            let (from, to) = inner_hosts(inner_v6);
            line = line.with("selector_local", from.to_string()).with("selector_remote", to.to_string());
        }
        let side = if direction == "out" { "local" } else { "remote" };
        let alone = if self.suite == "maes512gcm" { " alone" } else { "" };
        let rule = json!({ "rule": {
            "direction": direction,
            "selectors": [format!("proto udp {side}-port {}", self.spi)],
            "action": "protect",
            "suite": format!("{}{alone}", self.suite),
        }});
        let line = line.with(&format!("{side}_ports"), self.spi.to_string()).text(direction);
        format!("{line}{rule}\n")
    }

    fn sender(&self) -> String {
        self.file("out", self.sequence)
    }

    fn receiver(&self) -> String {
        self.file("in", self.sequence - 1)
    }

    /// An outer packet as far as RFC and documentation determine it.
    fn determined(&self, outer: &[u8]) -> Vec<u8> {
        let mut octets = outer.to_vec();
        if outer[0] >> 4 == 4 {
            let headers = Headers::parse(outer).unwrap();
            assert!(wire::ip::checksum_ok(outer, &headers), "{}", self.text);
            let may_fragment = outer[6] & 0x40 == 0;
            if self.mode == "tunnel" && may_fragment {
                octets[4..6].fill(0);
                octets[10..12].fill(0);
            }
        }
        octets
    }

    /// A packet as far as its header went through a UDP socket, which has no identification, DF flag or flow label.
    fn through_a_socket(&self, packet: &[u8], inbound: bool) -> Vec<u8> {
        let mut octets = packet.to_vec();
        let is_anew = self.mode == "transport" || self.mode == "beet" && inbound;
        match octets[0] >> 4 {
            _ if !is_anew || self.encapsulation != "udp" => {}
            4 => {
                [4, 5, 10, 11].into_iter().for_each(|at| octets[at] = 0);
                octets[6] &= if inbound { 0xbf } else { 0xff };
            }
            _ => {
                octets[1] &= 0xf0;
                octets[2..4].fill(0);
            }
        }
        octets
    }

    /// The offset of the ESP header in the outer packet.
    fn esp_at(&self) -> usize {
        let ip = if self.families.ends_with('6') { 40 } else { 20 };
        ip + if self.encapsulation == "udp" { 8 } else { 0 }
    }
}

/// A folder of one replay, gone at its end.
struct ReplayFolder(PathBuf);

impl ReplayFolder {
    fn new(name: &str) -> ReplayFolder {
        let folder = std::env::temp_dir().join(format!("ravelin-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        ReplayFolder(folder)
    }
}

impl Drop for ReplayFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `ravelin replay` says and writes about a capture of these packets.
fn replayed(name: &str, file: &str, packets: &[Vec<u8>], gather: bool) -> (Vec<ReplayLine>, Vec<Vec<u8>>) {
    let folder = ReplayFolder::new(&format!("{name}-{gather}"));
    let (input, output) = (folder.0.join("in.pcap"), folder.0.join("out.pcap"));
    let mut writer = Writer::create(&input).unwrap();
    for (number, packet) in (1000..).zip(packets) {
        writer.write(Duration::from_millis(number), packet, packet.len().try_into().unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let engine = EngineOptions { gather, ..EngineOptions::default() };
    let options = ReplayOptions { input, output: Some(output.clone()), legacy: false, engine };
    let mut lines = Vec::new();
    let mut keep = |line: &ReplayLine| {
        lines.push(line.clone());
        Ok(())
    };
    let summary = run(Some(&CONFIG), &options, Some(("file", &mut file.as_bytes())), &mut keep).unwrap();
    assert_eq!(summary.packets as usize, packets.len());
    let mut reader = Reader::open(&output).unwrap();
    let mut written = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        written.push(frame.data);
    }
    (lines, written)
}

/// Replay a packet of every line in one capture, with `--gather` and without. Each one becomes one packet, which is put
/// to `check` with the word whether it was gathered.
fn all_replayed(
    verdict: ReplayVerdict,
    file: impl Fn(&OracleLine) -> String,
    packet: impl Fn(&OracleLine) -> Vec<u8>,
    check: impl Fn(&OracleLine, &[u8], bool),
) {
    let oracle = oracle_lines();
    let text: String = oracle.iter().map(file).collect();
    let packets: Vec<_> = oracle.iter().map(packet).collect();
    for gather in [false, true] {
        let (lines, written) = replayed(&verdict.to_string(), &text, &packets, gather);
        assert_eq!(lines.len(), oracle.len());
        for (line, case) in lines.iter().zip(&oracle) {
            let got = (line.verdict, line.written, line.spi, line.sequence);
            let want = (verdict, 1, Some(api::Spi(case.spi)), Some(case.sequence));
            assert_eq!(got, want, "{:?} {}", line.reason, case.text);
        }
        assert_eq!(written.len(), oracle.len());
        oracle.iter().zip(&written).for_each(|(case, packet)| check(case, packet, gather));
    }
}

#[test]
fn the_oracle_makes_the_packets_that_are_kept() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/own.py");
    let out = Command::new("python3").arg("-B").arg(program).output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    if errors.contains("No module named 'cryptography'") {
        assert!(std::env::var_os("CI").is_none(), "python3 with the package `cryptography` is not installed");
        println!("skipped: python3 with the package `cryptography` is not installed");
        return;
    }
    assert!(out.status.success(), "{errors}");
    let made = String::from_utf8(out.stdout).unwrap();
    for (made, kept) in made.lines().zip(PACKETS.lines()) {
        assert_eq!(made, kept);
    }
    assert_eq!(made.len(), PACKETS.len());
}

#[test]
fn replay_opens_every_packet_of_the_oracle() {
    let check = |case: &OracleLine, packet: &[u8], gather: bool| {
        let comparable = |packet: &[u8]| match gather {
            true => case.through_a_socket(packet, true),
            false => packet.to_vec(),
        };
        assert_eq!(comparable(packet), comparable(&case.inner), "{}", case.text);
    };
    all_replayed(ReplayVerdict::Deliver, OracleLine::receiver, |case| case.outer.clone(), check);
}

#[test]
fn replay_makes_every_packet_of_the_oracle() {
    let check = |case: &OracleLine, packet: &[u8], gather: bool| {
        let comparable = |packet: &[u8]| match gather {
            true => case.through_a_socket(&case.determined(packet), false),
            false => case.determined(packet),
        };
        assert_eq!(comparable(packet), comparable(&case.outer), "{}", case.text);
    };
    all_replayed(ReplayVerdict::Protect, OracleLine::sender, |case| case.inner.clone(), check);
}

/// The line of a composition that the next two tests change: 64-bit numbers whose halves both count, in UDP over IPv6.
fn changed_line(composition: &str) -> OracleLine {
    let fits = |line: &OracleLine| {
        line.suite == composition
            && line.extended
            && line.sequence >> 32 > 0
            && line.sequence as u32 > 0
            && line.encapsulation == "udp"
            && line.families.ends_with('6')
    };
    oracle_lines().into_iter().find(fits).unwrap()
}

#[test]
fn a_changed_packet_of_each_composition_does_not_open() {
    for composition in COMPOSITIONS {
        let case = changed_line(composition);
        let esp = case.esp_at();
        let mut packets: Vec<_> = (esp..case.outer.len()).map(|_| case.outer.clone()).collect();
        for (octet, packet) in packets.iter_mut().enumerate() {
            packet[esp + octet] ^= 1 << (octet % 8);
        }
        // The genuine one still opens behind all of them.
        packets.push(case.outer.clone());
        let (lines, written) = replayed(composition, &case.receiver(), &packets, false);
        assert_eq!(written, std::slice::from_ref(&case.inner), "{}", case.text);
        let (genuine, forged) = lines.split_last().unwrap();
        assert_eq!(genuine.verdict, ReplayVerdict::Deliver, "{}", case.text);
        for (octet, line) in forged.iter().enumerate() {
            let reason = line.reason.as_deref().unwrap_or_default();
            let wants: &[&str] = match octet {
                0..4 => &["unknown_spi"],
                // A smaller number may be left of the window.
                4..8 => &["auth_failed", "replay_too_old"],
                _ => &["auth_failed"],
            };
            assert!(wants.contains(&reason), "octet {octet} {reason} {}", case.text);
        }
        // From far below, the upper half of the number is taken for zero.
        let (lines, written) = replayed(composition, &case.file("in", 0), &[case.outer], false);
        assert_eq!((lines[0].reason.as_deref(), written.len()), (Some("auth_failed"), 0), "{}", case.text);
    }
}

#[test]
fn every_octet_of_keying_material_counts_for_each_composition() {
    let seal = |case: &OracleLine, file: &str, inner: &[u8]| {
        let options = EngineOptions::default();
        let mut replay =
            Replay::new(Some(&CONFIG), &options, Some(("file", &mut file.as_bytes())), &REGISTRY).unwrap();
        let (line, mut made) = step(&mut replay, inner);
        assert_eq!((line.verdict, made.len()), (ReplayVerdict::Protect, 1), "{}", case.text);
        made.remove(0)
    };
    for composition in COMPOSITIONS {
        let case = changed_line(composition);
        let (file, keymat) = (case.sender(), unhex(case.keymat));
        assert_eq!(seal(&case, &file, &case.inner), case.outer, "{}", case.text);
        for octet in 0..keymat.len() {
            let mut other = keymat.clone();
            other[octet] ^= 0x10;
            let other: String = other.iter().map(|octet| format!("{octet:02x}")).collect();
            let made = seal(&case, &file.replace(case.keymat, &other), &case.inner);
            assert_ne!(made, case.outer, "octet {octet} {}", case.text);
        }
        let mut inner = case.inner.clone();
        *inner.last_mut().unwrap() ^= 1;
        assert_ne!(seal(&case, &file, &inner), case.outer, "{}", case.text);
    }
}

#[test]
fn the_oracle_covers_every_suite_mode_family_and_encapsulation() {
    let oracle = oracle_lines();
    let suites = &CONFIG.crypto.ciphers.suites;
    let own: BTreeSet<String> =
        suites.all().filter(|suite| suite.custom().is_some()).map(|suite| suite.to_string()).collect();
    let covered: BTreeSet<String> = oracle.iter().map(|line| line.suite.to_owned()).collect();
    assert_eq!((covered.len(), &covered), (16, &own));
    for suite in &covered {
        let lines = || oracle.iter().filter(|line| line.suite == suite);
        let forms: BTreeSet<_> = lines().map(OracleLine::form).collect();
        let shapes: BTreeSet<_> = lines().map(|line| (line.mode, line.families)).collect();
        let ways: BTreeSet<_> = lines().map(|line| (line.encapsulation, line.extended)).collect();
        // Transport mode in two families, tunnel and BEET mode in four pairs; in UDP and without; short and long
        // numbers.
        let want = if COMPOSITIONS.contains(&suite.as_str()) { 10 * 4 } else { 10 };
        assert_eq!((forms.len(), lines().count(), shapes.len(), ways.len()), (want, want, 10, 4), "{suite}");
    }
    assert_eq!(oracle.len(), 4 * 40 + 12 * 10);
    let sequences: BTreeSet<_> = oracle.iter().map(|line| line.sequence as u32).collect();
    assert!(sequences.contains(&0) && sequences.contains(&u32::MAX), "both edges of the lower half");
}
