//! Outbound associations by application and flow.
//!
//! The most specific association that gives what is demanded serves a flow: one bound to the application before one
//! that is shared, then the longer remote prefix, the longer local prefix, a protocol before any, fewer ports, and of
//! equals the newest (so that a new key takes over at once when it is added beside the old one). Entries are sorted in
//! that order and grouped by (bound, length of the remote prefix); a lookup makes one binary search per group that
//! exists, and a cache in front answers for flows seen before.

use std::cmp::Reverse;
use std::net::IpAddr;

use wire::{AppId, DropReason, Flow, Prefix, Services, addr};

use super::chain::Chain;
use crate::spd::PortRange;
use crate::{FlowCache, FlowKey, MAX_SAS, OutboundSa, SadError, Selectors, Spi};

/// Sets of four flows that the cache remembers.
const CACHE_SETS: usize = 1024;

/// Names one outbound association. Once that is removed the name is dead: it never comes to mean another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaIndex {
    slot: u32,
    serial: u32,
}

/// The selectors of one association, in the form and order that lookups want.
struct Entry {
    group: Group,
    /// The application, zero for a shared one, and the first address of the remote prefix: what the search compares.
    key: (u16, u128),
    local: Prefix,
    protocol: Option<u8>,
    local_ports: PortRange,
    remote_ports: PortRange,
    services: Services,
    index: SaIndex,
}

/// Entries that are found with one search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    shared: bool,
    remote_len: Reverse<u8>,
}

struct Span {
    group: Group,
    start: usize,
    end: usize,
}

impl Entry {
    fn new(selectors: &Selectors, services: Services, index: SaIndex) -> Entry {
        Entry {
            group: Group { shared: selectors.app.is_none(), remote_len: Reverse(selectors.remote.len()) },
            key: (selectors.app.unwrap_or(AppId::NONE).0, selectors.remote.first()),
            local: selectors.local,
            protocol: selectors.protocol,
            local_ports: selectors.local_ports,
            remote_ports: selectors.remote_ports,
            services,
            index,
        }
    }

    /// Most specific first.
    fn rank(&self) -> impl Ord + use<> {
        let width = |ports: PortRange| u32::from(ports.last) - u32::from(ports.first);
        (
            self.group,
            self.key,
            Reverse(self.local.len()),
            self.protocol.is_none(),
            width(self.local_ports) + width(self.remote_ports),
            Reverse(self.index.serial),
        )
    }

    fn covers_rest(&self, flow: &Flow, local: u128) -> bool {
        self.local.contains_bits(local)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.local_ports.contains(flow.local_port)
            && self.remote_ports.contains(flow.remote_port)
    }
}

/// The outbound associations of one thread.
pub struct OutboundSad {
    cache: FlowCache<Result<SaIndex, DropReason>>,
    slots: Vec<Option<(u32, OutboundSa)>>,
    entries: Vec<Entry>,
    spans: Vec<Span>,
    /// By slot: the chain that starts there. Empty as long as no association has a next one.
    chains: Vec<Result<Chain, DropReason>>,
    /// Grows with every change; what the cache learned before is then void.
    epoch: u64,
    serial: u32,
}

impl OutboundSad {
    /// An empty database. `seed` is random: it keeps a stranger from choosing flows that meet in one set of the cache.
    pub fn new(seed: u64) -> OutboundSad {
        OutboundSad {
            cache: FlowCache::new(CACHE_SETS, seed),
            slots: Vec::new(),
            entries: Vec::new(),
            spans: Vec::new(),
            chains: Vec::new(),
            epoch: 0,
            serial: 0,
        }
    }

    /// Add an association.
    ///
    /// # Errors
    /// [`SadError::TooMany`]; [`SadError::DuplicateSpi`] if the same peer has the SPI already (another peer may choose
    /// the same).
    pub fn insert(&mut self, sa: OutboundSa) -> Result<SaIndex, SadError> {
        let (spi, remote) = (sa.spi(), sa.config().endpoints.remote);
        if self.position(spi, remote).is_some() {
            return Err(SadError::DuplicateSpi(spi));
        }
        if self.len() >= MAX_SAS {
            return Err(SadError::TooMany(MAX_SAS));
        }
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let index = SaIndex { slot: slot as u32, serial: self.serial };
        let entry = Entry::new(sa.selectors(), sa.config().services(), index);
        let at = self.entries.partition_point(|other| other.rank() < entry.rank());
        self.entries.insert(at, entry);
        self.slots[slot] = Some((self.serial, sa));
        self.changed();
        Ok(index)
    }

