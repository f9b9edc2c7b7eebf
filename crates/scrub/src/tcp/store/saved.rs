//! The records of data in store, on their way to another scrubber.

use super::super::seq;
use super::{Arena, Piece, Room, Store};
use serde::{Deserialize, Serialize};

/// The record of octets that follow each other, `start` behind the first that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceRecord {
    pub start: u32,
    octets: Octets,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Octets {
    Known(Vec<u8>),
    /// This many octets went on, and the record does not say which.
    Unknown(u32),
}

impl PieceRecord {
    pub fn len(&self) -> u32 {
        match &self.octets {
            Octets::Known(octets) => u32::try_from(octets.len()).unwrap_or(u32::MAX),
            Octets::Unknown(len) => *len,
        }
    }
}

impl Store {
    /// The records of all pieces, in order. Pieces that touch each other make one record, however they lie in chunks.
    pub fn records(&self, una: u32, octets: bool) -> Vec<PieceRecord> {
        let mut records: Vec<PieceRecord> = Vec::new();
        for piece in &self.pieces {
            let start = piece.start.wrapping_sub(una);
            let known = octets && piece.has_octets();
            let last = records.last_mut().filter(|last| last.start.wrapping_add(last.len()) == start);
            match last.map(|last| &mut last.octets) {
                Some(Octets::Known(all)) if known => all.extend_from_slice(piece.octets()),
                Some(Octets::Unknown(len)) if !known => *len = len.saturating_add(piece.len),
                _ => {
                    let octets = if known {
                        Octets::Known(piece.octets().to_vec())
                    } else {
                        Octets::Unknown(piece.len)
                    };
                    records.push(PieceRecord { start, octets });
                }
            }
        }
        records
    }

    /// A store with these pieces, which are in order and do not overlap. Octets that are missing among the first
    /// `whole` went on without being told. An inner `None` says that the store would be empty, an outer one that there
    /// is no room.
    pub fn restore(
        arena: &mut Arena,
        una: u32,
        whole: u32,
        pieces: &[PieceRecord],
    ) -> Option<Option<Box<Store>>> {
        let mut store = arena.store();
        let full = store.fill(arena, una, whole, pieces).is_none();
        if full || store.is_empty() {
            store.close(arena);
            return if full { None } else { Some(None) };
        }
        Some(Some(store))
    }

    fn fill(&mut self, arena: &mut Arena, una: u32, whole: u32, pieces: &[PieceRecord]) -> Option<()> {
        // Not from `next` on, where hashes might be kept instead.
        let room = Room { pieces: usize::MAX, next: una.wrapping_sub(1), unit: 0 };
        let mut at = 0_u32;
        for piece in pieces {
            self.cold(arena, una.wrapping_add(at), piece.start.min(whole).saturating_sub(at))?;
            let start = una.wrapping_add(piece.start);
            match &piece.octets {
                Octets::Known(octets) => {
                    let place = self.pieces.len();
                    if self.insert(arena, room, place, start, octets).octets < octets.len() {
                        return None;
                    }
                }
                Octets::Unknown(len) => self.cold(arena, start, *len)?,
            }
            at = piece.start.saturating_add(piece.len());
        }
        self.cold(arena, una.wrapping_add(at), whole.saturating_sub(at))
    }

    /// Put `len` octets behind everything that went on and are not known.
    fn cold(&mut self, arena: &mut Arena, start: u32, len: u32) -> Option<()> {
        if len == 0 {
            return Some(());
        }
        if let Some(last) = self.pieces.back_mut()
            && last.is_cold()
            && last.end() == start
        {
            last.len = last.len.saturating_add(len);
            return Some(());
        }
        debug_assert!(self.pieces.back().is_none_or(|last| !seq::before(start, last.end())));
        let chunk = arena.take_nothing()?;
        self.pieces.push_back(Piece { start, from: 0, len, chunk });
        Some(())
    }
}
