//! Outbound associations by application and flow.
//!
//! The most specific association that gives what is demanded serves a flow. One bound to the application comes before
//! one that is shared, then the longer remote prefix, the longer local prefix, a protocol before any, fewer ports, and
//! of equals the newest (so that a new key takes over at once when it is added beside the old one). Entries are sorted
//! in that order and grouped by (bound, length of the remote prefix). A lookup descends the tree once per group that
//! exists, and a cache in front answers for flows seen before. Adding and removing also cost one descent, however many
//! associations there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{AggregateId, AppId, DropReason, Flow, Prefix, Services, addr};

use super::chain::{Chain, MAX_CHAIN};
use super::index::SaIndex;
use super::parallel::Parallel;
use crate::sa::Encapsulation;
use crate::sa::config::has_ports_in;
use crate::sa::identification::Identifications;
use crate::spd::PortRange;
use crate::{FlowCache, FlowKey, MAX_SAS, OutboundSa, SaConfig, SadError, Selectors, Spi};

/// The number of sets of four flows in the cache.
const CACHE_SETS: usize = 1024;

/// The bit that keeps cached associations for answers apart from those for any other packet; no [`Services`] have it.
const FOR_ANSWERS: u8 = 0x80;

/// The least address there is.
const FIRST_PEER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const LAST_PEER: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

/// The selectors of one association, in the form for lookups.
struct Entry {
    local: Prefix,
    protocol: Option<u8>,
    local_ports: PortRange,
    remote_ports: PortRange,
    services: Services,
    index: SaIndex,
    /// Whether another association names this one as its `next`.
    follows: bool,
}

/// A group of entries that one search finds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    shared: bool,
    remote_len: Reverse<u8>,
}

/// The place of an entry in the order, the most specific first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    group: Group,
    /// The part that the search compares: the application, zero for a shared one, and the first address of the remote
    /// prefix.
    key: (u16, u128),
    local_len: Reverse<u8>,
    any_protocol: bool,
    ports: u32,
    /// The services of the association itself. Later members of a chain add to what the flow gets, not to its place.
    services: u8,
    serial: Reverse<u32>,
}

impl Rank {
    fn new(sa: &OutboundSa, index: SaIndex) -> Rank {
        let selectors = sa.selectors();
        let width = |ports: PortRange| u32::from(ports.last) - u32::from(ports.first);
        let (group, key) = Rank::place(selectors);
        Rank {
            group,
            key,
            local_len: Reverse(selectors.local.len()),
            any_protocol: selectors.protocol.is_none(),
            ports: width(selectors.local_ports) + width(selectors.remote_ports),
            services: sa.config().services().bits(),
            serial: Reverse(index.serial),
        }
    }

    fn place(selectors: &Selectors) -> (Group, (u16, u128)) {
        let group = Group { shared: selectors.app.is_none(), remote_len: Reverse(selectors.remote.len()) };
        (group, (selectors.app.unwrap_or(AppId::NONE).0, selectors.remote.first()))
    }

    /// Whether only strength and age tell the two apart.
    fn is_as_specific_as(&self, other: &Rank) -> bool {
        let Rank { services, serial, .. } = *other;
        Rank { services, serial, ..*self } == *other
    }

    /// A rank in front of all entries of this group and key.
    fn first(group: Group, key: (u16, u128)) -> Rank {
        let (local_len, serial) = (Reverse(u8::MAX), Reverse(u32::MAX));
        Rank { group, key, local_len, any_protocol: false, ports: 0, services: 0, serial }
    }
}

impl Entry {
    fn new(selectors: &Selectors, services: Services, index: SaIndex) -> Entry {
        Entry {
            local: selectors.local,
            protocol: selectors.protocol,
            local_ports: selectors.local_ports,
            remote_ports: selectors.remote_ports,
            services,
            index,
            follows: false,
        }
    }

    fn covers_rest(&self, flow: &Flow, local: u128) -> bool {
        self.local.contains_bits(local)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && has_ports_in(self.protocol, self.local_ports, self.remote_ports, flow)
    }
}