    /// Put an association in the place of another in one step: no lookup finds both, and none finds neither.
    ///
    /// # Errors
    /// [`SadError::UnknownSpi`] of the old one, [`SadError::DuplicateSpi`] of the new one; nothing has changed then.
    pub fn replace(
        &mut self,
        old: Spi,
        remote: IpAddr,
        sa: OutboundSa,
    ) -> Result<(OutboundSa, SaIndex), SadError> {
        let spi = sa.spi();
        if self.position(old, remote).is_none() {
            return Err(SadError::UnknownSpi(old));
        }
        if self.position(spi, sa.config().endpoints.remote).is_some() {
            return Err(SadError::DuplicateSpi(spi));
        }
        let before = self.remove(old, remote)?;
        // It has the room of the one before.
        Ok((before, self.insert(sa)?))
    }

    /// Take out the association to this peer with this SPI.
    ///
    /// # Errors
    /// [`SadError::UnknownSpi`].
    pub fn remove(&mut self, spi: Spi, remote: IpAddr) -> Result<OutboundSa, SadError> {
        let slot = self.position(spi, remote).ok_or(SadError::UnknownSpi(spi))?;
        let (_, sa) = self.slots[slot].take().ok_or(SadError::UnknownSpi(spi))?;
        self.entries.retain(|entry| entry.index.slot as usize != slot);
        self.changed();
        Ok(sa)
    }

    /// The association that serves this flow of this application with at least these services.
    ///
    /// # Errors
    /// [`DropReason::NoSa`]; [`DropReason::SaTooWeak`] if those that cover the flow give less than `need`.
    #[inline]
    pub fn find(&mut self, app: AppId, flow: &Flow, need: Services) -> Result<SaIndex, DropReason> {
        let key = FlowKey::new(app, flow, need.bits());
        if let Some(answer) = self.cache.get(self.epoch, &key) {
            return answer;
        }
        let answer = self.search(app, flow, need);
        self.cache.put(self.epoch, &key, answer);
        answer
    }

