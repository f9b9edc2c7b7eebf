//! Reserved flows in the kernel half (docs/design/0044): packets within the rate wait in the queue of the reserved class.

use std::net::IpAddr;

use wire::AggregateId;

use crate::abi::{ANY_DSCP, Reserved, ReservedKey, SHAPES, Shapes};
use crate::error::SockmonError;
use crate::programs::Maps;

/// The map of reserved flows.
const FLOWS: &str = "reserved_flows";
/// The map of the one [`Shapes`].
const COUNTS: &str = "reserved_shapes";
/// Nanoseconds in one second.
const SECOND: u128 = 1_000_000_000;

/// A flow by what its inner packets show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedName {
    /// The destination of the inner packet.
    pub destination: IpAddr,
    /// The protocol of the transport.
    pub protocol: u8,
    /// The source port; 0 is any.
    pub source_port: u16,
    /// The destination port; 0 is any.
    pub destination_port: u16,
    /// The DSCP; absent: any.
    pub dscp: Option<u8>,
}

/// The class that packets of a flow get as far as its rate goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedClass {
    /// The class of packets within the rate.
    pub class: AggregateId,
    /// Octets a second of packets within the rate.
    pub rate: u64,
    /// Octets that may come at once.
    pub burst: u64,
    /// Octets that each packet counts as at least.
    pub least: u32,
}

impl ReservedName {
    fn key(&self) -> ReservedKey {
        let destination = match self.destination {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        ReservedKey {
            destination: destination.octets(),
            source_port: self.source_port,
            destination_port: self.destination_port,
            protocol: self.protocol,
            dscp: self.dscp.map_or(ANY_DSCP, |dscp| dscp & 63),
            zero: [0; 2],
        }
    }

    /// The set of fields that are open, in the bits of `bpf/include/reserved.h`.
    fn shape(&self) -> usize {
        usize::from(self.source_port == 0)
            | usize::from(self.destination_port == 0) << 1
            | usize::from(self.dscp.is_none()) << 2
    }
}

impl ReservedClass {
    fn entry(&self) -> Reserved {
        let time = |octets: u128| octets * SECOND / u128::from(self.rate.max(1));
        // A burst of years is one without an end; sums of times stay within their 64 bits.
        let within = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX).min(u64::MAX >> 2);
        Reserved {
            until: 0,
            ns_per_1024: within(time(1024)),
            burst_ns: within(time(self.burst.into())),
            least: self.least,
            aggregate: self.class.0,
            zero: [0; 3],
        }
    }
}

/// Give packets of a flow a class as far as its rate goes, or give them none any more (`None`). The counts of shapes
/// follow the table: the kernel half looks for a shape from the first flow of it to the last, and for no other.
pub(crate) fn set(
    maps: &Maps,
    flow: &ReservedName,
    reserved: Option<&ReservedClass>,
) -> Result<(), SockmonError> {
    let key = flow.key();
    let is_there = maps.read::<Reserved>(FLOWS, &key)?.is_some();
    match reserved {
        Some(reserved) => maps.write(FLOWS, &key, &reserved.entry())?,
        None => maps.delete(FLOWS, &key)?,
    }
    if is_there == reserved.is_some() {
        return Ok(());
    }
    let none = Shapes { all: 0, flows: [0; SHAPES] };
    let mut shapes = maps.read::<Shapes>(COUNTS, &0_u32)?.unwrap_or(none);
    let change = |count: &mut u32| {
        *count = if is_there { count.saturating_sub(1) } else { count.saturating_add(1) };
    };
    change(&mut shapes.all);
    shapes.flows.get_mut(flow.shape()).map(change);
    maps.write(COUNTS, &0_u32, &shapes)
}

/// Forget every reserved flow.
pub(crate) fn clear(maps: &Maps) -> Result<(), SockmonError> {
    maps.write(COUNTS, &0_u32, &Shapes { all: 0, flows: [0; SHAPES] })?;
    maps.retain(FLOWS, |_: &ReservedKey| true).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_times() {
        let of = |rate, burst| {
            let entry = ReservedClass { class: AggregateId(2), rate, burst, least: 100 }.entry();
            (entry.ns_per_1024, entry.burst_ns)
        };
        assert_eq!(of(1_024_000, 2_048), (1_000_000, 2_000_000));
        assert_eq!(of(1, 6_800), (1_024_000_000_000, 6_800_000_000_000));
        assert_eq!(of(0, u64::MAX), (1_024_000_000_000, u64::MAX >> 2));
    }
}
