//! The store of data that were sent and not acknowledged yet: every octet that went on, so that no later copy of it can
//! differ (rule Q.8; paper 003 section III.B.1).
//!
//! A [`Store`] holds one half of one connection as pieces in the order of their numbers, none of which overlap. The
//! pieces lie in chunks of a few sizes that the [`Arena`] lends, so that one octet does not take the room of a thousand
//! and nothing is allocated once the working set is there. Where memory is short a piece has only the keyed hash of its
//! octets: a copy of all of them can be compared, and none can be put right.

mod saved;

pub(super) use saved::PieceRecord;

use super::seq;
use crate::config::StoreLimits;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::Hasher;
use wire::checksum;

/// The sizes of chunks, in octets.
const SIZES: [usize; 3] = [64, 512, 4096];
/// The number of octets of a hash in the place of a chunk; no chunk is that small.
const HASH: usize = 8;
/// The number of octets that the books count for a piece beside its chunk.
const PIECE: usize = 32;
/// The number of octets below which a piece is small.
const SMALL: usize = 512;
/// The largest number of free chunks of each size that are kept.
const KEPT: usize = 4096;

/// The octets of all stores of a scrubber.
#[derive(Debug)]
pub(super) struct Arena {
    free: [Vec<Box<[u8]>>; SIZES.len()],
    #[allow(clippy::vec_box, reason = "a connection has the box: what is kept here is what it gets")]
    empty: Vec<Box<Store>>,
    hashes: Vec<Box<[u8]>>,
    used: usize,
    limit: usize,
    /// The number of octets in use from which on hashes are kept.
    hash_from: usize,
    key: [u8; 16],
}

impl Arena {
    /// An arena without stores. `key` is for hashes and secret: whoever knows it can make two texts with the same hash.
    pub fn new(limits: &StoreLimits, key: [u8; 16]) -> Arena {
        let (free, empty, hashes) = Default::default();
        let hash_from = limits.memory.saturating_mul(limits.hashes_from) / 256;
        Arena { free, empty, hashes, used: 0, limit: limits.memory, hash_from, key }
    }

    /// Whether memory is so short that only hashes are kept of data in order.
    #[inline]
    pub fn only_hashes(&self) -> bool {
        self.used >= self.hash_from
    }

    fn hash(&self, octets: &[u8]) -> [u8; HASH] {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(octets);
        hasher.finish().to_ne_bytes()
    }

    /// Take a hash of these octets in the place of a chunk.
    fn take_hash(&mut self, octets: &[u8]) -> Option<Box<[u8]>> {
        if self.used + HASH + PIECE > self.limit {
            return None;
        }
        self.used += HASH + PIECE;
        let hash = self.hash(octets);
        let mut chunk = self.hashes.pop().unwrap_or_else(|| Box::new([0; HASH]));
        chunk.copy_from_slice(&hash);
        Some(chunk)
    }

    /// The number of octets in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The part of the memory that is in use, in 256ths.
    pub fn fullness(&self) -> usize {
        self.used.saturating_mul(256).checked_div(self.limit).unwrap_or(256)
    }

    /// A store with nothing in it.
    pub fn store(&mut self) -> Box<Store> {
        self.empty.pop().unwrap_or_default()
    }

    fn take(&mut self, len: usize) -> Option<Box<[u8]>> {
        let class = SIZES.iter().position(|size| *size >= len).unwrap_or(SIZES.len() - 1);
        let size = SIZES[class];
        if self.used + size + PIECE > self.limit {
            return None;
        }
        self.used += size + PIECE;
        Some(self.free[class].pop().unwrap_or_else(|| vec![0; size].into_boxed_slice()))
    }

    /// Take room for a piece without octets.
    fn take_nothing(&mut self) -> Option<Box<[u8]>> {
        if self.used + PIECE > self.limit {
            return None;
        }
        self.used += PIECE;
        Some(Box::default())
    }

    fn put(&mut self, chunk: Box<[u8]>) {
        self.used = self.used.saturating_sub(chunk.len() + PIECE);
        let place = match SIZES.iter().position(|size| *size == chunk.len()) {
            Some(class) => &mut self.free[class],
            None if chunk.len() == HASH => &mut self.hashes,
            None => return,
        };
        if place.len() < KEPT {
            place.push(chunk);
        }
    }
}

