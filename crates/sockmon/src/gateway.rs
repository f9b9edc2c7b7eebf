//! Gateway mode: which interfaces lead to networks behind this host, and which peers of forwarded packets need no look by
//! the engine.

use crate::abi::{BYPASS_IN, BYPASS_OUT, PeerKey};
use crate::error::SockmonError;
use crate::links;
use crate::monitor::Sockmon;
use crate::programs::Maps;
use std::collections::{BTreeMap, BTreeSet};
use wire::Prefix;

/// The key of `insides` that says that this host is a gateway; no interface has it as its index.
const IS_GATEWAY: u32 = 0;

/// Forwarded packets whose peer is in a prefix, by the longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The peers.
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

fn key_of(prefix: Prefix) -> PeerKey {
    PeerKey { prefixlen: u32::from(prefix.len()), addr: prefix.first().to_be_bytes() }
}

/// Before the programs are attached: the interfaces, and nothing passes without the engine, whose rules ended with the daemon
/// before.
pub(crate) fn prepare(maps: &Maps, insides: &BTreeSet<u32>) -> Result<(), SockmonError> {
    maps.retain("spans", |_: &PeerKey| true)?;
    let wanted =
        |index: &u32| if *index == IS_GATEWAY { !insides.is_empty() } else { insides.contains(index) };
    maps.retain("insides", |index: &u32| !wanted(index))?;
    let all = insides.iter().copied().chain((!insides.is_empty()).then_some(IS_GATEWAY));
    all.into_iter().try_for_each(|index| maps.write("insides", &index, &1u32))
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
            links::detach_device(&self.pins, ifindex)?;
            self.loaded.maps.retain("insides", |known: &u32| *known == ifindex)?;
            self.places.insides.remove(&ifindex);
        }
        for &ifindex in insides {
            self.places.insides.insert(ifindex);
            self.loaded.maps.write("insides", &ifindex, &1u32)?;
            if let Err(error) = links::attach_device(&self.loaded, &self.pins, &self.places, ifindex) {
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
    pub fn narrow_spans(&self, spans: &[Span]) -> Result<(), SockmonError> {
        let maps = &self.loaded.maps;
        let mut now: BTreeMap<(u32, [u8; 16]), u32> = BTreeMap::new();
        for key in maps.keys::<PeerKey>("spans")? {
            now.insert((key.prefixlen, key.addr), maps.read("spans", &key)?.unwrap_or(0));
        }
        // The longest first: no packet may fall to a shorter one that lets it pass.
        let all: BTreeSet<(u32, [u8; 16])> =
            now.keys().copied().chain(spans.iter().map(|s| pair(&key_of(s.peers)))).collect();
        for &(prefixlen, addr) in all.iter().rev() {
            let then = covering(prefixlen, &addr, spans.iter().map(|s| (key_of(s.peers), s.ways())));
            let before = covering(
                prefixlen,
                &addr,
                now.iter().map(|(k, v)| (PeerKey { prefixlen: k.0, addr: k.1 }, *v)),
            );
            maps.write("spans", &PeerKey { prefixlen, addr }, &(then & before))?;
        }
        Ok(())
    }

    /// Second half: exactly these.
    ///
    /// # Errors
    /// If the kernel has no room for them; then some pass less than they may.
    pub fn set_spans(&self, spans: &[Span]) -> Result<(), SockmonError> {
        for span in spans {
            self.loaded.maps.write("spans", &key_of(span.peers), &span.ways())?;
        }
        let unwanted = |key: &PeerKey| !spans.iter().any(|span| key_of(span.peers) == *key);
        self.loaded.maps.retain("spans", unwanted).map(drop)
    }
}

fn pair(key: &PeerKey) -> (u32, [u8; 16]) {
    (key.prefixlen, key.addr)
}

/// The value of the longest prefix that covers this one; 0: none does.
fn covering(len: u32, addr: &[u8; 16], entries: impl Iterator<Item = (PeerKey, u32)>) -> u32 {
    let prefix = |len: u32, addr: &[u8; 16]| {
        Prefix::from_bits(u128::from_be_bytes(*addr), u8::try_from(len).unwrap_or(128))
    };
    let inner = prefix(len, addr);
    entries
        .filter(|(key, _)| prefix(key.prefixlen, &key.addr).covers(inner))
        .max_by_key(|(key, _)| key.prefixlen)
        .map_or(0, |(_, ways)| ways)
}
