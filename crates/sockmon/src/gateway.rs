//! Gateway mode: which interfaces lead to networks behind this host, and which peers of forwarded packets need no look by
//! the engine.

use crate::abi::{BYPASS_IN, BYPASS_OUT, PeerKey};
use crate::error::SockmonError;
use crate::programs::Maps;
use crate::spans::{self, BypassTable, Entry};
use std::collections::BTreeSet;
use wire::Prefix;

/// The key of `insides` that says that this host is a gateway; no interface has it as its index.
const IS_GATEWAY: u32 = 0;

/// The forwarded packets with a peer in this prefix that the kernel half lets pass. The longest prefix of a peer
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The addresses of the peers.
    pub peers: Prefix,
    /// Packets to them pass in clear, whatever else they are.
    pub bypass_out: bool,
    /// Packets from them pass in clear, whatever else they are.
    pub bypass_in: bool,
}

impl Span {
    fn ways(&self) -> u32 {
        u32::from(self.bypass_out) * BYPASS_OUT + u32::from(self.bypass_in) * BYPASS_IN
    }
}

/// The ways that spans open, by prefix.
pub(crate) fn ways_of(spans: &[Span]) -> BypassTable {
    spans.iter().map(|span| ((span.peers.first(), span.peers.len()), span.ways())).collect()
}

/// The content of the table.
pub(crate) fn read(maps: &Maps) -> Result<BypassTable, SockmonError> {
    let mut ways = BypassTable::new();
    for key in maps.keys::<PeerKey>("spans")? {
        ways.insert(spans::place_of(&key), maps.read("spans", &key)?.unwrap_or(0));
    }
    Ok(ways)
}

fn write(maps: &Maps, table: &mut BypassTable, entries: Vec<Entry>) -> Result<(), SockmonError> {
    for (place, value) in entries {
        maps.write("spans", &spans::key_of(place), &value)?;
        table.insert(place, value);
    }
    Ok(())
}

/// Take out of the table what `then` does not have.
pub(crate) fn narrow(maps: &Maps, table: &mut BypassTable, then: &BypassTable) -> Result<(), SockmonError> {
    write(maps, table, spans::narrowing(table, then))
}

/// Make the table what `then` says, after [`narrow`] to the same.
pub(crate) fn put(maps: &Maps, table: &mut BypassTable, then: &BypassTable) -> Result<(), SockmonError> {
    write(maps, table, spans::widening(table, then))?;
    let unwanted: Vec<_> = table.keys().filter(|place| !then.contains_key(place)).copied().collect();
    for place in unwanted {
        maps.delete("spans", &spans::key_of(place))?;
        table.remove(&place);
    }
    Ok(())
}

/// Before the programs are attached: the interfaces, and of what passed without the engine under the daemon before, that which
/// does under `first` too. Answers what the table holds.
pub(crate) fn prepare(
    maps: &Maps,
    insides: &BTreeSet<u32>,
    first: &[Span],
) -> Result<BypassTable, SockmonError> {
    let (mut table, first) = (read(maps)?, ways_of(first));
    narrow(maps, &mut table, &first)?;
    if first.is_empty() {
        put(maps, &mut table, &first)?;
    }
    let wanted =
        |index: &u32| if *index == IS_GATEWAY { !insides.is_empty() } else { insides.contains(index) };
    maps.retain("insides", |index: &u32| !wanted(index))?;
    let all = insides.iter().copied().chain((!insides.is_empty()).then_some(IS_GATEWAY));
    all.into_iter().try_for_each(|index| maps.write("insides", &index, &1u32))?;
    Ok(table)
}
