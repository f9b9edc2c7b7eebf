//! A policy from flows that were seen (`ravelin policy suggest --from-observed`, docs/design/0018).
//!
//! Flows enter, each with what it is to get. The text of a policy leaves, without errors and laid out as the formatter
//! does it. It gives each of these flows what was wanted, and refuses what was not seen. Nothing is made wider in
//! silence: where one statement says more than was seen, a comment says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use wire::protocol::has_ports;
use wire::{Flow, Prefix, addr, protocol};

use crate::ast::{Program, Subject, protocol_text, quoted};
use crate::format::format;
use crate::parser::parse;

/// The most items of one protection that are written out. With more, ports become a range.
const MAX_ITEMS: usize = 32;

/// The treatment that a flow is to get, from the least to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Treatment {
    /// The flow passes in clear.
    Clear,
    /// The flow needs `authentication mandatory`.
    Authentication,
    /// The flow needs `encryption mandatory`.
    Encryption,
}

impl Treatment {
    fn text(self) -> &'static str {
        match self {
            Treatment::Clear => "never",
            Treatment::Authentication => "authentication mandatory",
            Treatment::Encryption => "encryption mandatory",
        }
    }
}

/// A flow that was seen, and what it is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFlow {
    /// The program of the flow: a subject as a policy has it, or the name or path of a program.
    pub program: String,
    /// The addresses, ports and protocol.
    pub flow: Flow,
    /// Whether this host began it. `None` if nobody knows; the lower port is then taken for that of the service.
    pub begun_here: Option<bool>,
    /// The treatment that the flow is to get.
    pub want: Treatment,
}

/// The ways in which the policy may say more than was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixWidening {
    /// The length of the prefixes that IPv4 peers become, if any.
    pub v4: Option<u8>,
    /// The length of the prefixes that IPv6 peers become, if any.
    pub v6: Option<u8>,
}

/// The end of a flow whose port tells what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum End {
    Neither,
    Local(u16),
    Remote(u16),
}

type Kind = (u8, End);
type Items = BTreeMap<Kind, Treatment>;

/// Writes the text of the policy. Flows that no statement could name are left out, and counted in a comment.
#[must_use]
pub fn from_flows(seen: &[ObservedFlow], widen: PrefixWidening) -> String {
    let mut programs: BTreeMap<&str, BTreeMap<Prefix, Peers>> = BTreeMap::new();
    let mut left_out = 0usize;
    for one in seen {
        let (Some(kind), Some(prefix)) = (kind(one), peers(one.flow.remote, widen)) else {
            left_out += 1;
            continue;
        };
        let peers = programs.entry(&one.program).or_default().entry(prefix).or_default();
        peers.addresses.insert(one.flow.remote);
        let want = peers.items.entry(kind).or_insert(one.want);
        peers.mixed |= *want != one.want;
        *want = one.want.max(*want);
    }
    let mut out = String::from(
        "# Written from flows that were seen. Read it before it is put in force: what was not seen is refused.\n",
    );
    if left_out > 0 {
        let _ = writeln!(out, "# Left out: {left_out} flows of fragments, which have no ports.");
    }
    for (program, networks) in programs {
        block(&mut out, program, networks);
    }
    format(&out)
}

#[derive(Default)]
struct Peers {
    addresses: BTreeSet<IpAddr>,
    items: Items,
    /// Whether flows of one kind were to get several things. The strictest is what they get.
    mixed: bool,
}

fn peers(remote: IpAddr, widen: PrefixWidening) -> Option<Prefix> {
    let (len, whole) = if remote.is_ipv4() { (widen.v4, 32) } else { (widen.v6, 128) };
    Prefix::new(remote, len.unwrap_or(whole).min(whole))
}

fn kind(seen: &ObservedFlow) -> Option<Kind> {
    let flow = &seen.flow;
    let number = if flow.protocol == protocol::ICMPV6 { protocol::ICMP } else { flow.protocol };
    if !has_ports(number) {
        return Some((number, End::Neither));
    }
    let remote = seen.begun_here.unwrap_or(flow.remote_port <= flow.local_port || flow.local_port == 0);
    match (flow.local_port, flow.remote_port) {
        (0, 0) => None,
        (_, port) if remote && port != 0 => Some((number, End::Remote(port))),
        (0, port) => Some((number, End::Remote(port))),
        (port, _) => Some((number, End::Local(port))),
    }
}

/// The program as a subject: as it is, if that can be read as one. `None` if no policy can name it. The maker of a file
/// chooses its name, which must not become more than one subject.
fn subject(program: &str) -> Option<String> {
    let whole = |text: &str| {
        let parsed = parse("subject", &format!("application {text} {{ network 192.0.2.1 trusted; }}"));
        match &parsed.blocks[..] {
            [block] if !parsed.has_errors() && block.subjects.len() == 1 => block.subjects.first().cloned(),
            _ => None,
        }
    };
    let names =
        |subject: &Subject| matches!(&subject.program, Program::Named(named) if named.name.text == program);
    if whole(program).is_some_and(|subject| subject.name() == program || names(&subject)) {
        return Some(program.to_owned());
    }
    let text = quoted(program);
    whole(&text).is_some_and(|subject| names(&subject)).then_some(text)
}