/// The outbound associations of one thread.
pub struct OutboundSad {
    cache: FlowCache<Result<SaIndex, DropReason>>,
    slots: Vec<Option<(u32, OutboundSa)>>,
    /// The slots without an association.
    free: Vec<u32>,
    /// The slot of each SPI and peer.
    names: BTreeMap<(Spi, IpAddr), u32>,
    identifications: Identifications,
    entries: BTreeMap<Rank, Entry>,
    /// The groups that exist, with the number of entries in each.
    groups: BTreeMap<Group, usize>,
    parallel: Parallel,
    /// The number of associations that have a next one or no key.
    chained: usize,
    /// The chain that starts at each slot. The list is empty as long as no association has a next one.
    chains: Vec<Result<Chain, DropReason>>,
    /// A number that grows with every change; what the cache learned before is then void.
    epoch: u64,
    serial: u32,
}

impl OutboundSad {
    /// A database without associations. `seed` is random: it keeps a stranger from choosing flows that meet in one set
    /// of the cache.
    pub fn new(seed: u64) -> OutboundSad {
        OutboundSad {
            cache: FlowCache::new(CACHE_SETS, seed),
            slots: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            identifications: Identifications::new(),
            entries: BTreeMap::new(),
            groups: BTreeMap::new(),
            parallel: Parallel::default(),
            chained: 0,
            chains: Vec::new(),
            epoch: 0,
            serial: 0,
        }
    }

