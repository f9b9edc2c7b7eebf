//! Reassembly of IPv4 and IPv6 fragments (RFC 791 section 3.2, RFC 8200 section 4.5, RFC 5722, RFC 6946, RFC 7112, RFC
//! 3168 section 5.3).
//!
//! One fragment enters at a time; the whole packet leaves when the last piece is there. Fragments that overlap end the
//! whole set, also pieces that come later; an exact copy of a piece is ignored. The table is small and searched in
//! order, so no choice of identifications makes it slow. When it is full, the oldest set makes room.

use crate::field::{put_octet, range};
use crate::ip::{self, Fragment, Headers};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::{self, FRAGMENT_LEN, Ipv6};
use crate::{Buf, DropReason, Pool, Time, WireError};
use std::net::IpAddr;
use std::time::Duration;

/// The largest length of an IP packet in octets.
const MAX_DATAGRAM: usize = 65535;
/// The most pieces of one packet. No link is narrower than 68 octets (RFC 791), 48 of them payload.
const MAX_PIECES: usize = MAX_DATAGRAM.div_ceil(48);
/// Octets that a whole packet has free behind it, for a trailer.
const TAILROOM: usize = 64;

const ECN_CE: u8 = 3;

/// The limits of a [`Reassembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most packets that are incomplete at once.
    pub datagrams: usize,
    /// The most octets held for all of them.
    pub memory: usize,
    /// The time after a packet's first piece when the packet is given up.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { datagrams: 64, memory: 2 << 20, timeout: Duration::from_secs(60) }
    }
}

/// What became of a fragment.
#[derive(Debug)]
pub enum Reassembled {
    /// The fragment is kept until the rest comes, or was a copy of one that is kept.
    Incomplete,
    /// The fragment was the last one missing. This is the whole packet, without any sign of fragmentation. It may be
    /// fragmented again, even where its sender set DF: that forbade fragments to be cut, not the packet.
    Complete(Buf),
    /// The fragment is of no use.
    Rejected(DropReason),
}

/// The fields that the fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    context: u32,
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    /// The protocol; zero in IPv6, where only the first fragment's counts.
    protocol: u8,
}

/// A fragment that was checked on its own.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    start: usize,
    end: usize,
    more: bool,
    data: &'a [u8],
    /// The packet that the fragment came in.
    bytes: &'a [u8],
    headers: &'a Headers,
    unfragmentable_len: usize,
    next_header: u8,
}

impl<'a> Piece<'a> {
    fn check(bytes: &'a [u8], headers: &'a Headers, fragment: &Fragment) -> Result<Self, DropReason> {
        let v6 = headers.version == 6;
        let data_at = fragment.unfragmentable_len + if v6 { FRAGMENT_LEN } else { 0 };
        let data = range(bytes, data_at, headers.total_len);
        let (start, end) = (fragment.offset, fragment.offset + data.len());
        // Only an atomic fragment may be empty.
        let empty = data.is_empty() && (fragment.more || start > 0);
        let misaligned = fragment.more && !data.len().is_multiple_of(8);
        let too_long = end + length_overhead(headers.version, fragment.unfragmentable_len) > MAX_DATAGRAM;
        if empty {
            return Err(DropReason::FragmentEmpty);
        } else if misaligned {
            return Err(DropReason::FragmentAlignment);
        } else if too_long {
            return Err(DropReason::FragmentTooLong);
        } else if v6 && start == 0 && !ip::upper_complete(bytes, headers) {
            return Err(DropReason::FragmentHeader);
        }
        let Fragment { more, unfragmentable_len, next_header, .. } = *fragment;
        Ok(Piece { start, end, more, data, bytes, headers, unfragmentable_len, next_header })
    }

    /// Makes the header of the whole packet, except for lengths, from its first fragment.
    fn whole_header(&self) -> Result<Vec<u8>, WireError> {
        let mut header = range(self.bytes, 0, self.unfragmentable_len).to_vec();
        if self.headers.version == 6 {
            let chain = ipv6::walk(range(self.bytes, 0, self.headers.total_len))?;
            let fragment = chain.fragment.ok_or(WireError::ExtensionOrder)?;
            put_octet(&mut header, fragment.named_at, fragment.next_header);
        }
        Ok(header)
    }
}

/// Octets of the header that the packet's length field covers beside the payload.
fn length_overhead(version: u8, header_len: usize) -> usize {
    if version == 6 { header_len.saturating_sub(ipv6::HEADER_LEN) } else { header_len }
}