fn block(out: &mut String, program: &str, networks: BTreeMap<Prefix, Peers>) {
    let Some(subject) = subject(program) else {
        let _ = writeln!(
            out,
            "\n# Left out: a program whose name cannot stand in a policy: {}",
            program.escape_debug()
        );
        return;
    };
    let everything = [IpAddr::from([0; 4]), IpAddr::from([0; 16])].map(|any| Prefix::new(any, 0));
    let rest: Vec<&str> = (["0.0.0.0/0", "::/0"].into_iter().zip(everything))
        .filter(|(_, all)| all.is_none_or(|all| !networks.contains_key(&all)))
        .map(|(text, _)| text)
        .collect();
    // Peers that get the same share a protection.
    let mut protections: Vec<(Items, Vec<(Prefix, Peers)>)> = Vec::new();
    for (prefix, mut peers) in networks {
        let items = std::mem::take(&mut peers.items);
        match protections.iter_mut().find(|(same, _)| *same == items) {
            Some((_, list)) => list.push((prefix, peers)),
            None => protections.push((items, vec![(prefix, peers)])),
        }
    }
    let _ = writeln!(out, "\napplication {subject} {{");
    for (number, (_, list)) in (1..).zip(&protections) {
        for (prefix, peers) in list {
            let seen = peers.addresses.len();
            if prefix.len() < 128 {
                let _ = writeln!(
                    out,
                    "  # {prefix}: widened from {seen} address{} seen",
                    if seen == 1 { "" } else { "es" }
                );
            }
            if peers.mixed {
                let _ = writeln!(
                    out,
                    "  # {prefix}: flows of one kind were seen with and without protection; the strictest is here"
                );
            }
            let _ = writeln!(out, "  network {} protected P{number};", text(*prefix));
        }
    }
    if !rest.is_empty() {
        let _ = writeln!(out, "  # Nothing else was seen.\n  network {} untrusted;", rest.join(", "));
    }
    for (number, (items, _)) in (1..).zip(&protections) {
        let _ = writeln!(out, "  protection P{number} {{");
        for line in lines(items) {
            let _ = writeln!(out, "    {line}");
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
}

/// A prefix as the language writes it: a host has no length.
fn text(prefix: Prefix) -> String {
    match prefix.len() {
        128 => addr::from_bits(prefix.first()).to_string(),
        _ => prefix.to_string(),
    }
}

fn line(number: u8, end: &str, want: Treatment) -> String {
    format!("protocol={} {end} {};", protocol_text(number), want.text())
}

/// An item for each kind. If there are too many, they become ranges, and a comment says so.
fn lines(items: &Items) -> Vec<String> {
    let one = |(&(number, end), &want): (&Kind, &Treatment)| {
        let ports = match end {
            End::Neither => String::new(),
            End::Local(port) => format!("localport={port} remoteport=any"),
            End::Remote(port) => format!("localport=any remoteport={port}"),
        };
        line(number, &ports, want)
    };
    if items.len() <= MAX_ITEMS {
        // A flow can fit an item for its own port and one for its peer's: the first decides, so the strictest stands first.
        let mut sorted: Vec<_> = items.iter().collect();
        sorted.sort_by_key(|(kind, want)| (std::cmp::Reverse(**want), **kind));
        return sorted.into_iter().map(one).collect();
    }
    // Of each protocol and end: from the lowest port to the highest, and the strictest of all, since ranges overlap.
    let want = items.values().copied().max().unwrap_or(Treatment::Encryption);
    let mut ranges: BTreeMap<(u8, u8), (u16, u16, usize)> = BTreeMap::new();
    let mut out = Vec::new();
    for (number, end) in items.keys() {
        let (side, port) = match end {
            End::Neither => (0, 0),
            End::Local(port) => (1, *port),
            End::Remote(port) => (2, *port),
        };
        let range = ranges.entry((*number, side)).or_insert((port, port, 0));
        *range = (range.0.min(port), range.1.max(port), range.2 + 1);
    }
    for ((number, side), (first, last, count)) in ranges {
        let ports = match side {
            0 => String::new(),
            1 => format!("localport={first}-{last} remoteport=any"),
            _ => format!("localport=any remoteport={first}-{last}"),
        };
        if side != 0 {
            out.push(format!("# widened from {count} ports seen; the strictest of what was wanted is here"));
        }
        out.push(line(number, &ports, want));
    }
    out
}