    /// As [`Self::find`], without the cache.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn search(&self, app: AppId, flow: &Flow, need: Services) -> Result<SaIndex, DropReason> {
        self.walk(
            app,
            flow,
            |entry| {
                if entry.services.satisfies(need) { Ok(()) } else { Err(DropReason::SaTooWeak) }
            },
        )
    }

    /// As [`Self::search`], for the association that `fits` too; its refusal is the reason if no other fits.
    ///
    /// # Errors
    /// [`DropReason::NoSa`], or what `fits` answered last.
    pub fn search_for(
        &self,
        app: AppId,
        flow: &Flow,
        fits: impl Fn(&OutboundSa) -> Result<(), DropReason>,
    ) -> Result<SaIndex, DropReason> {
        self.walk(app, flow, |entry| self.get(entry.index).map_or(Err(DropReason::NoSa), &fits))
    }

    fn walk(
        &self,
        app: AppId,
        flow: &Flow,
        fits: impl Fn(&Entry) -> Result<(), DropReason>,
    ) -> Result<SaIndex, DropReason> {
        let (local, remote) = (addr::to_bits(flow.local), addr::to_bits(flow.remote));
        let mut reason = DropReason::NoSa;
        for span in &self.spans {
            let bound = if span.group.shared { AppId::NONE } else { app };
            let key = (bound.0, Prefix::from_bits(remote, span.group.remote_len.0).first());
            let entries = &self.entries[span.start..span.end];
            let first = entries.partition_point(|entry| entry.key < key);
            for entry in entries[first..].iter().take_while(|entry| entry.key == key) {
                if !entry.covers_rest(flow, local) {
                    continue;
                }
                match fits(entry) {
                    Ok(()) => return Ok(entry.index),
                    Err(DropReason::NoSa) => {}
                    Err(other) => reason = other,
                }
            }
        }
        Err(reason)
    }

    /// The association to this peer with this SPI. A search through all of them, for the control plane.
    pub fn named(&self, spi: Spi, remote: IpAddr) -> Option<&OutboundSa> {
        self.slots[self.position(spi, remote)?].as_ref().map(|(_, sa)| sa)
    }

    /// As [`Self::named`], to change it.
    pub fn named_mut(&mut self, spi: Spi, remote: IpAddr) -> Option<&mut OutboundSa> {
        let slot = self.position(spi, remote)?;
        self.slots[slot].as_mut().map(|(_, sa)| sa)
    }

    /// The association of this name, unless it was removed.
    #[inline]
    pub fn get_mut(&mut self, index: SaIndex) -> Option<&mut OutboundSa> {
        match self.slots.get_mut(index.slot as usize)? {
            Some((serial, sa)) if *serial == index.serial => Some(sa),
            _ => None,
        }
    }

    /// The association of this name, to look at.
    #[inline]
    pub fn get(&self, index: SaIndex) -> Option<&OutboundSa> {
        match self.slots.get(index.slot as usize)? {
            Some((serial, sa)) if *serial == index.serial => Some(sa),
            _ => None,
        }
    }

    /// Send to another address and port from now on.
    ///
    /// # Errors
    /// [`SadError::UnknownSpi`] for a dead name, or an association that does not follow its peer there;
    /// [`SadError::DuplicateSpi`] if a peer with that address has the SPI already.
    pub fn move_peer(&mut self, index: SaIndex, remote: IpAddr, port: u16) -> Result<(), SadError> {
        let sa = self.get(index).ok_or(SadError::UnknownSpi(Spi(0)))?;
        let spi = sa.spi();
        if !sa.may_move_to(remote, port) {
            return Err(SadError::UnknownSpi(spi));
        }
        if self.position(spi, remote).is_some_and(|slot| slot != index.slot as usize) {
            return Err(SadError::DuplicateSpi(spi));
        }
        if let Some(sa) = self.get_mut(index) {
            sa.move_to(remote, port);
        }
        self.changed();
        Ok(())
    }

    /// Every association, in no order that means anything.
    pub fn list(&self) -> impl Iterator<Item = (SaIndex, &OutboundSa)> {
        self.slots.iter().enumerate().filter_map(|(slot, held)| {
            let (serial, sa) = held.as_ref()?;
            Some((SaIndex { slot: slot as u32, serial: *serial }, sa))
        })
    }

    /// Every association, to let time pass for it.
    pub fn list_mut(&mut self) -> impl Iterator<Item = &mut OutboundSa> {
        self.slots.iter_mut().filter_map(|held| held.as_mut().map(|(_, sa)| sa))
    }

    /// How many associations there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Grows with every insertion and removal; whoever caches what [`Self::find`] said compares it.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The members of the bundle that this association starts, itself first; see [`SaOptions::next`](crate::sa::SaOptions).
    ///
    /// # Errors
    /// [`DropReason::ChainMissing`], [`DropReason::ChainTooLong`], [`DropReason::ChainEncapsulation`],
    /// [`DropReason::ChainUnkeyed`]; [`DropReason::NoSa`] for a dead name.
    #[inline]
    pub fn chain(&self, index: SaIndex) -> Result<Chain, DropReason> {
        if self.get(index).is_none() {
            return Err(DropReason::NoSa);
        }
        self.chains.get(index.slot as usize).copied().unwrap_or(Ok(Chain::alone(index)))
    }

    /// The next member: to the same peer if it has this SPI, otherwise to the only one that has it.
    fn successor(&self, sa: &OutboundSa) -> Option<Result<SaIndex, DropReason>> {
        let (spi, peer) = (sa.config().options.next?, sa.config().endpoints.remote);
        let mut named = self.list().filter(|(_, other)| other.spi() == spi);
        let index = match (self.position(spi, peer), named.next(), named.next()) {
            (Some(slot), ..) => {
                self.slots[slot].as_ref().map(|(serial, _)| SaIndex { slot: slot as u32, serial: *serial })
            }
            (None, Some((index, _)), None) => Some(index),
            (None, ..) => None,
        };
        Some(index.ok_or(DropReason::ChainMissing))
    }

    /// Follow every chain once, so that no packet has to.
    fn follow_chains(&mut self) {
        self.chains.clear();
        let chained =
            |sa: &OutboundSa| sa.config().options.next.is_some() || !sa.config().options.protocol.is_keyed();
        if !self.list().any(|(_, sa)| chained(sa)) {
            return;
        }
        self.chains = (0..self.slots.len())
            .map(|slot| {
                let (serial, _) = self.slots[slot].as_ref().ok_or(DropReason::NoSa)?;
                let first = SaIndex { slot: slot as u32, serial: *serial };
                Chain::follow(first, |index| self.get(index), |sa| self.successor(sa))
            })
            .collect();
        for at in 0..self.entries.len() {
            let index = self.entries[at].index;
            let services = match (self.chain(index), self.get(index)) {
                (Ok(chain), _) => chain.services(),
                // Found all the same, for its packets to end with the chain's own reason.
                (Err(_), Some(sa)) => sa.config().services(),
                (Err(_), None) => Services::NONE,
            };
            self.entries[at].services = services;
        }
    }

    fn position(&self, spi: Spi, remote: IpAddr) -> Option<usize> {
        self.slots.iter().position(|held| {
            held.as_ref().is_some_and(|(_, sa)| sa.spi() == spi && sa.config().endpoints.remote == remote)
        })
    }

    fn changed(&mut self) {
        self.epoch += 1;
        self.follow_chains();
        self.spans.clear();
        let mut start = 0;
        for entries in self.entries.chunk_by(|a, b| a.group == b.group) {
            let end = start + entries.len();
            self.spans.push(Span { group: entries[0].group, start, end });
            start = end;
        }
    }
}

impl std::fmt::Debug for OutboundSad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list().map(|(_, sa)| sa)).finish()
    }
}
