//! `ravelin replay --gather`: by the daemon's own paths, bursts both ways, and line for line and octet for octet what the same packets
//! give one by one.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use api::ReplayLine;
use config::Config;
use netio::pcap::{Frame, LinkType};
use offline::replay::{EngineOptions, Replay, ReplayError};
use proptest::prelude::*;

use crate::replay_kit::{Line, datagram, inner_hosts, ip, registry};

/// What decides about packets: an application's policy, as in most daemons, so that all fast paths are open; or the associations,
/// which are rules then, and rules see packets one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decided {
    ByPolicy,
    ByAssociations,
}

const APP: &str = "/usr/bin/probe";
static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gather");
    Config::parse(&folder.join("ravelin.toml"), "policy = \"policy\"\n").unwrap()
});

/// What a replay said and wrote.
#[derive(Debug, Default, PartialEq)]
struct ReplayOutput {
    lines: Vec<ReplayLine>,
    packets: Vec<(Duration, Vec<u8>)>,
}

fn frames(packets: &[Vec<u8>]) -> Vec<Frame> {
    let frame = |(place, bytes): (usize, &Vec<u8>)| Frame {
        time: Duration::from_micros(1_000_000 + 700 * place as u64),
        link: LinkType::Raw,
        data: bytes.clone(),
        original_len: bytes.len() as u32,
    };
    packets.iter().enumerate().map(frame).collect()
}

/// One by one, or gathered; and how many went together with others.
fn run(by: Decided, file: &str, packets: &[Vec<u8>], gather: bool) -> (ReplayOutput, u64) {
    let config = (by == Decided::ByPolicy).then(|| &*CONFIG);
    let app = config.map(|_| APP.to_owned());
    let options = EngineOptions { hex: true, gather, app, ..EngineOptions::default() };
    let mut replay = Replay::new(config, &options, Some(("file", &mut file.as_bytes())), registry()).unwrap();
    let mut told = ReplayOutput::default();
    let ended = |replay: &mut Replay, lines: &mut Vec<ReplayLine>| lines.extend(replay.take_ended());
    for (index, frame) in (1..).zip(frames(packets)) {
        let time = frame.time;
        let lines = if gather {
            let packets = &mut told.packets;
            let mut write = |time, bytes: &[u8]| {
                packets.push((time, bytes.to_vec()));
                Ok::<(), ReplayError>(())
            };
            replay.gather(index, frame, &mut write).unwrap()
        } else {
            let packets = &mut told.packets;
            let line = replay.frame(index, &frame, &mut |bytes| {
                packets.push((time, bytes.to_vec()));
                Ok(())
            });
            vec![line.unwrap()]
        };
        ended(&mut replay, &mut told.lines);
        told.lines.extend(lines);
    }
    let packets = &mut told.packets;
    let mut write = |time, bytes: &[u8]| {
        packets.push((time, bytes.to_vec()));
        Ok::<(), ReplayError>(())
    };
    let lines = replay.flush(&mut write).unwrap();
    told.lines.extend(lines);
    replay.finish();
    ended(&mut replay, &mut told.lines);
    let together = replay.together();
    (told, together)
}

/// The same both ways; what was written, and how many packets went together.
fn same_both_ways(by: Decided, file: &str, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, u64) {
    let (alone, none) = run(by, file, packets, false);
    let (gathered, together) = run(by, file, packets, true);
    assert_eq!(none, 0);
    for (alone, gathered) in alone.lines.iter().zip(&gathered.lines) {
        assert_eq!(alone, gathered);
    }
    assert_eq!(alone, gathered);
    (alone.packets.into_iter().map(|(_, packet)| packet).collect(), together)
}

const SUITES: [(&str, usize); 4] =
    [("aes128gcm", 20), ("chacha20poly1305", 36), ("aes128cbc-sha256", 48), ("null-sha1", 20)];