/// The pieces of one packet.
#[derive(Debug)]
struct Set {
    key: Key,
    since: Time,
    version: u8,
    /// The header from the first fragment.
    header: Option<Vec<u8>>,
    data: Vec<u8>,
    /// The ranges where there are data, in order, one entry for each fragment.
    pieces: Vec<(u32, u32)>,
    octets: usize,
    /// The protocol that the first piece to come names for the data, where all pieces have to name the same.
    next_header: Option<u8>,
    /// The length of the data, known from the last fragment.
    total: Option<usize>,
    /// The ECN codepoints seen, one bit for each.
    ecn: u8,
    /// Whether pieces contradicted each other, so that nothing that belongs here is wanted.
    poisoned: bool,
}

impl Set {
    fn new(key: Key, version: u8, since: Time, next_header: Option<u8>) -> Set {
        Set {
            key,
            next_header,
            since,
            version,
            header: None,
            data: Vec::new(),
            pieces: Vec::new(),
            octets: 0,
            total: None,
            ecn: 0,
            poisoned: false,
        }
    }

    fn is_of(&self, of: u128) -> bool {
        source(self.key.src) == of
    }

    fn memory(&self) -> usize {
        self.data.capacity()
            + self.pieces.capacity() * size_of::<(u32, u32)>()
            + self.header.as_ref().map_or(0, Vec::capacity)
    }

    /// Octets of memory that `piece` would add to what is held.
    fn growth(&self, piece: &Piece<'_>) -> usize {
        capacity_for(piece.end).saturating_sub(self.data.capacity())
            + (self.pieces.len() + 4).next_power_of_two().saturating_sub(self.pieces.capacity())
                * size_of::<(u32, u32)>()
            + piece.unfragmentable_len
    }

    /// Takes a piece in. It is an error if the piece contradicts the others.
    fn add(&mut self, piece: &Piece<'_>) -> Result<(), DropReason> {
        // RFC 8200 section 4.5 takes the first fragment's word; a sender has one, and readers that take another's are led astray.
        if self.next_header.is_some_and(|next_header| next_header != piece.next_header) {
            return Err(DropReason::FragmentHeader);
        }
        let last_end = self.pieces.last().map_or(0, |(_, end)| *end as usize);
        let contradicts = match self.total {
            Some(total) if piece.more => piece.end >= total,
            Some(total) => piece.end != total,
            None => !piece.more && last_end >= piece.end,
        };
        if contradicts {
            return Err(DropReason::FragmentEnd);
        }
        let at = self.pieces.partition_point(|(start, _)| (*start as usize) < piece.start);
        let before_end = at.checked_sub(1).and_then(|i| self.pieces.get(i)).map_or(0, |p| p.1 as usize);
        let after = self.pieces.get(at).map(|(start, end)| (*start as usize, *end as usize));
        if after == Some((piece.start, piece.end)) {
            let same = range(&self.data, piece.start, piece.end) == piece.data;
            return if same { Ok(()) } else { Err(DropReason::FragmentOverlap) };
        }
        if before_end > piece.start || after.is_some_and(|(start, _)| start < piece.end) {
            return Err(DropReason::FragmentOverlap);
        }
        if self.pieces.len() == MAX_PIECES {
            return Err(DropReason::FragmentLimit);
        }
        if piece.start == 0 {
            self.header = Some(piece.whole_header()?);
        }
        if !piece.more {
            self.total = Some(piece.end);
        }
        self.store(piece);
        self.pieces.insert(at, (piece.start as u32, piece.end as u32));
        self.octets += piece.data.len();
        self.ecn |= 1 << (piece.headers.tos & 3);
        Ok(())
    }

    fn store(&mut self, piece: &Piece<'_>) {
        if piece.end > self.data.len() {
            let more = capacity_for(piece.end).saturating_sub(self.data.len());
            self.data.reserve_exact(more);
            self.data.resize(piece.end, 0);
        }
        if let Some(place) = self.data.get_mut(piece.start..piece.end) {
            place.copy_from_slice(piece.data);
        }
    }

    fn is_complete(&self) -> bool {
        self.total == Some(self.octets) && self.header.is_some()
    }

    /// Builds the whole packet.
    fn build(&self, pool: &mut Pool) -> Result<Buf, DropReason> {
        let header = self.header.as_deref().unwrap_or(&[]);
        whole_packet(self.version, header, &self.data, self.ecn, pool)
    }

    /// Forgets everything except that no more pieces are wanted, and returns the number of pieces that were lost.
    fn poison(&mut self) -> usize {
        let lost = self.pieces.len();
        *self = Set { poisoned: true, ..Set::new(self.key, self.version, self.since, None) };
        lost
    }
}

/// The source that shares are counted by. For IPv6 it is the /64, because any host has all of its addresses.
fn source(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(_) => crate::addr::to_bits(addr),
        IpAddr::V6(v6) => u128::from(v6) >> 64 << 64,
    }
}

