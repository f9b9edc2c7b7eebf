//! Limits on what applications send in clear, as the kernel half has them (docs/design/0020): `limits` by generation and application, and in
//! `spent` what of it is used, which a load of policy leaves alone.

use crate::abi::{self, LimitKey};
use crate::error::SockmonError;
use crate::programs::Maps;
use sadb::spd::{ClearLimits, Limit, Spd};
use std::collections::BTreeSet;

const SECOND: u128 = 1_000_000_000;

/// Nanoseconds that a burst is ahead of its rate, below what a sum with the clock could overflow.
fn ahead(limit: Limit) -> u64 {
    let nanoseconds = u128::from(limit.burst) * SECOND / u128::from(limit.rate.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX).min(u64::MAX / 4)
}

fn in_kernel(limits: ClearLimits) -> abi::Limit {
    let of = |limit: Option<Limit>| limit.map_or((0, 0), |limit| (limit.rate, ahead(limit)));
    let ((octets, octets_ahead), (packets, packets_ahead)) = (of(limits.octets), of(limits.packets));
    abi::Limit { octets, octets_ahead, packets, packets_ahead }
}

/// Write those of a generation; how many applications have one.
pub(crate) fn write(maps: &Maps, spd: &Spd, generation: u32) -> Result<u32, SockmonError> {
    let mut count = 0;
    for (app, policy) in spd.apps().filter(|(_, policy)| !policy.clear_limits().is_none()) {
        // First, for an application without it may send nothing.
        let none = abi::Spent { lock: 0, zero: 0, octets: 0, packets: 0, octets_rate: 0, packets_rate: 0 };
        maps.begin("spent", &u32::from(app.0), &none)?;
        let key = LimitKey { generation: generation as u16, app: app.0 };
        maps.write("limits", &key, &in_kernel(policy.clear_limits()))?;
        count += 1;
    }
    Ok(count)
}

/// Forget those of other generations, and what applications without a limit have spent.
pub(crate) fn forget_all_but(maps: &Maps, generation: u32) -> Result<(), SockmonError> {
    maps.retain("limits", |key: &LimitKey| u32::from(key.generation) != generation)?;
    let limited: BTreeSet<u32> =
        maps.keys::<LimitKey>("limits")?.iter().map(|key| u32::from(key.app)).collect();
    maps.retain("spent", |app: &u32| !limited.contains(app)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_a_time() {
        let packets = Some(Limit { rate: 5000, burst: 200 });
        let limits = in_kernel(ClearLimits { packets, octets: None });
        assert_eq!((limits.packets, limits.packets_ahead), (5000, 40_000_000));
        assert_eq!((limits.octets, limits.octets_ahead), (0, 0));
        // As much as can be said: a sum with the clock must not go round.
        let most = in_kernel(ClearLimits { octets: Some(Limit { rate: 1, burst: u64::MAX }), packets: None });
        assert!(most.octets_ahead.checked_add(u64::MAX / 2).is_some());
    }
}
