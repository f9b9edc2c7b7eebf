//! What several tests share: random policies, the flows that matter to them, and a slow evaluator over the syntax
//! tree that knows nothing of the compiled tables.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use policy::ast::{AddressRange, Block, Demand, Item, NetworkKind, Service, Span};
use policy::{Host, Parsed, parse_for};
use proptest::prelude::*;
use qos::graph::Aggregates;
use sadb::spd::{Action, Failure, Level, Negotiating};
use wire::{AggregateId, Flow, Services, addr};

/// A host of which nothing is known but that it has a graph.
pub struct WithGraph(pub Aggregates);

impl WithGraph {
    /// A graph with these classes.
    pub fn of(classes: &[&str]) -> WithGraph {
        let mut catalogue = Aggregates::without_graph();
        for class in classes {
            catalogue.number(class).unwrap();
        }
        WithGraph(catalogue)
    }
}

impl Host for WithGraph {
    fn aggregates(&self) -> &Aggregates {
        &self.0
    }

    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }
}

/// The classes that random items name, with their numbers.
pub const CLASSES: [(&str, AggregateId); 2] = [("ef", AggregateId(2)), ("voice", AggregateId(8))];

/// Reads a text of random items: for a host whose graph has their classes.
pub fn parse(file: &str, text: &str) -> Parsed {
    parse_for(file, text, &WithGraph::of(&CLASSES.map(|(name, _)| name)))
}

/// What the evaluator says: the action, and the statements that led to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub action: Action,
    pub suite: Option<String>,
    pub scrub: Option<&'static str>,
    /// The class as the item writes it.
    pub class: Option<String>,
    /// Whether packets pass in clear while an association is negotiated, and when there will be none; where it is
    /// protected.
    pub passes: (bool, bool),
    pub network: Option<Span>,
    pub item: Option<Span>,
}

/// How long a prefix of the range covers the peer, if one does: the shortest aligned stretch around the peer that
/// lies inside the range.
fn covering(range: &AddressRange, peer: IpAddr) -> Option<u8> {
    let (first, last, family) = match range {
        AddressRange::Host(_) => return None,
        AddressRange::Single(addr) => (addr::to_bits(*addr), addr::to_bits(*addr), *addr),
        AddressRange::Range(first, last) => (addr::to_bits(*first), addr::to_bits(*last), *first),
        AddressRange::Prefix(addr, len) => {
            let width = if addr.is_ipv4() { 32 } else { 128 };
            let low = match width - u32::from(*len) {
                0 => 0,
                128 => u128::MAX,
                n => (1 << n) - 1,
            };
            let bits = addr::to_bits(*addr);
            (bits & !low, bits | low, *addr)
        }
    };
    let peer_bits = addr::to_bits(peer.to_canonical());
    if family.is_ipv4() != peer.to_canonical().is_ipv4() {
        return None;
    }
    (0..=128u8).find(|len| {
        let low = u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
        first <= (peer_bits & !low) && (peer_bits | low) <= last
    })
}

/// The meaning of a block, read off its tree.
pub fn evaluate(block: &Block, flow: &Flow) -> Answer {
    let best = block
        .networks
        .iter()
        .filter_map(|n| Some((covering(&n.range, flow.remote)?, n)))
        .max_by_key(|(len, _)| *len);
    let Some((_, network)) = best else {
        return plain(Action::Bypass, None);
    };
    let span = Some(network.span);
    let NetworkKind::Protected(name) = &network.kind else {
        let trusted = network.kind == NetworkKind::Trusted;
        let action = if trusted { Action::Bypass } else { Action::Discard };
        return plain(action, span);
    };
    let protection = block.protections.iter().find(|p| p.name.text == name.text).expect("a sound block");
    match protection.items.iter().find(|item| matches(item, flow)) {
        Some(item) => Answer { item: Some(item.span), ..demanded(item, span) },
        None => plain(Action::Discard, span),
    }
}

fn plain(action: Action, network: Option<Span>) -> Answer {
    Answer { action, suite: None, scrub: None, class: None, passes: (false, false), network, item: None }
}

/// Whether an item speaks of the flow: ICMP has no ports here, and is one protocol.
fn matches(item: &Item, flow: &Flow) -> bool {
    let icmp = flow.protocol == 1 || flow.protocol == 58;
    let (local, remote) = if icmp { (0, 0) } else { (flow.local_port, flow.remote_port) };
    let listed = |ports: &[sadb::spd::PortRange], port: u16| {
        ports.is_empty() || ports.iter().any(|range| range.first <= port && port <= range.last)
    };
    let protocol = match item.protocol {
        None => true,
        Some(1) => icmp,
        Some(number) => number == flow.protocol,
    };
    protocol && listed(&item.local, local) && listed(&item.remote, remote)
}

