//! The translation of an application's policy to entries for one socket.

use std::net::IpAddr;

use wire::{Flow, Prefix, protocol};

use super::entry::EntrySelector;
use super::space::Space;
use crate::spd::{
    Action, AppPolicy, Class, Decision, DecisionReason, Item, Level, Network, PortRange, RuleId, Terms,
    is_same_protocol,
};

/// The entries for `listen` and `recvfrom`: what each network of the application means to a socket with this address.
/// They are in the order in which they are to be asked; the first that matches decides, as in the policy.
///
/// The paper makes one entry for each network, from the item that matches the local port. An item can also depend on
/// the remote port, which nobody knows yet. So there is one entry for each item that can still match, then one that
/// discards what no item covers. Behind all networks follows one for the host's default, if the networks leave out
/// peers that the socket can have.
pub(super) fn each_network(policy: &AppPolicy, flow: &Flow) -> Vec<(EntrySelector, Decision)> {
    let mut peers = Space::peers(flow.local);
    let mut out = Vec::with_capacity(policy.networks().len() + 1);
    let selector = |remote, remote_port| EntrySelector {
        protocol: flow.protocol,
        local: (!flow.local.is_unspecified()).then_some(flow.local),
        local_port: flow.local_port,
        remote,
        remote_port,
    };
    for network in policy.networks() {
        let (first, last) = (network.prefix.first(), network.prefix.last());
        // Longer prefixes have had their part already.
        if !peers.has_any(first, last) {
            continue;
        }
        peers.take(first, last);
        match network.class {
            Class::Trusted => out.push((selector(network.prefix, PortRange::ANY), trusted(network))),
            Class::Untrusted => out.push((selector(network.prefix, PortRange::ANY), untrusted(network))),
            Class::Protected(index) => {
                let items = policy.protections().get(index).map_or(&[][..], Vec::as_slice);
                let mut ports = Space::ports(has_ports(flow.protocol));
                for item in items.iter().filter(|item| serves(item, flow)) {
                    let (first, last) = (u128::from(item.remote.first), u128::from(item.remote.last));
                    if ports.has_any(first, last) {
                        ports.take(first, last);
                        out.push((selector(network.prefix, item.remote), of_item(network, item)));
                    }
                }
                if !ports.is_empty() {
                    out.push((selector(network.prefix, PortRange::ANY), no_item(network)));
                }
            }
        }
    }
    if !peers.is_empty() {
        out.push((selector(everybody(flow.local), PortRange::ANY), no_network()));
    }
    out
}

/// The entry for `connect` and `sendto`: the decision of the policy for exactly this flow.
pub(super) fn exactly(policy: &AppPolicy, flow: &Flow) -> (EntrySelector, Decision) {
    let selector = EntrySelector {
        protocol: flow.protocol,
        local: (!flow.local.is_unspecified()).then_some(flow.local),
        local_port: flow.local_port,
        remote: Prefix::host(flow.remote),
        remote_port: if has_ports(flow.protocol) { PortRange::one(flow.remote_port) } else { PortRange::ANY },
    };
    (selector, policy.decide(flow))
}

/// Whether flows of the protocol may have ports. Only those with a type are known to have none.
fn has_ports(number: u8) -> bool {
    !protocol::has_type(number)
}

/// Whether the item may decide some flow of a socket with this protocol and local port.
fn serves(item: &Item, flow: &Flow) -> bool {
    item.protocol.is_none_or(|own| is_same_protocol(own, flow.protocol))
        && item.local.contains(flow.local_port)
}

fn everybody(local: IpAddr) -> Prefix {
    match local {
        IpAddr::V4(_) => Prefix::from_bits(0xffff << 32, 96),
        IpAddr::V6(_) => Prefix::ANY,
    }
}

fn of_item(network: &Network, item: &Item) -> Decision {
    let decision = decision(item.action(), network.rule, DecisionReason::Item);
    Decision { terms: item.terms, item: item.rule, ..decision }
}

fn trusted(network: &Network) -> Decision {
    decision(Action::Bypass, network.rule, DecisionReason::Trusted)
}

fn untrusted(network: &Network) -> Decision {
    decision(Action::Discard, network.rule, DecisionReason::Untrusted)
}

fn no_item(network: &Network) -> Decision {
    decision(Action::Discard, network.rule, DecisionReason::NoItem)
}

fn no_network() -> Decision {
    decision(Action::Bypass, RuleId::NONE, DecisionReason::NoNetwork)
}

/// A decision that no item made.
fn decision(action: Action, network: RuleId, why: DecisionReason) -> Decision {
    Decision { action, terms: Terms::of(Level::Mandatory), network, item: RuleId::NONE, why }
}