/// A run of octets that follow each other.
#[derive(Debug)]
struct Piece {
    /// The sequence number of the first octet.
    start: u32,
    /// The place of the first octet in the chunk.
    from: u32,
    len: u32,
    chunk: Box<[u8]>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.start.wrapping_add(self.len)
    }

    /// Whether its octets went on elsewhere, so that nobody here knows them.
    fn is_cold(&self) -> bool {
        self.chunk.is_empty()
    }

    /// Whether only the hash of its octets is known.
    fn is_hash(&self) -> bool {
        self.chunk.len() == HASH
    }

    /// Whether its octets are known.
    fn has_octets(&self) -> bool {
        self.chunk.len() > HASH
    }

    fn octets(&self) -> &[u8] {
        let from = self.from as usize;
        self.chunk.get(from..from + self.len as usize).unwrap_or(&[])
    }

    /// The number of `len` octets that find room behind those that are there: all of them, or an even number, at which
    /// a sum can go on.
    fn fits(&self, len: usize) -> usize {
        if !self.has_octets() {
            return 0;
        }
        let room = self.chunk.len().saturating_sub((self.from + self.len) as usize);
        if room >= len { len } else { room & !1 }
    }

    /// Put `data` behind the octets and sum them up; `None` without room.
    #[inline]
    fn append_sum(&mut self, data: &[u8]) -> Option<u32> {
        let at = (self.from + self.len) as usize;
        let sum = checksum::copy_sum(self.chunk.get_mut(at..)?, data)?;
        self.len += data.len() as u32;
        Some(sum)
    }

    /// Put `data` behind the octets, where there is room.
    fn append(&mut self, data: &[u8]) {
        let at = (self.from + self.len) as usize;
        if let Some(place) = self.chunk.get_mut(at..at + data.len()) {
            place.copy_from_slice(data);
            self.len += data.len() as u32;
        }
    }
}

/// The result of recording data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordResult {
    /// The number of octets from the front that are in the store now, as they are in the data; those behind may not go
    /// on.
    pub kept: usize,
    /// Whether some octets were there before with another value.
    pub differs: bool,
    /// Whether it ended at octets that went on and that nothing can be compared with: they went on elsewhere, or there
    /// is a hash of more octets than came or of others beside them.
    pub unknown: bool,
    /// Whether it ended at octets whose hash is another.
    pub wrong: bool,
}

/// The bounds on what more may be recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The number of pieces beyond which small ones are refused, and the greatest distance from either end at which one
    /// may be put among others.
    pub pieces: usize,
    /// The number that the receiver waits for; a piece that starts there is never one too many.
    pub next: u32,
    /// The number of octets that one hash covers: as many as will come again together.
    pub unit: usize,
}

/// The data of one half of one connection.
#[derive(Debug, Default)]
pub(super) struct Store {
    pieces: VecDeque<Piece>,
}

impl Store {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The index of the first piece that ends behind `number`; most often there is none. All pieces lie within half the
    /// circle of numbers, and so does whatever is asked for, as long as rule Q.5 holds both to a window.
    fn place(&self, number: u32) -> usize {
        if self.pieces.back().is_none_or(|last| !seq::before(number, last.end())) {
            return self.pieces.len();
        }
        self.pieces.partition_point(|piece| !seq::before(number, piece.end()))
    }

    /// The first number from `from` on that is not in store.
    pub fn reaches(&self, from: u32) -> u32 {
        let mut at = from;
        for piece in self.pieces.range(self.place(from)..) {
            if seq::before(at, piece.start) {
                break;
            }
            at = seq::max(at, piece.end());
        }
        at
    }

    /// The number of octets behind `from`, counted until there are more than `enough`.
    pub fn octets_behind(&self, from: u32, enough: usize) -> usize {
        let mut octets = 0;
        for piece in self.pieces.iter().rev() {
            if octets > enough || !seq::before(from, piece.end()) {
                break;
            }
            octets += seq::gap(seq::max(from, piece.start), piece.end()) as usize;
        }
        octets
    }

    /// Record `data`, the first octet of which has the number `start`. Octets that are in store already replace those
    /// in `data`, if `rewrite` says so. Recording ends where there is no more room: [`RecordResult::kept`].
    pub fn record(
        &mut self,
        arena: &mut Arena,
        room: Room,
        start: u32,
        data: &mut [u8],
        rewrite: bool,
    ) -> RecordResult {
        let mut done = RecordResult::default();
        let mut at = self.place(start);
        while done.kept < data.len() {
            let here = start.wrapping_add(done.kept as u32);
            let rest = data.get_mut(done.kept..).unwrap_or(&mut []);
            match self.pieces.get(at) {
                Some(piece) if !seq::before(here, piece.start) => {
                    if piece.is_hash() && piece.from == 0 && here == piece.start {
                        let copy = rest.get(..piece.len as usize);
                        match copy.map(|copy| arena.hash(copy) == *piece.chunk) {
                            Some(true) => {
                                done.kept += piece.len as usize;
                                at += 1;
                                continue;
                            }
                            Some(false) => done.wrong = true,
                            None => done.unknown = true,
                        }
                        return done;
                    }
                    if !piece.has_octets() {
                        done.unknown = true;
                        return done;
                    }
                    let skip = seq::gap(piece.start, here) as usize;
                    let known = piece.octets().get(skip..).unwrap_or(&[]);
                    let both = known.len().min(rest.len());
                    let (known, copy) = (&known[..both], &mut rest[..both]);
                    if known != copy {
                        done.differs = true;
                        if rewrite {
                            copy.copy_from_slice(known);
                        }
                    }
                    done.kept += both;
                    at += 1;
                }
                next => {
                    let until = next.map_or(rest.len(), |piece| seq::gap(here, piece.start) as usize);
                    let fresh = &rest[..until.min(rest.len())];
                    let written = self.insert(arena, room, at, here, fresh);
                    done.kept += written.octets;
                    if written.octets < fresh.len() {
                        return done;
                    }
                    at += written.pieces;
                }
            }
        }
        done
    }

