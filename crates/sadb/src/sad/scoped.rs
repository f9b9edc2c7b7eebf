//! Inbound associations that are found by more than their SPI (RFC 4301 section 4.1): SPI and destination, for a
//! multicast group, or SPI, destination and source. The longest match is tried first.
//!
//! The table is a second, small one: without an association of these classes nobody looks here. It is sorted, so that a
//! search takes the same few comparisons whatever strangers send, and nothing can collide.

use std::net::IpAddr;

use crate::{InboundSa, SaName, SadError, Spi};

/// The largest number of associations in the table. Each has a number below 256, which no SPI on the wire is (RFC 4303
/// section 2.1), to tell its fragments from those of others.
pub const MAX_SCOPED: usize = 255;

struct Entry {
    name: SaName,
    sa: Box<InboundSa>,
}

/// The table of these associations, sorted by name.
#[derive(Default)]
pub(super) struct Scoped {
    entries: Vec<Entry>,
    /// The number that was given last. A number that was given back is not given again at once, since fragments may
    /// still be held under it.
    last: u32,
}

impl Scoped {
    /// The index of the association that a packet from `source` to `destination` belongs to.
    pub(super) fn find(&self, spi: Spi, source: IpAddr, destination: IpAddr) -> Option<usize> {
        let pair = SaName { spi, destination: Some(destination), source: Some(source) };
        self.position(&pair).or_else(|| self.position(&SaName { source: None, ..pair }))
    }

    pub(super) fn position(&self, name: &SaName) -> Option<usize> {
        self.entries.binary_search_by(|entry| entry.name.cmp(name)).ok()
    }

    /// Whether an association has this SPI.
    pub(super) fn has(&self, spi: Spi) -> bool {
        let at = self.entries.partition_point(|entry| entry.name.spi < spi);
        self.entries.get(at).is_some_and(|entry| entry.name.spi == spi)
    }

    pub(super) fn insert(&mut self, mut sa: InboundSa) -> Result<(), SadError> {
        let name = sa.name();
        let Err(at) = self.entries.binary_search_by(|entry| entry.name.cmp(&name)) else {
            return Err(SadError::DuplicateSpi(name.spi));
        };
        let free = |number: &u32| self.entries.iter().all(|entry| entry.sa.context() != *number);
        let most = MAX_SCOPED as u32;
        let mut numbers = (0..most).map(|more| (self.last + more) % most + 1);
        let number = numbers.find(free).ok_or(SadError::TooMany(MAX_SCOPED))?;
        self.last = number;
        sa.set_context(number);
        self.entries.insert(at, Entry { name, sa: Box::new(sa) });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &SaName) -> Option<InboundSa> {
        let at = self.position(name)?;
        Some(*self.entries.remove(at).sa)
    }

    pub(super) fn at(&self, index: usize) -> Option<&InboundSa> {
        self.entries.get(index).map(|entry| entry.sa.as_ref())
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<&mut InboundSa> {
        self.entries.get_mut(index).map(|entry| entry.sa.as_mut())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InboundSa> {
        self.entries.iter().map(|entry| entry.sa.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InboundSa> {
        self.entries.iter_mut().map(|entry| entry.sa.as_mut())
    }
}
