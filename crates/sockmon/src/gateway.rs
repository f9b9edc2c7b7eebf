//! Gateway mode: which interfaces lead to networks behind this host, and which peers of forwarded packets need no look by
//! the engine.

use crate::abi::{BYPASS_IN, BYPASS_OUT, PeerKey};
use crate::error::SockmonError;
use crate::monitor::Sockmon;
use crate::programs::Maps;
use crate::spans::{self, Entry, Ways};
use std::collections::BTreeSet;
use wire::Prefix;

/// The key of `insides` that says that this host is a gateway; no interface has it as its index.
const IS_GATEWAY: u32 = 0;

/// What the kernel half lets pass of forwarded packets with a peer in this prefix; the longest prefix of a peer
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

/// ICMP errors by type and code, as the kernel half has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideIcmp {
    /// One word for each type, those of ICMP before those of ICMPv6: a bit for each code, the last for all from 31 on.
    words: Vec<u32>,
}

impl InsideIcmp {
    /// A set without any error.
    pub fn none() -> InsideIcmp {
        InsideIcmp { words: vec![0; 512] }
    }

    /// The set with this type of IP version 4 or 6 added, with this code; `None`: with every code.
    #[must_use]
    pub fn with(mut self, version: u8, kind: u8, code: Option<u8>) -> InsideIcmp {
        let at = usize::from(kind) + if version == 4 { 0 } else { 256 };
        self.words[at] |= code.map_or(u32::MAX, |code| 1 << code.min(31));
        self
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

impl Default for InsideIcmp {
    /// All but redirects, which would lead traffic elsewhere (RFC 4301 section 6.1.2).
    fn default() -> InsideIcmp {
        let mut all = InsideIcmp { words: vec![u32::MAX; 512] };
        (all.words[5], all.words[256 + 137]) = (0, 0);
        all
    }
}

fn ways_of(spans: &[Span]) -> Ways {
    spans.iter().map(|span| ((span.peers.first(), span.peers.len()), span.ways())).collect()
}

/// What the table holds.
pub(crate) fn read(maps: &Maps) -> Result<Ways, SockmonError> {
    let mut ways = Ways::new();
    for key in maps.keys::<PeerKey>("spans")? {
        ways.insert(spans::place_of(&key), maps.read("spans", &key)?.unwrap_or(0));
    }
    Ok(ways)
}

fn write(maps: &Maps, table: &mut Ways, entries: Vec<Entry>) -> Result<(), SockmonError> {
    for (place, value) in entries {
        maps.write("spans", &spans::key_of(place), &value)?;
        table.insert(place, value);
    }
    Ok(())
}

fn narrow(maps: &Maps, table: &mut Ways, then: &Ways) -> Result<(), SockmonError> {
    write(maps, table, spans::narrowing(table, then))
}

/// Make the table what `then` says, after [`narrow`] to the same.
fn put(maps: &Maps, table: &mut Ways, then: &Ways) -> Result<(), SockmonError> {
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
pub(crate) fn prepare(maps: &Maps, insides: &BTreeSet<u32>, first: &[Span]) -> Result<Ways, SockmonError> {
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

impl Sockmon {
    /// These interfaces lead to the networks behind this host, and no others do. What is forwarded
    /// from or to one that is not named passes the uplinks and these interfaces only if its peer's address alone says so. A host stays a gateway until it is attached anew without such interfaces.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub fn set_insides(&mut self, insides: &[u32]) -> Result<(), SockmonError> {
        let gone: Vec<u32> = self.places.insides.iter().copied().filter(|i| !insides.contains(i)).collect();
        for ifindex in gone {
            self.links.detach_device(&self.pins, ifindex)?;
            self.loaded.maps.retain("insides", |known: &u32| *known == ifindex)?;
            self.places.insides.remove(&ifindex);
        }
        for &ifindex in insides {
            self.places.insides.insert(ifindex);
            self.loaded.maps.write("insides", &ifindex, &1u32)?;
            if let Err(error) = self.links.attach_device(&self.loaded, &self.pins, &self.places, ifindex) {
                self.places.insides.remove(&ifindex);
                return Err(error);
            }
        }
        Ok(())
    }

    /// From now on no forwarded packet passes in clear that would not under `spans` too; first half of a change of rules. What
    /// passes only under `spans` does not yet.
    ///
    /// # Errors
    /// If the kernel has no room for them; then some pass less than they may.
    pub fn narrow_spans(&mut self, spans: &[Span]) -> Result<(), SockmonError> {
        narrow(&self.loaded.maps, &mut self.spans, &ways_of(spans))
    }

    /// Second half: exactly these.
    ///
    /// # Errors
    /// If the kernel has no room for them; then some pass less than they may.
    pub fn set_spans(&mut self, spans: &[Span]) -> Result<(), SockmonError> {
        put(&self.loaded.maps, &mut self.spans, &ways_of(spans))
    }
}