/// Both ends of an association of a tunnel, with rules: one port is in clear, one is refused, the rest is protected.
fn files(suite: usize, v6: bool, encapsulation: &str) -> [String; 2] {
    let (name, len) = SUITES[suite];
    let ends = inner_hosts(v6);
    let line = Line::new(v6, "tunnel", name, len)
        .with("selector_local", ends.0.to_string())
        .with("selector_remote", ends.1.to_string())
        .with("encapsulation", encapsulation);
    ["out", "in"].map(|way| line.clone().text(way))
}

/// One packet of a program: port, octets, traffic class, and what is wrong with it.
#[derive(Clone, Debug)]
struct SentFrame {
    port: u16,
    len: usize,
    tos: u8,
    fault: u8,
}

fn sent() -> impl Strategy<Value = SentFrame> {
    let len = prop_oneof![4 => Just(1200_usize), 4 => 0..200_usize, 1 => 1300..1600_usize];
    (
        prop_oneof![6 => Just(53_u16), 2 => 443..446_u16],
        len,
        prop_oneof![6 => Just(0_u8), 1 => any::<u8>()],
        0..20_u8,
    )
        .prop_map(|(port, len, tos, fault)| SentFrame { port, len, tos, fault })
}

fn packet(v6: bool, sent: &SentFrame) -> Vec<u8> {
    let mut ends = inner_hosts(v6);
    if sent.fault == 1 {
        // Nobody's selectors.
        ends.1 = if v6 { ip("2001:db8:c::9") } else { ip("10.9.9.9") };
    }
    let mut bytes = datagram(ends, sent.port, &vec![sent.port as u8; sent.len]);
    if sent.fault == 2 {
        bytes.truncate(bytes.len() / 2);
    }
    if sent.fault == 3 && !v6 {
        // Another header checksum than its own.
        bytes[10] ^= 1;
    } else if !v6 {
        wire::ip::set_tos(&mut bytes, 4, sent.tos);
    }
    bytes
}

/// What happens to an outer packet on its way.
fn on_its_way(outer: &[Vec<u8>], events: &[u8]) -> Vec<Vec<u8>> {
    let mut arrived: Vec<Vec<u8>> = Vec::new();
    for (bytes, event) in outer.iter().zip(events.iter().cycle()) {
        match event {
            1 => {}
            2 => arrived.extend([bytes.clone(), bytes.clone()]),
            3 => {
                let mut forged = bytes.clone();
                if let Some(last) = forged.last_mut() {
                    *last ^= 0x40;
                }
                arrived.push(forged);
            }
            4 => {
                let at = arrived.len().saturating_sub(1);
                arrived.insert(at, bytes.clone());
            }
            _ => arrived.push(bytes.clone()),
        }
    }
    arrived
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn gathered_is_as_one_by_one(
        suite in 0..SUITES.len(),
        v6: bool,
        by in prop_oneof![2 => Just(Decided::ByPolicy), 1 => Just(Decided::ByAssociations)],
        in_udp in prop_oneof![4 => Just(true), 1 => Just(false)],
        sent in proptest::collection::vec(sent(), 1..120),
        events in proptest::collection::vec(0..12_u8, 1..40),
    ) {
        let [out, inb] = files(suite, v6, if in_udp { "udp" } else { "none" });
        let packets: Vec<_> = sent.iter().map(|sent| packet(v6, sent)).collect();
        let (outer, _) = same_both_ways(by, &out, &packets);
        let (_, _) = same_both_ways(by, &inb, &on_its_way(&outer, &events));
    }
}

/// So that the property above is one of bursts.
#[test]
fn packets_that_follow_one_another_go_together() {
    for (suite, (name, _)) in SUITES.iter().enumerate() {
        for (v6, by) in
            [false, true].into_iter().flat_map(|v6| [(v6, Decided::ByPolicy), (v6, Decided::ByAssociations)])
        {
            let [out, inb] = files(suite, v6, "udp");
            let packets = vec![datagram(inner_hosts(v6), 53, &[7; 1200]); 200];
            let (outer, together) = same_both_ways(by, &out, &packets);
            assert_eq!((outer.len(), together), (200, 200), "{name}");
            let (inner, together) = same_both_ways(by, &inb, &outer);
            assert_eq!((inner.len(), together), (200, 200), "{name}");
        }
    }
}