    /// Add an association to the database.
    ///
    /// # Errors
    /// [`SadError::TooMany`]; [`SadError::DuplicateSpi`] if the same peer has the SPI already (another peer may choose
    /// the same).
    pub fn insert(&mut self, mut sa: OutboundSa) -> Result<SaIndex, SadError> {
        let (spi, remote) = (sa.spi(), sa.config().endpoints.remote);
        if self.position(spi, remote).is_some() {
            return Err(SadError::DuplicateSpi(spi));
        }
        if self.len() >= MAX_SAS {
            return Err(SadError::TooMany(MAX_SAS));
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let index = SaIndex { slot, serial: self.serial };
        let rank = Rank::new(&sa, index);
        self.entries.insert(rank, Entry::new(sa.selectors(), sa.config().services(), index));
        *self.groups.entry(rank.group).or_default() += 1;
        self.names.insert((spi, remote), slot);
        self.chained += usize::from(is_chained(&sa));
        sa.share_identifications(&self.identifications);
        self.parallel.insert(&sa, index);
        self.slots[slot as usize] = Some((self.serial, sa));
        self.changed();
        Ok(index)
    }

    /// Put an association in the place of another in one step, so that no lookup finds both or neither.
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

    /// Remove the association with this SPI to this peer and return it.
    ///
    /// # Errors
    /// [`SadError::UnknownSpi`].
    pub fn remove(&mut self, spi: Spi, remote: IpAddr) -> Result<OutboundSa, SadError> {
        let slot = self.position(spi, remote).ok_or(SadError::UnknownSpi(spi))?;
        let (serial, sa) = self.slots[slot].take().ok_or(SadError::UnknownSpi(spi))?;
        let index = SaIndex { slot: slot as u32, serial };
        let rank = Rank::new(&sa, index);
        self.parallel.remove(&sa, index);
        self.entries.remove(&rank);
        if let Some(count) = self.groups.get_mut(&rank.group) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&rank.group);
            }
        }
        self.names.remove(&(spi, remote));
        self.free.push(slot as u32);
        self.chained -= usize::from(is_chained(&sa));
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

    /// The association that [`Self::find`] finds, without the cache.
    ///
    /// # Errors
    /// The errors of [`Self::find`].
    pub fn search(&self, app: AppId, flow: &Flow, need: Services) -> Result<SaIndex, DropReason> {
        self.walk(app, flow, |entry| {
            // A later member of a bundle does a part of what the whole does: flows choose bundles by their first one.
            if entry.follows {
                Err(DropReason::NoSa)
            } else if entry.services.satisfies(need) {
                Ok(())
            } else {
                Err(DropReason::SaTooWeak)
            }
        })
    }

    /// The association that serves an answer to a packet that came with these services. It is the one of
    /// [`Self::find`], or the strongest of those whose selectors are equally specific, since an answer quotes what it
    /// answers.
    ///
    /// # Errors
    /// The errors of [`Self::find`].
    pub fn find_for_answer(
        &mut self,
        app: AppId,
        flow: &Flow,
        need: Services,
    ) -> Result<SaIndex, DropReason> {
        let key = FlowKey::new(app, flow, need.bits() | FOR_ANSWERS);
        if let Some(answer) = self.cache.get(self.epoch, &key) {
            return answer;
        }
        let answer = self.search_for_answer(app, flow, need);
        self.cache.put(self.epoch, &key, answer);
        answer
    }

    /// The association that [`Self::find_for_answer`] finds, without the cache.
    ///
    /// # Errors
    /// The errors of [`Self::find`].
    pub fn search_for_answer(&self, app: AppId, flow: &Flow, need: Services) -> Result<SaIndex, DropReason> {
        self.search(app, flow, need).map(|first| self.strongest_beside(first, flow))
    }

    /// The strongest association for the flow whose selectors are as specific as those of `first`.
    fn strongest_beside(&self, first: SaIndex, flow: &Flow) -> SaIndex {
        let Some(rank) = self.get(first).map(|sa| Rank::new(sa, first)) else { return first };
        let local = addr::to_bits(flow.local);
        let alike = self.entries.range(rank..).take_while(|(other, _)| other.is_as_specific_as(&rank));
        let serving =
            alike.map(|(_, entry)| entry).filter(|entry| !entry.follows && entry.covers_rest(flow, local));
        // The first of equally strong ones is the newest.
        let strongest =
            serving.reduce(|best, entry| if best.services.satisfies(entry.services) { best } else { entry });
        strongest.map_or(first, |entry| entry.index)
    }

    /// The first association for the flow in the order of [`Self::search`] that `fits`. If none does, the last refusal
    /// is the reason. `fits` is told of each association whether it is a later member of a bundle.
    ///
    /// # Errors
    /// [`DropReason::NoSa`], or what `fits` answered last.
    pub fn search_for(
        &self,
        app: AppId,
        flow: &Flow,
        fits: impl Fn(&OutboundSa, bool) -> Result<(), DropReason>,
    ) -> Result<SaIndex, DropReason> {
        self.walk(app, flow, |entry| {
            self.get(entry.index).map_or(Err(DropReason::NoSa), |sa| fits(sa, entry.follows))
        })
    }

    fn walk(
        &self,
        app: AppId,
        flow: &Flow,
        fits: impl Fn(&Entry) -> Result<(), DropReason>,
    ) -> Result<SaIndex, DropReason> {
        let (local, remote) = (addr::to_bits(flow.local), addr::to_bits(flow.remote));
        let mut reason = DropReason::NoSa;
        for group in self.groups.keys() {
            let bound = if group.shared { AppId::NONE } else { app };
            let key = (bound.0, Prefix::from_bits(remote, group.remote_len.0).first());
            for entry in self.standing_at(*group, key) {
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

    /// The entries with this key, the most specific first.
    fn standing_at(&self, group: Group, key: (u16, u128)) -> impl Iterator<Item = &Entry> {
        let from = self.entries.range(Rank::first(group, key)..);
        from.take_while(move |(rank, _)| rank.group == group && rank.key == key).map(|(_, entry)| entry)
    }

    /// An association to another peer, in UDP like `config`, that claims the same addresses of the other side for some
    /// of the same flows. The more specific of the two, or the newer, would take them (RFC 3948 sections 5.1 and 5.2).
    /// Prefixes of different lengths are no such claim: the longer one is meant to go first.
    pub fn rival(&self, config: &SaConfig) -> Option<&OutboundSa> {
        let place = |of: &SaConfig| {
            let in_udp = of.options.encapsulation == Encapsulation::Udp;
            in_udp.then_some((of.endpoints.remote, of.endpoints.remote_port))
        };
        let (mine, there) = (config.effective_selectors(), place(config)?);
        let (group, key) = Rank::place(&mine);
        let rest = self.standing_at(group, key).filter(|entry| !entry.follows);
        rest.filter_map(|entry| self.get(entry.index)).find(|sa| {
            let bundled =
                config.options.next == Some(sa.spi()) || sa.config().options.next == Some(config.spi);
            !bundled && place(sa.config()).is_some_and(|place| place != there) && mine.meets(sa.selectors())
        })
    }

    /// The association for packets of a class among those that stand beside this one and differ from it in nothing but
    /// SPI, keys and class (RFC 4301 section 4.1): the newest of the class, or the newest without a class, or this one.
    #[inline]
    pub fn of_class(&self, index: SaIndex, class: AggregateId) -> SaIndex {
        if !self.parallel.has_classes() {
            return index;
        }
        let beside = self.get(index).and_then(|sa| self.parallel.of_class(sa, class));
        // A later member of a bundle does a part of what the whole does.
        let follows = |index: &SaIndex| {
            let rank = self.get(*index).map(|sa| Rank::new(sa, *index));
            rank.and_then(|rank| self.entries.get(&rank)).is_some_and(|entry| entry.follows)
        };
        beside.filter(|beside| *beside == index || !follows(beside)).unwrap_or(index)
    }

    /// The name of the association with this SPI to this peer.
    pub fn index_of(&self, spi: Spi, remote: IpAddr) -> Option<SaIndex> {
        let slot = self.position(spi, remote)?;
        let (serial, _) = self.slots[slot].as_ref()?;
        Some(SaIndex { slot: slot as u32, serial: *serial })
    }

    /// The associations with this SPI, one to each peer.
    pub fn of_spi(&self, spi: Spi) -> impl Iterator<Item = &OutboundSa> {
        // IPv4 comes first.
        let from = (spi, IpAddr::from([0, 0, 0, 0]));
        let named = self.names.range(from..).take_while(move |((of, _), _)| *of == spi);
        named.filter_map(|(_, slot)| self.slots[*slot as usize].as_ref().map(|(_, sa)| sa))
    }

    /// An association that names this SPI as the next one of its bundle.
    pub fn before(&self, spi: Spi) -> Option<&OutboundSa> {
        if self.chained == 0 {
            return None;
        }
        self.list().map(|(_, sa)| sa).find(|sa| sa.config().options.next == Some(spi))
    }

    /// The association with this SPI to this peer.
    pub fn named(&self, spi: Spi, remote: IpAddr) -> Option<&OutboundSa> {
        self.slots[self.position(spi, remote)?].as_ref().map(|(_, sa)| sa)
    }

    /// The association with this SPI to this peer, to change it.
    pub fn named_mut(&mut self, spi: Spi, remote: IpAddr) -> Option<&mut OutboundSa> {
        let slot = self.position(spi, remote)?;
        self.slots[slot].as_mut().map(|(_, sa)| sa)
    }

    /// The association of this name, to change it, unless it was removed.
    #[inline]
    pub fn get_mut(&mut self, index: SaIndex) -> Option<&mut OutboundSa> {
        match self.slots.get_mut(index.slot as usize)? {
            Some((serial, sa)) if *serial == index.serial => Some(sa),
            _ => None,
        }
    }

    /// The association of this name, unless it was removed.
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
        let (spi, before) = (sa.spi(), sa.config().endpoints.remote);
        if !sa.may_move_to(remote, port) {
            return Err(SadError::UnknownSpi(spi));
        }
        if self.position(spi, remote).is_some_and(|slot| slot != index.slot as usize) {
            return Err(SadError::DuplicateSpi(spi));
        }
        if let Some((_, sa)) = self.slots.get_mut(index.slot as usize).and_then(Option::as_mut) {
            self.parallel.remove(sa, index);
            sa.move_to(remote, port);
            sa.share_identifications(&self.identifications);
            self.parallel.insert(sa, index);
        }
        self.names.remove(&(spi, before));
        self.names.insert((spi, remote), index.slot);
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

    /// Every association, to change it.
    pub fn list_mut(&mut self) -> impl Iterator<Item = &mut OutboundSa> {
        self.slots.iter_mut().filter_map(|held| held.as_mut().map(|(_, sa)| sa))
    }

    /// The number of associations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no associations.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A number that grows with every change; whoever caches an answer of [`Self::find`] compares it.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The members of the bundle that this association starts, itself first; see
    /// [`SaOptions::next`](crate::sa::SaOptions).
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

    /// The next member of the bundle behind `sa`: the one to the same peer with the SPI of `next`, otherwise the only
    /// one that has it.
    pub fn successor(&self, sa: &OutboundSa) -> Option<Result<SaIndex, DropReason>> {
        let (spi, peer) = (sa.config().options.next?, sa.config().endpoints.remote);
        let slot = self.position(spi, peer).or_else(|| {
            let mut named =
                self.names.range((spi, FIRST_PEER)..=(spi, LAST_PEER)).map(|(_, slot)| *slot as usize);
            named.next().filter(|_| named.next().is_none())
        });
        let index = slot.and_then(|slot| {
            let (serial, _) = self.slots.get(slot)?.as_ref()?;
            Some(SaIndex { slot: slot as u32, serial: *serial })
        });
        Some(index.ok_or(DropReason::ChainMissing))
    }

    /// The members of the bundle that begins with `head`, itself first, as far as they exist: at most [`MAX_CHAIN`].
    pub fn bundle<'s>(&'s self, head: &'s OutboundSa) -> impl Iterator<Item = &'s OutboundSa> {
        let next = |sa: &&'s OutboundSa| self.successor(sa).and_then(|index| self.get(index.ok()?));
        successors(Some(head), next).take(MAX_CHAIN)
    }

    /// Follow every chain once, so that no packet has to.
    fn follow_chains(&mut self) {
        if self.chained == 0 && self.chains.is_empty() {
            return;
        }
        self.chains.clear();
        self.chains = (0..self.slots.len())
            .map(|slot| {
                let (serial, _) = self.slots[slot].as_ref().ok_or(DropReason::NoSa)?;
                let first = SaIndex { slot: slot as u32, serial: *serial };
                Chain::follow(first, |index| self.get(index), |sa| self.successor(sa))
            })
            .collect();
        let followers: BTreeSet<u32> = self
            .list()
            .filter(|(index, _)| !self.is_circle(*index))
            .filter_map(|(_, sa)| self.successor(sa)?.ok())
            .map(|index| index.slot)
            .collect();
        let (chains, slots) = (&self.chains, &self.slots);
        for entry in self.entries.values_mut() {
            let slot = entry.index.slot as usize;
            entry.follows = followers.contains(&entry.index.slot);
            entry.services = match (chains.get(slot), slots.get(slot)) {
                (Some(Ok(chain)), _) => chain.services(),
                // Found all the same, for its packets to end with the chain's own reason.
                (_, Some(Some((_, sa)))) => sa.config().services(),
                _ => Services::NONE,
            };
        }
        if self.chained == 0 {
            self.chains.clear();
        }
    }

    /// Whether its bundle leads back to it. Every member of a circle is found, so that packets end with the chain's own
    /// reason.
    fn is_circle(&self, first: SaIndex) -> bool {
        let next = |index: &SaIndex| self.successor(self.get(*index)?)?.ok();
        successors(next(&first), next).take(self.slots.len()).any(|index| index == first)
    }

    fn position(&self, spi: Spi, remote: IpAddr) -> Option<usize> {
        self.names.get(&(spi, remote)).map(|slot| *slot as usize)
    }

    fn changed(&mut self) {
        self.epoch += 1;
        self.follow_chains();
    }
}

/// Whether the association has a next one, or cannot stand alone for lack of a key.
fn is_chained(sa: &OutboundSa) -> bool {
    let options = &sa.config().options;
    options.next.is_some() || !options.protocol.is_keyed()
}

impl std::fmt::Debug for OutboundSad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list().map(|(_, sa)| sa)).finish()
    }
}