fn demanded(item: &Item, network: Option<Span>) -> Answer {
    let Demand::Protect { service, level, suite, negotiating, failure, class, scrub } = item.demand.clone()
    else {
        return plain(Action::Bypass, network);
    };
    let services = match service {
        Service::Encryption => Services::ENCRYPTED,
        Service::Authentication => Services::AUTHENTICATED,
    };
    // What is not said: `mandatory` lets nothing pass, the others everything.
    let usual = level != Level::Mandatory;
    let passes = (
        negotiating.map_or(usual, |n| n == Negotiating::Pass),
        failure.map_or(usual, |f| f == Failure::Pass),
    );
    let suite = suite.map(|suite| suite.to_string());
    let scrub = scrub.map(scrub::Profile::name);
    let class = class.map(|class| class.name);
    Answer { suite, scrub, class, passes, ..plain(Action::Protect { services, level }, network) }
}

/// Address ranges from a small world, so that they meet.
pub fn range() -> impl Strategy<Value = String> {
    let v4 = |n: u8| format!("10.0.0.{n}");
    let v6 = |n: u16| format!("2001:db8::{n:x}");
    prop_oneof![
        (0u8..32).prop_map(v4),
        (0u8..32, 26u8..=32).prop_map(move |(n, len)| format!("{}/{len}", v4(n))),
        (0u8..32, 0u8..32).prop_map(move |(a, b)| format!("{}-{}", v4(a.min(b)), v4(a.max(b)))),
        (0u16..32).prop_map(v6),
        (0u16..32, 120u8..=128).prop_map(move |(n, len)| format!("{}/{len}", v6(n))),
        (0u16..32, 0u16..32).prop_map(move |(a, b)| format!("{} - {}", v6(a.min(b)), v6(a.max(b)))),
        Just("0.0.0.0/0".to_string()),
        Just("::/0".to_string()),
        Just("::/1".to_string()),
        Just("::/64".to_string()),
        Just("::/90".to_string()),
        Just("::1-::1:0:0:0".to_string()),
        Just("::fffe:ffff:ffff-::1:0:0:9".to_string()),
        Just("8.0.0.0/6".to_string()),
        Just("0.0.0.0-10.0.0.7".to_string()),
        Just("::ffff:10.0.0.0/124".to_string()),
        Just("host.example".to_string()),
    ]
}

fn port() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("any".to_string()),
        2 => (0u16..4).prop_map(|p| p.to_string()),
        1 => (0u16..4, 0u16..6).prop_map(|(a, n)| format!("{a}-{}", a + n)),
        1 => Just("65535".to_string()),
        1 => Just("3-65534".to_string()),
    ]
}

/// `port`, or several of them.
fn ports() -> impl Strategy<Value = String> {
    prop_oneof![3 => port(), 1 => (port(), port()).prop_map(|(a, b)| format!("{a},{b}"))]
}

/// What an item demands: a paper's demand most of the time.
fn demand() -> impl Strategy<Value = String> {
    let service = || prop::sample::select(vec!["encryption", "authentication"]);
    let suite = || prop::sample::select(vec!["", "", " suite aes128gcm", " suite aes256gcm16"]);
    let paper = prop::sample::select(vec!["mandatory", "optional", "require", "prefer"]);
    let holds = prop::sample::select(vec!["", " while-negotiating hold", " while-negotiating drop"]);
    let any = prop::sample::select(vec!["", " while-negotiating hold", " while-negotiating pass"]);
    let fails = prop::sample::select(vec!["", " on-failure drop", " on-failure pass"]);
    let scrub = || prop::sample::select(vec!["", "", " scrub observe", " scrub strict"]);
    let class = || prop::sample::select(vec!["", "", " class ef", " class \"voice\""]);
    prop_oneof![
        6 => (service(), paper).prop_map(|(service, level)| format!("{service} {level}")),
        1 => Just("never".to_string()),
        1 => (service(), suite()).prop_map(|(service, suite)| format!("{service} accept-only{suite}")),
        1 => (service(), suite(), holds, scrub(), class())
            .prop_map(|(s, suite, n, scrub, c)| format!("{s} require{n}{c}{suite}{scrub}")),
        2 => (service(), suite(), any, fails, class())
            .prop_map(|(s, suite, n, f, c)| format!("{s} prefer{suite}{f}{n}{c}")),
    ]
}

