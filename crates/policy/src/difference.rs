//! The differences between two policies of one application, by meaning and not by text. Another order of statements,
//! another way to cut a network, or another name of a protection is no difference.
//!
//! The result is exact, as [`mod@crate::compare`] is: the peers are cut where either policy names another network, the
//! ports where either chooses another item.

use std::collections::HashMap;
use std::net::IpAddr;

use sadb::spd::{Action, AppPolicy, PortRange, RuleId, Terms};
use wire::{Prefix, addr};

use crate::compare::{Cell, Peer, both, for_each_cell};

/// A range of peers, all treated alike by each of the two policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The first of these peers.
    pub first: IpAddr,
    /// The last of these peers, in the common space of both families.
    pub last: IpAddr,
    /// The network of the first policy for these peers.
    pub before: Side,
    /// The network of the second policy for these peers.
    pub after: Side,
    /// The flows with these peers that are treated differently, one entry for each pair of rules.
    pub flows: Vec<FlowDifference>,
}

/// The network statement of one of the two policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The `network` line; [`RuleId::NONE`] if none covers the peers.
    pub network: RuleId,
}

/// A set of flows that are treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowDifference {
    /// The protocol of the flows; `None` for any that neither policy names.
    pub protocol: Option<u8>,
    /// The first range of this host's ports.
    pub local: PortRange,
    /// The first range of the peer's ports.
    pub remote: PortRange,
    /// The action, terms and item of the first policy.
    pub before: (Action, Terms, RuleId),
    /// The action, terms and item of the second policy.
    pub after: (Action, Terms, RuleId),
}

/// The differences of the second policy from the first, by address. Neighbours with the same difference are joined.
pub fn differences(a: &AppPolicy, b: &AppPolicy) -> Vec<Difference> {
    let mut known: HashMap<(Peer, Peer), Vec<FlowDifference>> = HashMap::new();
    let mut out: Vec<Difference> = Vec::new();
    let stretches = both(a, b);
    for (at, &(first, left, right)) in stretches.iter().enumerate() {
        let last = stretches.get(at + 1).map_or(u128::MAX, |next| next.0 - 1);
        let flows = known.entry((left, right)).or_insert_with(|| differing_flows((a, left), (b, right)));
        if flows.is_empty() {
            continue;
        }
        let (first, last) = (addr::from_bits(first), addr::from_bits(last));
        let side =
            |policy: &AppPolicy| Side { network: policy.network(first).map_or(RuleId::NONE, |n| n.rule) };
        let (before, after) = (side(a), side(b));
        match out.last_mut() {
            Some(open)
                if addr::to_bits(open.last).checked_add(1) == Some(addr::to_bits(first))
                    && (open.before, open.after) == (before, after)
                    && open.flows == *flows =>
            {
                open.last = last;
            }
            _ => out.push(Difference { first, last, before, after, flows: flows.clone() }),
        }
    }
    out
}

impl Difference {
    /// The peers as a prefix if they are one, else as a range.
    pub fn peers(&self) -> String {
        match Prefix::cover(addr::to_bits(self.first), addr::to_bits(self.last)).as_slice() {
            [one] => one.to_string(),
            _ => format!("{}-{}", self.first, self.last),
        }
    }
}

fn differing_flows(a: (&AppPolicy, Peer), b: (&AppPolicy, Peer)) -> Vec<FlowDifference> {
    let mut out: Vec<FlowDifference> = Vec::new();
    for_each_cell(a, b, |cell: Cell| {
        let ((before, before_rule), (after, after_rule)) = (cell.a, cell.b);
        if !differ(before, after) {
            return;
        }
        let differing_flows = FlowDifference {
            protocol: cell.protocol,
            local: cell.local,
            remote: cell.remote,
            before: (before.0, before.1, before_rule),
            after: (after.0, after.1, after_rule),
        };
        let same = |known: &&mut FlowDifference| {
            (known.before, known.after) == (differing_flows.before, differing_flows.after)
        };
        match out.iter_mut().find(same) {
            // Port 0 is a poor example: nobody uses it.
            Some(known) if known.remote.last == 0 && differing_flows.remote.last != 0 => {
                *known = differing_flows
            }
            Some(_) => {}
            None => out.push(differing_flows),
        }
    });
    out
}

/// Whether two decisions differ. Terms count only where something is protected.
pub fn differ(a: (Action, Terms), b: (Action, Terms)) -> bool {
    a.0 != b.0 || (matches!(a.0, Action::Protect { .. }) && a.1 != b.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppTable, compile, parse};

    fn policy(text: &str) -> AppPolicy {
        let parsed = parse("p", text);
        assert!(!parsed.has_errors(), "{}", parsed.render(false));
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        compiled.spd.get(compiled.applications[0].id).unwrap().clone()
    }

    fn seen(a: &str, b: &str) -> Vec<(String, usize)> {
        differences(&policy(a), &policy(b)).iter().map(|d| (d.peers(), d.flows.len())).collect()
    }

    const BASE: &str = "application a { network 192.0.2.0/24 protected P; network 198.51.100.0/24 trusted;
        protection P { localport=any remoteport=443 encryption mandatory; localport=any remoteport=any encryption optional; } }";

    #[test]
    fn another_text_of_one_meaning_is_no_difference() {
        let same = "application a { network 192.0.2.128/25 protected Q; network 192.0.2.0/25 protected R;
            protection Q { localport=any remoteport=443 encryption mandatory; localport=any remoteport=0-442,444-65535 encryption
            optional; }
            protection R { localport=any remoteport=443 encryption mandatory; localport=any remoteport=any encryption optional; } }";
        assert_eq!(seen(BASE, same), []);
        assert_eq!(seen(BASE, BASE), []);
    }

    #[test]
    fn what_differs_is_named_once_with_its_peers() {
        let weaker =
            BASE.replace("remoteport=443 encryption mandatory", "remoteport=443 encryption optional");
        let found = differences(&policy(BASE), &policy(&weaker));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].peers(), "192.0.2.0/24");
        assert_eq!(found[0].flows.len(), 1);
        assert_eq!((found[0].flows[0].remote.first, found[0].flows[0].remote.last), (443, 443));
        let narrower = BASE.replace("192.0.2.0/24", "192.0.2.0/25");
        assert_eq!(
            seen(BASE, &narrower).iter().map(|d| d.0.as_str()).collect::<Vec<_>>(),
            ["192.0.2.128/25"]
        );
        let refused = BASE.replace("198.51.100.0/24 trusted", "198.51.100.7-198.51.100.9 untrusted");
        assert_eq!(seen(BASE, &refused), [("198.51.100.7-198.51.100.9".to_owned(), 1)]);
        let suite = BASE.replace("443 encryption mandatory", "443 encryption mandatory suite aes256gcm16");
        assert_eq!(seen(BASE, &suite).len(), 1);
    }

    #[test]
    fn an_application_without_a_policy_is_one_that_trusts_everybody() {
        let found = differences(&AppPolicy::default(), &policy(BASE));
        assert_eq!(found.iter().map(Difference::peers).collect::<Vec<_>>(), ["192.0.2.0/24"]);
        assert_eq!(found[0].before.network, RuleId::NONE);
        assert_ne!(found[0].after.network, RuleId::NONE);
    }
}
