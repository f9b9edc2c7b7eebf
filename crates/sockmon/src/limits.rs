//! Limits on what applications send in clear and accept so, as the kernel half has them (docs/design/0020): `limits` and `accepts` by generation
//! and application, and in `spent` and `sources` what of it is used, which a load of policy leaves alone.

use crate::abi::{self, LimitKey, SourceKey};
use crate::error::SockmonError;
use crate::programs::Maps;
use sadb::spd::{ClearLimits, Limit, Spd};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

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

/// Whether all limits have room.
pub(crate) fn check(spd: &Spd) -> Result<(), SockmonError> {
    let (count, max) =
        (spd.apps().filter(|(_, policy)| !policy.accept_limits().is_none()).count(), abi::ACCEPTS);
    if count > max { Err(SockmonError::TooManyAccepts { count, max }) } else { Ok(()) }
}

/// Write those of a generation; how many applications have one, as the kernel half's configuration says it.
pub(crate) fn write(maps: &Maps, spd: &Spd, generation: u32) -> Result<u32, SockmonError> {
    let (mut sent, mut accepted) = (0, 0);
    for (app, policy) in spd.apps() {
        let key = LimitKey { generation: generation as u16, app: app.0 };
        if !policy.clear_limits().is_none() {
            // First, for an application without it may send nothing.
            let none =
                abi::Spent { lock: 0, zero: 0, octets: 0, packets: 0, octets_rate: 0, packets_rate: 0 };
            maps.begin("spent", &u32::from(app.0), &none)?;
            maps.write("limits", &key, &in_kernel(policy.clear_limits()))?;
            sent += 1;
        }
        if !policy.accept_limits().is_none() {
            begin_sources(maps, app.0)?;
            maps.write("accepts", &key, &in_kernel(policy.accept_limits()))?;
            accepted += 1;
        }
    }
    Ok(sent | accepted << abi::LIMITS_ACCEPT)
}

/// Make the places of an application's sources, if they are not there. The last one, of which the seed counts, says that all are.
fn begin_sources(maps: &Maps, app: u16) -> Result<(), SockmonError> {
    let last = SourceKey { app, set: abi::SOURCE_SETS };
    if maps.read::<abi::Sources>("sources", &last)?.is_some() {
        return Ok(());
    }
    let free =
        abi::Source { high: 0, low: 0, last: 0, octets: 0, packets: 0, octets_rate: 0, packets_rate: 0 };
    // The keys of a new state are random.
    let seed = RandomState::new().hash_one(app);
    let none = abi::Sources { lock: 0, zero: 0, seed, of: [free; abi::SOURCE_EACH] };
    (0..=abi::SOURCE_SETS).try_for_each(|set| maps.begin("sources", &SourceKey { app, set }, &none))
}

/// Forget those of other generations, and what of limits is used that applications do not have.
pub(crate) fn forget_all_but(maps: &Maps, generation: u32) -> Result<(), SockmonError> {
    let remaining = |map| -> Result<BTreeSet<u16>, SockmonError> {
        maps.retain(map, |key: &LimitKey| u32::from(key.generation) != generation)?;
        Ok(maps.keys::<LimitKey>(map)?.iter().map(|key| key.app).collect())
    };
    let limited = remaining("limits")?;
    maps.retain("spent", |app: &u32| u16::try_from(*app).map_or(true, |app| !limited.contains(&app)))?;
    let accepting = remaining("accepts")?;
    maps.retain("sources", |key: &SourceKey| !accepting.contains(&key.app)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sadb::spd::AppPolicy;
    use wire::AppId;

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

    #[test]
    fn more_applications_than_have_room_for_their_sources_are_refused() {
        let accept = ClearLimits { packets: Some(Limit { rate: 1, burst: 1 }), octets: None };
        let mut spd = Spd::new(1);
        for number in 1..=1024 {
            spd.insert(AppId(number), AppPolicy::new(Vec::new(), Vec::new()).accepting(accept));
        }
        // Who limits only what he sends takes no room.
        spd.insert(AppId(2000), AppPolicy::new(Vec::new(), Vec::new()).limited(accept));
        assert!(check(&spd).is_ok());
        spd.insert(AppId(1025), AppPolicy::new(Vec::new(), Vec::new()).accepting(accept));
        let error = check(&spd).unwrap_err();
        assert!(
            error.to_string().contains("1025 applications have `limit accept`, at most 1024 can"),
            "{error}"
        );
    }
}