/// An item, ready for a protection.
pub fn item() -> impl Strategy<Value = String> {
    let ported = prop::sample::select(vec!["", "", "", "protocol=tcp ", "protocol=17 ", "protocol=any "]);
    let bare = prop::sample::select(vec!["", "protocol=icmp ", "protocol=58 ", "protocol=47 "]);
    prop_oneof![
        8 => (ported, ports(), ports(), demand()).prop_map(|(protocol, local, remote, demand)| {
            format!("{protocol}localport={local} remoteport={remote} {demand};")
        }),
        1 => (ports(), demand()).prop_map(|(remote, demand)| format!("remoteport={remote} {demand};")),
        1 => (bare, demand()).prop_map(|(protocol, demand)| format!("{protocol}{demand};")),
    ]
}

/// Every protocol at which an opinion can change in policies made of [`item`], and one beside.
pub const PROTOCOLS: [u8; 6] = [1, 6, 17, 47, 58, 132];

/// The parts of one block.
#[derive(Clone, Debug)]
pub struct Parts {
    pub networks: Vec<(String, usize)>,
    pub protections: Vec<Vec<String>>,
}

pub fn parts() -> impl Strategy<Value = Parts> {
    let networks = prop::collection::vec((range(), 0usize..5), 0..6);
    let protections = prop::collection::vec(prop::collection::vec(item(), 1..5), 1..4);
    (networks, protections).prop_map(|(networks, protections)| Parts { networks, protections })
}

impl Parts {
    /// The block's text, a statement a line.
    pub fn text(&self, names: &str) -> String {
        let mut out = format!("application {names} {{\n");
        for (range, kind) in &self.networks {
            let kind = match kind {
                0 => "trusted".to_string(),
                1 => "untrusted".to_string(),
                n => format!("protected P{}", n % self.protections.len()),
            };
            out.push_str(&format!("  network {range} {kind};\n"));
        }
        for (index, items) in self.protections.iter().enumerate() {
            out.push_str(&format!("  protection P{index} {{\n"));
            for item in items {
                out.push_str(&format!("    {item}\n"));
            }
            out.push_str("  }\n");
        }
        out + "}\n"
    }
}

/// A policy of blocks a0, a1, ...
pub fn blocks(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Parts>> {
    prop::collection::vec(parts(), count)
}

/// The text of the blocks.
pub fn join(blocks: &[Parts]) -> String {
    blocks.iter().enumerate().map(|(i, parts)| parts.text(&format!("a{i}"))).collect()
}

/// Every peer at which an opinion can change in policies made of [`range`], and some beside.
pub fn peers() -> Vec<IpAddr> {
    let mut out: Vec<IpAddr> = (0..34).map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))).collect();
    out.extend((0u16..34).map(|n| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n))));
    let more = [
        "0.0.0.0",
        "8.0.0.0",
        "7.255.255.255",
        "11.255.255.255",
        "12.0.0.0",
        "255.255.255.255",
        "10.0.0.63",
        "10.0.0.64",
        "::",
        "::1",
        "::2",
        "::3f:ffff:ffff",
        "::40:0:0",
        "::fffe:ffff:fffe",
        "::fffe:ffff:ffff",
        "::1:0:0:0",
        "::1:0:0:9",
        "::1:0:0:a",
        "::ffff:ffff:ffff:ffff",
        "0:0:0:1::",
        "7fff::",
        "8000::",
        "ffff::",
        "2001:db8::40",
        "2001:db8::7f",
        "2001:db8::80",
        "2001:db8::ff",
        "2001:db8::100",
        "2001:db8:1::",
    ];
    out.extend(more.map(|text| text.parse::<IpAddr>().unwrap()));
    out
}

/// Every port at which an opinion can change in policies made of [`item`].
pub const PORTS: [u16; 13] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 65534, 65535];

/// A flow of TCP to `remote`.
pub fn flow(remote: IpAddr, local_port: u16, remote_port: u16) -> Flow {
    flow_of(6, remote, local_port, remote_port)
}

/// A flow to `remote`; of a protocol without ports, with what stands in their place.
pub fn flow_of(protocol: u8, remote: IpAddr, local_port: u16, remote_port: u16) -> Flow {
    let local =
        if remote.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    Flow { opaque: false, local, remote, local_port, remote_port, protocol }
}

/// How strict a level is; `Level` has no order of its own.
pub fn strict(level: Level) -> u8 {
    match level {
        Level::Mandatory => 2,
        Level::Optional => 1,
        Level::AcceptOnly => 0,
    }
}

/// The ports at which flows of a protocol can differ: what has none has zero in their place, ICMP its type and code.
pub fn ports_of(protocol: u8) -> &'static [u16] {
    match protocol {
        6 | 17 | 132 => &PORTS,
        1 | 58 => &[0, 8 << 8],
        _ => &[0],
    }
}
