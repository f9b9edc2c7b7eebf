//! The traffic of applications, as the kernel half counts it.

use super::Sockmon;
use crate::abi::{self, TrafficKey, Wire};
use crate::error::SockmonError;
use crate::traffic::{Amount, AppTraffic};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;
use wire::AppId;

impl Sockmon {
    /// The traffic of every application that had any. [`AppId::NONE`]: sockets of no application that asked for protection
    /// themselves.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn traffic(&self) -> Result<BTreeMap<AppId, AppTraffic>, SockmonError> {
        let map = self.loaded.maps.get("traffic")?;
        let mut out: BTreeMap<AppId, AppTraffic> = BTreeMap::new();
        for key in self.loaded.maps.keys::<TrafficKey>("traffic")? {
            let values = map
                .lookup_percpu(key.bytes(), MapFlags::ANY)
                .map_err(SockmonError::bpf("read map traffic"))?
                .unwrap_or_default();
            let values = values.iter().filter_map(|value| abi::Traffic::read(value));
            let sum = values.fold(Amount::default(), |sum, value| {
                sum.and(Amount { packets: value.packets, octets: value.octets })
            });
            let of_app = out.entry(AppId(key.app)).or_default();
            let counter = |from: u16| key.kind.checked_sub(from).map(usize::from);
            let name = |counter: usize| abi::COUNTERS.get(counter).copied().unwrap_or("unknown");
            if let Some(number) = counter(abi::TRAFFIC_WOULD_REASON) {
                *of_app.would_reasons.entry(name(number)).or_default() += sum.packets;
            } else if let Some(number) = counter(abi::TRAFFIC_REASON) {
                *of_app.reasons.entry(name(number)).or_default() += sum.packets;
            } else {
                of_app.of(key.kind).into_iter().for_each(|amount| *amount = sum);
            }
        }
        Ok(out)
    }
}
