//! Inbound associations by SPI. A lookup is an array index and one comparison; there is no hash that a stranger could
//! crowd.
//!
//! The low bits of an SPI name its home slot: 12 bits as long as there are no more than 4096 associations, one more
//! each time that the table is full. An SPI that we choose lives at home by construction. It does so in a larger table
//! too, since numbers that differ in fewer bits differ in more. An SPI that the operator chose lives at home if the
//! slot is free, otherwise in one of the slots behind it, and if none of those is free anywhere, where a sorted table
//! finds it. Associations whose [key class](crate::sa::KeyClass) is longer than the SPI are in a table of their own,
//! see `scoped.rs`.

use std::net::IpAddr;

use super::scoped::Scoped;
use crate::sa::{KeyClass, SaProtocol};
use crate::{InboundSa, MAX_SAS, SaName, SadError, Spi};

/// The number of slots of an empty table.
const FIRST_SLOTS: usize = 4096;

/// The number of slots behind its home in which an SPI is searched: two cache lines. The bound keeps the cost of any
/// SPI that a stranger makes up.
const NEAR: usize = 32;

enum Slot {
    Free,
    /// The SPI is promised to a peer by [`InboundSad::allocate_spi`].
    Promised,
    Taken(Box<InboundSa>),
}

/// The inbound associations of one thread.
pub struct InboundSad {
    /// The SPI of each slot; zero where the slot is free. It is read for every packet, so it lies apart from the rest.
    spis: Box<[u32]>,
    slots: Box<[Slot]>,
    /// The number of SPIs that live near their home and not in it.
    near: usize,
    /// The SPIs that live elsewhere, sorted, with their slots.
    displaced: Vec<(u32, u32)>,
    /// The tag that was last given out for each slot; the next one there differs.
    last_tags: Box<[u32]>,
    /// The slot at which the search for a free one continues, so that a slot rests before it is used again.
    cursor: usize,
    taken: usize,
    /// The associations with a longer key than their SPI; `None` if there is none.
    scoped: Option<Box<Scoped>>,
}

impl InboundSad {
    /// A database without associations.
    pub fn new() -> InboundSad {
        InboundSad {
            spis: vec![0; FIRST_SLOTS].into_boxed_slice(),
            slots: (0..FIRST_SLOTS).map(|_| Slot::Free).collect(),
            near: 0,
            displaced: Vec::new(),
            last_tags: vec![0; FIRST_SLOTS].into_boxed_slice(),
            cursor: 0,
            taken: 0,
            scoped: None,
        }
    }

    /// Choose and hold an SPI of our own: the index of a free slot below 20 random bits (15 in the largest table), so
    /// that a stranger must guess them. The SPI stays held until [`Self::insert`] uses it or [`Self::release_spi`]
    /// gives it up.
    ///
    /// # Errors
    /// [`SadError::TooMany`].
    pub fn allocate_spi(&mut self, random: u32) -> Result<Spi, SadError> {
        let slot = self.free_slot()?;
        let tags = u32::MAX >> self.home_bits();
        let mut tag = random >> self.home_bits();
        // Tag zero could make a reserved SPI; a tag used in this slot just before could name an association that the
        // peer still sends on; the operator may have chosen this SPI by hand.
        while tag == 0 || tag == self.last_tags[slot] || self.is_used(self.join(tag, slot)) {
            tag = if tag >= tags { 1 } else { tag + 1 };
        }
        let spi = self.join(tag, slot);
        self.last_tags[slot] = tag;
        self.spis[slot] = spi.0;
        self.slots[slot] = Slot::Promised;
        self.taken += 1;
        Ok(spi)
    }

    /// Give up an SPI that was allocated and not used; no effect on any other.
    pub fn release_spi(&mut self, spi: Spi) {
        if let Some(slot) = self.slot_of(spi)
            && matches!(self.slots[slot], Slot::Promised)
        {
            self.clear(spi, slot);
        }
    }

    /// Add an association, whose SPI was allocated here or chosen by the operator.
    ///
    /// # Errors
    /// [`SadError::DuplicateSpi`], [`SadError::TooMany`], [`SadError::ReservedSpi`].
    pub fn insert(&mut self, sa: InboundSa) -> Result<(), SadError> {
        let spi = sa.spi();
        // Of compression it may be well known; that was checked with its configuration.
        if spi.is_reserved() && sa.config().options.protocol != SaProtocol::IpComp {
            return Err(SadError::ReservedSpi(spi));
        }
        if sa.config().options.class != KeyClass::Spi {
            self.scoped.get_or_insert_default().insert(sa)?;
            // If the SPI was promised it is in use now, if not in a slot.
            self.release_spi(spi);
            return Ok(());
        }
        let slot = match self.slot_of(spi) {
            Some(slot) if matches!(self.slots[slot], Slot::Promised) => slot,
            Some(_) => return Err(SadError::DuplicateSpi(spi)),
            None => self.settle(spi)?,
        };
        self.slots[slot] = Slot::Taken(Box::new(sa));
        Ok(())
    }