    /// Put data behind everything that is in store, which ends at `start`, and sum them up on the way (RFC 1071).
    /// `None` if there is no room or `start` is elsewhere; then the store is as it was.
    #[inline]
    pub fn append(&mut self, arena: &mut Arena, start: u32, data: &[u8]) -> Option<(u32, Mark)> {
        let last = self.pieces.back();
        if last.is_some_and(|last| last.end() != start) || arena.only_hashes() {
            return None;
        }
        let mark = Mark { pieces: self.pieces.len(), len: last.map_or(0, |last| last.len) };
        // Chunks as `insert` takes them, so that what is left does not tell which way a segment took.
        let size = last.filter(|last| last.has_octets()).map_or(0, |last| last.chunk.len() * 2);
        let (mut done, mut sum) = (0, 0);
        while done < data.len() {
            let rest = data.get(done..)?;
            let last = self.pieces.back();
            let more = last.map_or(0, |last| last.fits(rest.len()));
            if more == 0 {
                let Some(chunk) = arena.take(rest.len().max(size)) else {
                    self.undo(arena, mark);
                    return None;
                };
                let start = start.wrapping_add(done as u32);
                self.pieces.push_back(Piece { start, from: 0, len: 0, chunk });
                continue;
            }
            sum += self.pieces.back_mut()?.append_sum(rest.get(..more)?)?;
            done += more;
        }
        Some((sum, mark))
    }

    /// Take back what was appended since `mark`.
    pub fn undo(&mut self, arena: &mut Arena, mark: Mark) {
        while self.pieces.len() > mark.pieces
            && let Some(piece) = self.pieces.pop_back()
        {
            arena.put(piece.chunk);
        }
        if let Some(last) = self.pieces.back_mut() {
            last.len = mark.len;
        }
    }

    /// Put octets that are not in store in front of piece `at`.
    fn insert(
        &mut self,
        arena: &mut Arena,
        room: Room,
        mut at: usize,
        start: u32,
        data: &[u8],
    ) -> WriteResult {
        let mut written = WriteResult::default();
        let mut size = 0;
        if let Some(last) = at.checked_sub(1).and_then(|at| self.pieces.get_mut(at))
            && last.end() == start
        {
            let more = last.fits(data.len());
            last.append(data.get(..more).unwrap_or(&[]));
            written.octets = more;
            // Many small ones in a row get larger and larger chunks.
            size = last.chunk.len() * 2;
        }
        if start == room.next && arena.only_hashes() {
            return self.insert_hashes(arena, room, at, start, data, written);
        }
        while written.octets < data.len() {
            let rest = data.get(written.octets..).unwrap_or(&[]);
            let len = self.pieces.len();
            let small = rest.len() < SMALL && len >= room.pieces;
            let deep = at.min(len - at) > room.pieces;
            if (small || deep) && start != room.next {
                return written;
            }
            let Some(chunk) = arena.take(rest.len().max(size)) else { return written };
            let start = start.wrapping_add(written.octets as u32);
            let mut piece = Piece { start, from: 0, len: 0, chunk };
            let octets = piece.fits(rest.len());
            piece.append(rest.get(..octets).unwrap_or(&[]));
            self.pieces.insert(at, piece);
            at += 1;
            written.octets += octets;
            written.pieces += 1;
        }
        written
    }

    /// Put the rest of the data, which was not written yet, in front of piece `at` by hashes.
    fn insert_hashes(
        &mut self,
        arena: &mut Arena,
        room: Room,
        at: usize,
        start: u32,
        data: &[u8],
        mut written: WriteResult,
    ) -> WriteResult {
        for octets in data.get(written.octets..).unwrap_or(&[]).chunks(room.unit.max(1)) {
            let Some(chunk) = arena.take_hash(octets) else { break };
            let start = start.wrapping_add(written.octets as u32);
            self.pieces
                .insert(at + written.pieces, Piece { start, from: 0, len: octets.len() as u32, chunk });
            written.octets += octets.len();
            written.pieces += 1;
        }
        written
    }

    /// Forget everything in front of `to`.
    pub fn forget(&mut self, arena: &mut Arena, to: u32) {
        while let Some(first) = self.pieces.front_mut() {
            if seq::before(to, first.end()) {
                let gone = seq::gap(first.start, to);
                first.start = first.start.wrapping_add(gone);
                first.from += gone;
                first.len -= gone;
                return;
            }
            if let Some(piece) = self.pieces.pop_front() {
                arena.put(piece.chunk);
            }
        }
    }

    /// Forget everything, and give the store itself back.
    pub fn close(mut self: Box<Self>, arena: &mut Arena) {
        while let Some(piece) = self.pieces.pop_front() {
            arena.put(piece.chunk);
        }
        if arena.empty.len() < KEPT {
            arena.empty.push(self);
        }
    }
}

/// The end of a store at some time, to which [`Store::undo`] goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pieces: usize,
    len: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct WriteResult {
    octets: usize,
    pieces: usize,
}

#[cfg(test)]
mod tests;