/// The capacity of the data buffer for `end` octets. It grows in powers of two, so that its size is known in advance.
fn capacity_for(end: usize) -> usize {
    end.next_power_of_two()
}

fn whole_packet(
    version: u8,
    header: &[u8],
    data: &[u8],
    ecn: u8,
    pool: &mut Pool,
) -> Result<Buf, DropReason> {
    // Some routers saw the packet as capable of ECN and marked it, others did not: nothing right can be made of it.
    let marked = ecn & 1 << ECN_CE != 0;
    if marked && ecn & 1 != 0 {
        return Err(DropReason::FragmentEcn);
    }
    let covered = length_overhead(version, header.len()) + data.len();
    let len = u16::try_from(covered).map_err(|_| DropReason::FragmentTooLong)?;
    let total = header.len() + data.len();
    let mut buf = pool.take();
    if buf.tailroom() < total + TAILROOM {
        let headroom = buf.headroom();
        pool.put(buf);
        buf = Buf::with_capacity(headroom + total + TAILROOM, headroom);
    }
    let bytes = buf.push_back(total).ok_or(DropReason::TooLong)?;
    let (head, body) = bytes.split_at_mut_checked(header.len()).ok_or(DropReason::TooLong)?;
    head.copy_from_slice(header);
    body.copy_from_slice(data);
    let tos_mark = if marked { ECN_CE } else { 0 };
    if version == 4 {
        ipv4::put_whole(bytes, len, tos_mark);
        Ipv4::new_checked(bytes)?;
    } else {
        ipv6::put_whole(bytes, len, tos_mark);
        Ipv6::new_checked(bytes)?;
    }
    Ok(buf)
}

/// Counts of fragments that were held and will not be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostFragments {
    /// Fragments for which there was no room.
    pub limit: u64,
    /// Fragments whose packet did not become complete in time.
    pub timeout: u64,
    /// Fragments that others of their packet contradicted.
    pub refused: u64,
}

impl LostFragments {
    /// The sum of all three counts.
    pub fn total(&self) -> u64 {
        self.limit + self.timeout + self.refused
    }

    /// The reasons for which fragments were lost, each with its count.
    pub fn reasons(&self) -> [(DropReason, u64); 3] {
        [
            (DropReason::FragmentLimit, self.limit),
            (DropReason::FragmentTimeout, self.timeout),
            (DropReason::Fragment, self.refused),
        ]
    }
}

/// The table of incomplete packets. There is one for each direction.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    /// The number of shares: one source may use one of so many equal parts of the limits.
    shares: usize,
    /// Whether a packet ends whose fragments name different next headers.
    same_next_header: bool,
    /// The sets in the order of their first pieces.
    sets: Vec<Set>,
    lost: LostFragments,
}

impl Reassembler {
    /// Makes an empty table without shares.
    pub fn new(limits: Limits) -> Reassembler {
        Reassembler::sharing(limits, 1)
    }

    /// Makes an empty table in which a source (an address, or a /64 of IPv6) has a share: one part in `shares` of the
    /// packets and octets. A source that asks for more loses its own packets and not those of others. Zero counts as
    /// one. Where sources share, they are not trusted: a packet ends, too, whose fragments name different next headers
    /// (RFC 8200 section 4.5 takes the first one's).
    pub fn sharing(limits: Limits, shares: usize) -> Reassembler {
        let sets = Vec::with_capacity(limits.datagrams);
        let same_next_header = shares > 1;
        Reassembler { limits, shares: shares.max(1), same_next_header, sets, lost: LostFragments::default() }
    }

    /// Keeps the shares, but lets the first fragment's next header count for the packet (RFC 8200 section 4.5). It is
    /// for packets that are authenticated when they are whole.
    pub fn with_the_first_next_header(self) -> Reassembler {
        Reassembler { same_next_header: false, ..self }
    }

    /// Takes in one fragment, whose headers are `headers`. Fragments of different `context` never mix: inbound it is
    /// the association they came by, outbound the application, so that one cannot complete another's packet. The whole
    /// packet is written to a buffer of `pool` (or a bigger one if need be) with the pool's headroom.
    pub fn push(
        &mut self,
        now: Time,
        context: u32,
        bytes: &[u8],
        headers: &Headers,
        pool: &mut Pool,
    ) -> Reassembled {
        match self.take_in(now, context, bytes, headers, pool) {
            Ok(Some(buf)) => Reassembled::Complete(buf),
            Ok(None) => Reassembled::Incomplete,
            Err(reason) => Reassembled::Rejected(reason),
        }
    }