    /// Remove an association and return it.
    ///
    /// # Errors
    /// [`SadError::UnknownSpi`].
    pub fn remove(&mut self, name: impl Into<SaName>) -> Result<InboundSa, SadError> {
        let name = name.into();
        let spi = name.spi;
        if !name.is_spi_alone() {
            let scoped = self.scoped.as_mut().ok_or(SadError::UnknownSpi(spi))?;
            return scoped.remove(&name).ok_or(SadError::UnknownSpi(spi));
        }
        let slot = self.slot_of(spi).ok_or(SadError::UnknownSpi(spi))?;
        match std::mem::replace(&mut self.slots[slot], Slot::Promised) {
            Slot::Taken(sa) => {
                self.clear(spi, slot);
                Ok(*sa)
            }
            // What was there was only promised, and is again.
            Slot::Promised | Slot::Free => Err(SadError::UnknownSpi(spi)),
        }
    }

    /// The association that a packet from `source` to `destination` with this SPI belongs to. The one that names both
    /// addresses comes first, then the one that names the destination, then the SPI alone (RFC 4301 section 4.1).
    #[inline]
    pub fn find(&self, spi: Spi, source: IpAddr, destination: IpAddr) -> Option<&InboundSa> {
        match &self.scoped {
            None => self.by_spi(spi),
            Some(scoped) => match scoped.find(spi, source, destination) {
                Some(at) => scoped.at(at),
                None => self.by_spi(spi),
            },
        }
    }

    /// The association that [`Self::find`] finds, to change it.
    #[inline]
    pub fn find_mut(&mut self, spi: Spi, source: IpAddr, destination: IpAddr) -> Option<&mut InboundSa> {
        if self.scoped.is_some() {
            let found = self.scoped.as_ref().and_then(|scoped| scoped.find(spi, source, destination));
            if let Some(at) = found {
                return self.scoped.as_mut()?.at_mut(at);
            }
        }
        self.by_spi_mut(spi)
    }

    /// The association of this name, to change it. An [`Spi`] names the one that is found by it alone.
    #[inline]
    pub fn get_mut(&mut self, name: impl Into<SaName>) -> Option<&mut InboundSa> {
        let name = name.into();
        if name.is_spi_alone() {
            return self.by_spi_mut(name.spi);
        }
        let scoped = self.scoped.as_mut()?;
        let at = scoped.position(&name)?;
        scoped.at_mut(at)
    }

    /// The association of this name, to look at.
    #[inline]
    pub fn get(&self, name: impl Into<SaName>) -> Option<&InboundSa> {
        let name = name.into();
        if name.is_spi_alone() {
            return self.by_spi(name.spi);
        }
        let scoped = self.scoped.as_ref()?;
        scoped.at(scoped.position(&name)?)
    }

    #[inline]
    fn by_spi_mut(&mut self, spi: Spi) -> Option<&mut InboundSa> {
        let slot = self.slot_of(spi)?;
        match &mut self.slots[slot] {
            Slot::Taken(sa) => Some(sa),
            Slot::Promised | Slot::Free => None,
        }
    }

    #[inline]
    fn by_spi(&self, spi: Spi) -> Option<&InboundSa> {
        match &self.slots[self.slot_of(spi)?] {
            Slot::Taken(sa) => Some(sa),
            Slot::Promised | Slot::Free => None,
        }
    }

    /// The associations with this SPI. The one that is found by it alone comes first, then those that are found by
    /// addresses too.
    pub fn of_spi(&self, spi: Spi) -> impl Iterator<Item = &InboundSa> {
        let scoped = self.scoped.iter().flat_map(|scoped| scoped.iter());
        self.by_spi(spi).into_iter().chain(scoped.filter(move |sa| sa.spi() == spi))
    }

