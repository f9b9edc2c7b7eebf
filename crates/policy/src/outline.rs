//! A coarse outline of a policy. It shows for most pairs that they do not compare, without cutting either.
//!
//! A policy that is at least as strict as another speaks wherever that one does, and refuses wherever that one does.
//! The outline has a bit for each of 256 buckets of addresses (an IPv4 /24, an IPv6 /64, by their hash). A bit is set
//! if the policy is about, or refuses, an address in the bucket. If one set is not within the other's, that is a
//! definite answer.

use sadb::spd::AppPolicy;

use crate::compare::PartitionedPolicy;

const WORDS: usize = 4;
const BUCKETS: u128 = WORDS as u128 * 64;

/// The buckets that a policy is about, and those that it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    speaks: [u64; WORDS],
    refuses: [u64; WORDS],
}

impl Outline {
    /// Makes the outline of a policy.
    pub fn of(policy: &AppPolicy) -> Outline {
        let mut out = Outline::default();
        for opinion in PartitionedPolicy::of(policy).opinions() {
            if opinion.speaks {
                set(&mut out.speaks, opinion.first, opinion.last);
            }
            if opinion.refuses {
                set(&mut out.refuses, opinion.first, opinion.last);
            }
        }
        out
    }

    /// Whether the policy may be at least as strict as the other. False means that it is less strict for some flow;
    /// true says nothing.
    pub fn may_be_at_least(&self, other: &Outline) -> bool {
        let mut beyond = 0;
        for at in 0..WORDS {
            beyond |= other.speaks[at] & !self.speaks[at] | other.refuses[at] & !self.refuses[at];
        }
        beyond == 0
    }

    /// Whether the policies may compare. False means that neither is at least as strict as the other; true says
    /// nothing.
    pub fn may_compare(&self, other: &Outline) -> bool {
        self.may_be_at_least(other) || other.may_be_at_least(self)
    }
}

/// Whether the address is IPv4, which is ::ffff:0:0/96 in the common space.
fn is_v4(address: u128) -> bool {
    address >> 32 == 0xffff
}

fn set(words: &mut [u64; WORDS], first: u128, last: u128) {
    // A stretch across the border of the families covers more /64 than there are buckets, or is the one around IPv4.
    if is_v4(first) != is_v4(last) {
        return words.fill(u64::MAX);
    }
    let shift = if is_v4(first) { 8 } else { 64 };
    let (first, last) = (first >> shift, last >> shift);
    if last - first >= BUCKETS {
        return words.fill(u64::MAX);
    }
    for block in first..=last {
        let hash = ((block as u64) ^ (block >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bit = (hash >> 56) as usize;
        words[bit / 64] |= 1 << (bit % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppTable, compare, compile, parse};
    use sadb::spd::Order;
    use std::sync::Arc;

    fn policy(lines: &str) -> Arc<AppPolicy> {
        let parsed = parse("p", &format!("application a {{ {lines} }}"));
        assert!(!parsed.has_errors(), "{}", parsed.render(false));
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        let id = compiled.applications[0].id;
        Arc::clone(compiled.spd.shared(id).unwrap())
    }

    #[test]
    fn what_compares_is_never_ruled_out_and_most_of_the_rest_is() {
        let protection = |items: &str| format!("protection P {{ {items} }}");
        let kinds = [
            "trusted;".to_owned(),
            "untrusted;".to_owned(),
            format!("protected P; {}", protection("localport=any remoteport=any encryption mandatory;")),
            format!("protected P; {}", protection("remoteport=22 encryption optional;")),
            format!("protected P; {}", protection("never;")),
        ];
        let networks =
            ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.1.2.0/25", "::/0", "2001:db8::/32", "2001:db8::1"];
        let mut all = vec![Arc::new(AppPolicy::default())];
        for network in networks {
            all.extend(kinds.iter().map(|kind| policy(&format!("network {network} {kind}"))));
            for inside in networks.iter().filter(|other| **other != network) {
                let hole = format!("network {inside} trusted; network {network} untrusted;");
                all.push(policy(&hole));
            }
        }
        let outlines: Vec<Outline> = all.iter().map(|policy| Outline::of(policy)).collect();
        let (mut ruled_out, mut incomparable) = (0, 0);
        for (a, left) in all.iter().zip(&outlines) {
            for (b, right) in all.iter().zip(&outlines) {
                let order = compare(a, b);
                if matches!(order, Order::Same | Order::Stricter) {
                    assert!(left.may_be_at_least(right), "{a:?}\n{b:?}");
                }
                incomparable += usize::from(order == Order::Incomparable);
                ruled_out += usize::from(!left.may_compare(right));
            }
        }
        assert!(0 < ruled_out && ruled_out < incomparable, "{ruled_out} of {incomparable}");
    }

    #[test]
    fn applications_with_networks_of_their_own_are_told_apart_at_a_glance() {
        let block = |app: u32| {
            let line = |at: u32| format!("network 10.{}.{}.0/24 untrusted;", app + at, 7 * app % 256);
            policy(&(0..20).map(line).collect::<String>())
        };
        let outlines: Vec<Outline> = (0..50).map(|app| Outline::of(&block(app))).collect();
        for (at, a) in outlines.iter().enumerate() {
            assert!(a.may_compare(a));
            assert!(outlines[..at].iter().all(|b| !a.may_compare(b)), "{at}");
        }
    }
}