    fn take_in(
        &mut self,
        now: Time,
        context: u32,
        bytes: &[u8],
        headers: &Headers,
        pool: &mut Pool,
    ) -> Result<Option<Buf>, DropReason> {
        let fragment = headers.fragment.ok_or(DropReason::Fragment)?;
        let piece = Piece::check(bytes, headers, &fragment)?;
        if piece.start == 0 && !piece.more {
            // An atomic fragment has nothing to do with others of the same identification (RFC 6946 section 4).
            let header = piece.whole_header()?;
            return whole_packet(headers.version, &header, piece.data, 0, pool).map(Some);
        }
        self.expire(now);
        let protocol = if headers.version == 4 { headers.protocol } else { 0 };
        let key = Key { context, src: headers.src, dst: headers.dst, id: fragment.id, protocol };
        self.open(key, headers.version, now, fragment.next_header)?;
        if self.sets.iter().any(|set| set.key == key && set.poisoned) {
            return Err(DropReason::Fragment);
        }
        self.make_room(&key, &piece)?;
        let at = self.sets.iter().position(|set| set.key == key).ok_or(DropReason::FragmentLimit)?;
        let set = self.sets.get_mut(at).ok_or(DropReason::FragmentLimit)?;
        if let Err(reason) = set.add(&piece) {
            self.lost.refused += set.poison() as u64;
            return Err(reason);
        }
        if !set.is_complete() {
            return Ok(None);
        }
        let set = self.sets.remove(at);
        set.build(pool).map(Some).inspect_err(|_| self.lost.refused += set.pieces.len() as u64 - 1)
    }

    /// Makes sure that there is a set for `key`; the oldest goes if the table is full.
    fn open(&mut self, key: Key, version: u8, now: Time, next_header: u8) -> Result<(), DropReason> {
        if self.sets.iter().any(|set| set.key == key) {
            return Ok(());
        }
        let source = source(key.src);
        let share = self.limits.datagrams.div_ceil(self.shares);
        if self.shares > 1 && self.sets.iter().filter(|set| set.is_of(source)).count() >= share {
            let oldest = self.sets.iter().position(|set| set.is_of(source));
            self.give_up(oldest.ok_or(DropReason::FragmentLimit)?);
        }
        if self.sets.len() >= self.limits.datagrams {
            if self.sets.is_empty() {
                return Err(DropReason::FragmentLimit);
            }
            self.give_up(0);
        }
        let next_header = self.same_next_header.then_some(next_header);
        self.sets.push(Set::new(key, version, now, next_header));
        Ok(())
    }

    /// Makes room for `piece` of `key`. The oldest other sets go, and if that is not enough, its own.
    fn make_room(&mut self, key: &Key, piece: &Piece<'_>) -> Result<(), DropReason> {
        let growth = self.sets.iter().find(|set| set.key == *key).map_or(0, |set| set.growth(piece));
        let source = source(key.src);
        loop {
            let all = self.sets.iter().map(Set::memory).sum::<usize>();
            let own = self.sets.iter().filter(|set| set.is_of(source)).map(Set::memory).sum::<usize>();
            let greedy = own + growth > self.limits.memory / self.shares;
            if !greedy && all + growth <= self.limits.memory {
                return Ok(());
            }
            let other = |set: &Set| set.key != *key && set.memory() > 0 && (!greedy || set.is_of(source));
            let Some(oldest) = self.sets.iter().position(other) else {
                if let Some(own) = self.sets.iter().position(|set| set.key == *key) {
                    self.give_up(own);
                }
                return Err(DropReason::FragmentLimit);
            };
            self.give_up(oldest);
        }
    }

    fn give_up(&mut self, at: usize) {
        let set = self.sets.remove(at);
        self.lost.limit += set.pieces.len() as u64;
    }

    /// Gives up packets whose time is over.
    pub fn expire(&mut self, now: Time) {
        let timeout = self.limits.timeout;
        let lost = &mut self.lost.timeout;
        self.sets.retain(|set| {
            let keep = now.since(set.since) < timeout;
            if !keep {
                *lost += set.pieces.len() as u64;
            }
            keep
        });
    }

    /// The time when [`Reassembler::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        self.sets.iter().map(|set| set.since).min().map(|since| since + self.limits.timeout)
    }

    /// Number of incomplete packets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether no packet is incomplete.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Octets of memory that all sets hold.
    pub fn memory(&self) -> usize {
        self.sets.iter().map(Set::memory).sum()
    }

    /// Returns and resets the counts of fragments that were held and will not be delivered.
    pub fn take_lost(&mut self) -> LostFragments {
        std::mem::take(&mut self.lost)
    }
}

impl Default for Reassembler {
    fn default() -> Reassembler {
        Reassembler::new(Limits::default())
    }
}