    /// Every association, in no order that means anything.
    pub fn list(&self) -> impl Iterator<Item = &InboundSa> {
        let slots = self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken(sa) => Some(sa.as_ref()),
            Slot::Promised | Slot::Free => None,
        });
        slots.chain(self.scoped.iter().flat_map(|scoped| scoped.iter()))
    }

    /// Every association, to change it.
    pub fn list_mut(&mut self) -> impl Iterator<Item = &mut InboundSa> {
        let slots = self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Taken(sa) => Some(sa.as_mut()),
            Slot::Promised | Slot::Free => None,
        });
        slots.chain(self.scoped.iter_mut().flat_map(|scoped| scoped.iter_mut()))
    }

    /// The number of associations.
    pub fn len(&self) -> usize {
        self.list().count()
    }

    /// Whether there are no associations.
    pub fn is_empty(&self) -> bool {
        self.list().next().is_none()
    }

    fn is_used(&self, spi: Spi) -> bool {
        self.slot_of(spi).is_some() || self.scoped.as_ref().is_some_and(|scoped| scoped.has(spi))
    }

    #[inline]
    fn slot_of(&self, spi: Spi) -> Option<usize> {
        let home = self.home(spi);
        if self.spis[home] == spi.0 && spi.0 != 0 {
            return Some(home);
        }
        if self.near > 0
            && spi.0 != 0
            && let Some(slot) = self.near_slot(home, spi.0)
        {
            return Some(slot);
        }
        if self.displaced.is_empty() {
            return None;
        }
        let at = self.displaced.binary_search_by_key(&spi.0, |(spi, _)| *spi).ok()?;
        Some(self.displaced[at].1 as usize)
    }

    /// The first slot near behind `home` that holds this SPI; zero finds a free one.
    #[inline]
    fn near_slot(&self, home: usize, spi: u32) -> Option<usize> {
        let end = self.spis.len().min(home + 1 + NEAR);
        let (behind, around) = (home + 1..end, 0..(home + 1 + NEAR).saturating_sub(self.spis.len()));
        let holds = |range: std::ops::Range<usize>| {
            let found = self.spis.get(range.clone())?.iter().position(|held| *held == spi)?;
            Some(range.start + found)
        };
        holds(behind).or_else(|| holds(around))
    }

    /// Record where an SPI lives whose home is taken by another.
    fn displace(&mut self, spi: u32, slot: usize) {
        if self.is_near(self.home(Spi(spi)), slot) {
            self.near += 1;
        } else {
            let at = self.displaced.partition_point(|(other, _)| *other < spi);
            self.displaced.insert(at, (spi, slot as u32));
        }
    }

    fn is_near(&self, home: usize, slot: usize) -> bool {
        // The size is a power of two.
        (1..=NEAR).contains(&(slot.wrapping_sub(home) & (self.spis.len() - 1)))
    }

    /// Find a slot for an SPI that was chosen elsewhere, and take it.
    fn settle(&mut self, spi: Spi) -> Result<usize, SadError> {
        if self.spis[self.home(spi)] != 0 {
            self.make_room()?;
        }
        let home = self.home(spi);
        let slot = if self.spis[home] == 0 {
            home
        } else {
            let slot = match self.near_slot(home, 0) {
                Some(slot) => slot,
                None => self.free_slot()?,
            };
            self.displace(spi.0, slot);
            slot
        };
        self.spis[slot] = spi.0;
        self.taken += 1;
        Ok(slot)
    }

    fn clear(&mut self, spi: Spi, slot: usize) {
        let home = self.home(spi);
        if self.is_near(home, slot) {
            self.near -= 1;
        } else if slot != home
            && let Ok(at) = self.displaced.binary_search_by_key(&spi.0, |(spi, _)| *spi)
        {
            self.displaced.remove(at);
        }
        self.slots[slot] = Slot::Free;
        self.spis[slot] = 0;
        self.taken -= 1;
    }

    fn free_slot(&mut self) -> Result<usize, SadError> {
        self.make_room()?;
        let size = self.spis.len();
        let free = (0..size).map(|step| (self.cursor + step) % size).find(|slot| self.spis[*slot] == 0);
        let slot = free.ok_or(SadError::TooMany(MAX_SAS))?;
        self.cursor = (slot + 1) % size;
        Ok(slot)
    }

    /// Make sure that there is a free slot: a full table is replaced by one of twice the size.
    fn make_room(&mut self) -> Result<(), SadError> {
        let size = self.spis.len();
        if self.taken < size {
            return Ok(());
        }
        if size >= MAX_SAS {
            return Err(SadError::TooMany(MAX_SAS));
        }
        let old = std::mem::take(&mut self.slots);
        let spis = std::mem::replace(&mut self.spis, vec![0; 2 * size].into_boxed_slice());
        self.slots = (0..2 * size).map(|_| Slot::Free).collect();
        // A tag used in a slot was used in both that it becomes.
        self.last_tags = self.last_tags.iter().chain(self.last_tags.iter()).map(|tag| tag >> 1).collect();
        self.cursor = size;
        let mut homeless = Vec::new();
        for (spi, held) in spis.into_iter().zip(old) {
            let home = self.home(Spi(spi));
            if self.spis[home] == 0 {
                (self.spis[home], self.slots[home]) = (spi, held);
            } else {
                homeless.push((spi, held));
            }
        }
        self.displaced.clear();
        self.near = 0;
        // Whatever is free stays behind this: slots are only taken here.
        let mut free = 0;
        for (spi, held) in homeless {
            let slot = self.near_slot(self.home(Spi(spi)), 0).or_else(|| {
                free += self.spis.get(free..)?.iter().position(|held| *held == 0)?;
                Some(free)
            });
            let slot = slot.ok_or(SadError::TooMany(MAX_SAS))?;
            (self.spis[slot], self.slots[slot]) = (spi, held);
            self.displace(spi, slot);
        }
        Ok(())
    }

    #[inline]
    fn home(&self, spi: Spi) -> usize {
        // The size is a power of two.
        spi.0 as usize & (self.spis.len() - 1)
    }

    fn home_bits(&self) -> u32 {
        self.spis.len().trailing_zeros()
    }

    fn join(&self, tag: u32, slot: usize) -> Spi {
        Spi(tag << self.home_bits() | slot as u32)
    }
}

impl Default for InboundSad {
    fn default() -> InboundSad {
        InboundSad::new()
    }
}

impl std::fmt::Debug for InboundSad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}
