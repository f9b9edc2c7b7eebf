//! Checks of the networks of one block: host bits, equal settings, settings that never decide, peers in no network.

use std::collections::HashSet;

use crate::ast::{AddressRange, Block, Network};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::prefixes::{self, Nesting};

/// Checks each network setting by itself.
pub(super) fn alone(block: &Block, sink: &mut Sink) {
    for network in &block.networks {
        let AddressRange::Prefix(addr, len) = &network.range else { continue };
        let Some(prefix) = prefixes::network_of(*addr, *len) else { continue };
        if wire::addr::to_bits(*addr) == prefix.first() {
            continue;
        }
        sink.push(
            Diagnostic::new(
                Code::HostBits,
                network.range_span,
                format!("`{addr}/{len}` has host bits set; it is read as the network {prefix}"),
            )
            .label(format!("the network is {prefix}"))
            .help(format!("write {prefix} for the network, or {addr} for the one host")),
        );
    }
}

pub(super) fn same_network(first: &Network, later: &Network, what: &str, sink: &mut Sink) {
    sink.push(
        Diagnostic::new(
            Code::EqualNetworks,
            later.range_span,
            format!("{what} has two settings in this block"),
        )
        .label("the second setting")
        .related(first.range_span, "the first setting")
        .help("keep one of them, or make one longer: the longest prefix decides"),
    );
}

pub(super) fn equal(block: &Block, nesting: &Nesting, sink: &mut Sink) -> bool {
    let mut reported = HashSet::new();
    for &(first, later) in &nesting.equal {
        if let (Some(a), Some(b)) = (block.networks.get(first), block.networks.get(later))
            && reported.insert((first, later))
        {
            let what = match (&a.range, &b.range) {
                (AddressRange::Range(..), _) | (_, AddressRange::Range(..)) => {
                    format!("a part of the range `{}`", if later_is_range(b) { &b.range } else { &a.range })
                }
                _ => format!("network `{}`", b.range),
            };
            same_network(a, b, &what, sink);
        }
    }
    nesting.equal.is_empty()
}

fn later_is_range(network: &Network) -> bool {
    matches!(network.range, AddressRange::Range(..))
}

/// Reports settings that never decide, and ranges that overlap in part.
pub(super) fn overlaps(block: &Block, nesting: &Nesting, sink: &mut Sink) {
    for (index, network) in block.networks.iter().enumerate() {
        let resolved = !matches!(network.range, AddressRange::Host(_));
        if resolved && !nesting.decides.get(index).is_some_and(|decides| *decides) {
            sink.push(
                Diagnostic::new(
                    Code::ShadowedNetwork,
                    network.range_span,
                    format!("longer prefixes cover the whole of `{}`", network.range),
                )
                .label("never decides: the longest prefix does")
                .help("remove it, or the longer ones"),
            );
        }
    }
    for &(inner, outer) in nesting.inside.iter().filter(|(a, b)| a < b) {
        let (Some(a), Some(b)) = (block.networks.get(inner), block.networks.get(outer)) else { continue };
        if nesting.inside.contains(&(outer, inner)) && a.kind.text() != b.kind.text() {
            sink.push(
                Diagnostic::new(
                    Code::PartialOverlap,
                    b.range_span,
                    format!(
                        "`{}` and `{}` overlap in part, and each decides for some of it",
                        a.range, b.range
                    ),
                )
                .label("the second")
                .related(a.range_span, "the first")
                .help("a range counts as the prefixes that cover it: end one range where the other starts"),
            );
        }
    }
}

/// Reports peers that no network covers.
pub(super) fn coverage(block: &Block, nesting: &Nesting, sink: &mut Sink) {
    let who = match (nesting.all_ipv4, nesting.all_ipv6) {
        _ if block.networks.is_empty() || block.is_guard => return,
        (true, true) => return,
        (true, false) => "some IPv6 peers",
        (false, true) => "some IPv4 peers",
        (false, false) => "some peers of both families",
    };
    let names = block.names_text();
    sink.push(
        Diagnostic::new(
            Code::PeersNotCovered,
            block.header,
            format!("{who} are in no network of `{}`: they are reached in clear", show(&names)),
        )
        .label("the host's default decides for them")
        .help("add `network 0.0.0.0/0 TYPE;` and `network ::/0 TYPE;` to decide for every peer"),
    );
}
