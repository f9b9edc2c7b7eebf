//! The packet: one owned buffer with room in front and behind, whose type parameter tells its stage.
//!
//! Inbound: Raw -> Clean -> Classed -> Scheduled -> Inner -> Admitted.
//! Outbound: Inner -> Selected -> Scheduled -> Outer.
//! Bundles: [`Packet::nested`] (Inner -> Scheduled) and [`Packet::bundled`] (Outer -> Scheduled), by name, counted.
//! No edge leads from [`stage::Inner`] back to [`stage::Raw`]: a decrypted packet cannot be treated as one from the
//! wire again (docs/design/0001). A step takes [`Evidence`]: a value that only those can make who did what the step
//! stands for. It costs nothing at run time.
//!
//! ```
//! use wire::{Packet, ip::Headers, stage::{Clean, Raw}};
//!
//! fn checked(packet: Packet<Raw>, headers: &Headers) -> Packet<Clean> {
//!     packet.advance(headers)
//! }
//! ```
//!
//! There is no step back, whatever the evidence:
//!
//! ```compile_fail,E0277
//! use wire::{Evidence, Packet, stage::{Inner, Raw}};
//!
//! fn back_to_the_door(packet: Packet<Inner>, evidence: &impl Evidence<Inner, Raw>) -> Packet<Raw> {
//!     packet.advance(evidence)
//! }
//! ```
//!
//! There is no step without evidence, and none by evidence for another step:
//!
//! ```compile_fail,E0061
//! use wire::{Packet, stage::{Clean, Raw}};
//!
//! fn unchecked(packet: Packet<Raw>) -> Packet<Clean> {
//!     packet.advance()
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use wire::{Packet, ip::Headers, stage::{Inner, Selected}};
//!
//! fn undecided(packet: Packet<Inner>, headers: &Headers) -> Packet<Selected> {
//!     packet.advance(headers)
//! }
//! ```

use crate::Meta;
use std::marker::PhantomData;

/// The stages of a packet's way, as types.
pub mod stage {
    macro_rules! stages {
        ($($(#[$doc:meta])* $name:ident;)*) => {
            $($(#[$doc])* #[derive(Clone, Copy, Debug)] pub enum $name {})*
        };
    }
    stages! {
        /// Inbound: the bytes are as they came from the wire.
        Raw;
        /// Inbound: the outer headers have been checked.
        Clean;
        /// Inbound: the security association has been found, and the sequence number is plausible.
        Classed;
        /// The packet's turn for cryptography has come.
        Scheduled;
        /// The packet is cleartext that is not admitted to the host (inbound), or not yet decided (outbound).
        Inner;
        /// Inbound: the policy accepts the packet.
        Admitted;
        /// Outbound: the policy and the association have been chosen.
        Selected;
        /// Outbound: the packet is ready for the wire.
        Outer;
    }
}

/// The permitted steps from one stage to the next. The trait is sealed, so that no other crate can add one.
pub trait Next<To>: sealed::Edge<To> {}

mod sealed {
    pub trait Edge<To> {}
}

/// Evidence that what a step from one stage to the next stands for has happened. The headers that were read are
/// evidence that a packet is [`stage::Clean`], its association that it is [`stage::Classed`].
///
/// A type implements this trait where it is defined, and can be made only by those who did it. The rooms that do are
/// listed in `xtask/src/purity.rs`. A test that needs a packet at some stage has evidence of its own.
pub trait Evidence<From, To> {}

/// A packet whose turn has come may begin a burst.
impl Evidence<stage::Selected, stage::Scheduled> for Packet<stage::Scheduled> {}

macro_rules! edges {
    ($($from:ident => $to:ident;)*) => {
        $(impl sealed::Edge<stage::$to> for stage::$from {}
          impl Next<stage::$to> for stage::$from {})*
    };
}

edges! {
    Raw => Clean;
    Clean => Classed;
    Classed => Scheduled;
    Scheduled => Inner;
    Inner => Admitted;
    Inner => Selected;
    Selected => Scheduled;
    Scheduled => Outer;
}

/// An owned run of bytes with headroom and tailroom.
pub struct Buf {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buf {
    /// Makes an empty buffer of `capacity` octets whose data starts after `headroom` of them.
    pub fn with_capacity(capacity: usize, headroom: usize) -> Buf {
        let start = headroom.min(capacity);
        Buf { bytes: vec![0; capacity].into_boxed_slice(), start, end: start }
    }

    /// Makes a buffer that holds `data`, with `headroom` octets before it and `tailroom` behind it.
    pub fn from_slice(data: &[u8], headroom: usize, tailroom: usize) -> Buf {
        let mut buf = Buf::with_capacity(headroom + data.len() + tailroom, headroom);
        buf.bytes[headroom..headroom + data.len()].copy_from_slice(data);
        buf.end = headroom + data.len();
        buf
    }

    /// Number of octets of the whole buffer.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The octets of the data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The octets of the data, to edit in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Number of octets of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Number of free octets in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Number of free octets behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Grows the data by `n` octets at the front and returns them; `None` without room.
    #[inline]
    pub fn push_front(&mut self, n: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(n)?;
        Some(&mut self.bytes[self.start..self.start + n])
    }

    /// Grows the data by `n` octets at the back and returns them; `None` without room.
    #[inline]
    pub fn push_back(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.tailroom() < n {
            return None;
        }
        let at = self.end;
        self.end += n;
        Some(&mut self.bytes[at..at + n])
    }

    /// Takes `n` octets off the front of the data; `false` if there are fewer.
    #[inline]
    #[must_use]
    pub fn trim_front(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        self.start += n;
        true
    }

    /// Cuts the data to its first `n` octets; no effect if it is shorter.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }

    /// Empties the buffer and starts again after `headroom` octets.
    #[inline]
    pub fn reset(&mut self, headroom: usize) {
        self.start = headroom.min(self.bytes.len());
        self.end = self.start;
    }

    /// Makes at least `front` octets free before the data and `back` behind it, and moves the data inside the buffer if
    /// needed. `false` if the buffer is too small for both. A bundle asks for more room than a device leaves.
    #[must_use]
    pub fn make_room(&mut self, front: usize, back: usize) -> bool {
        if self.headroom() >= front && self.tailroom() >= back {
            return true;
        }
        if self.bytes.len() - self.len() < front + back {
            return false;
        }
        // What is free is shared so that the next member finds room on both sides.
        let start = front + (self.bytes.len() - self.len() - front - back) / 2;
        let len = self.len();
        self.bytes.copy_within(self.start..self.end, start);
        (self.start, self.end) = (start, start + len);
        true
    }

    /// The whole free area behind the data, for a device to read into; [`Buf::set_len`] must follow.
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Sets the length of the data to `n` octets (after a read into [`Buf::spare_mut`]), clamped to the capacity.
    pub fn set_len(&mut self, n: usize) {
        self.end = (self.start + n).min(self.bytes.len());
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} octets)", self.len())
    }
}

/// A packet at stage `S`.
#[derive(Debug)]
pub struct Packet<S> {
    buf: Buf,
    /// The metadata of the packet.
    pub meta: Meta,
    stage: PhantomData<S>,
}

impl Packet<stage::Raw> {
    /// Wraps a packet as it came from the wire; it starts with the outer IP header.
    #[inline]
    pub fn raw(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl Packet<stage::Inner> {
    /// Wraps a packet as the host handed it over; it starts with the inner IP header.
    #[inline]
    pub fn from_host(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl Packet<stage::Inner> {
    /// Returns a packet that came out of an association to cryptography, because it is itself a packet of an
    /// association with this host (a bundle). This is the only way back. It leads no further than cryptography, where a
    /// packet of the wire needs the same evidence, and the caller counts its rounds. There is none to [`stage::Raw`],
    /// where a packet has proved nothing yet.
    #[inline]
    pub fn nested(self, _: &impl Evidence<stage::Classed, stage::Scheduled>) -> Packet<stage::Scheduled> {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }
}

impl Packet<stage::Outer> {
    /// Sends an outbound packet of one association through the next member of its bundle (RFC 4301 section 4.1; paper
    /// 001: the SPI chain). The caller counts the rounds.
    #[inline]
    pub fn bundled(self, _: &impl Evidence<stage::Selected, stage::Scheduled>) -> Packet<stage::Scheduled> {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }
}

impl Packet<stage::Admitted> {
    /// Wraps a packet that the engine itself made for the host (an ICMP error).
    pub fn made_for_host(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl<S> Packet<S> {
    /// Wraps a packet of a burst, which is at the burst's stage.
    pub(crate) fn at_stage(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }

    /// A piece of this packet (a segment, a fragment) in a buffer of its own. It has come as far as the whole.
    #[inline]
    pub fn piece(&self, buf: Buf, meta: Meta) -> Packet<S> {
        Packet { buf, meta, stage: PhantomData }
    }

    /// Moves the packet to the next stage, which the evidence is for.
    #[inline]
    pub fn advance<T>(self, _: &impl Evidence<S, T>) -> Packet<T>
    where
        S: Next<T>,
    {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }

    /// The octets of the packet.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_slice()
    }

    /// The octets of the packet, to edit in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_mut_slice()
    }

    /// The buffer of the packet.
    #[inline]
    pub fn buf(&self) -> &Buf {
        &self.buf
    }

    /// The buffer of the packet, to grow or trim.
    #[inline]
    pub fn buf_mut(&mut self) -> &mut Buf {
        &mut self.buf
    }

    /// Takes the buffer out, to give it back to its [`Pool`].
    #[inline]
    pub fn into_buf(self) -> Buf {
        self.buf
    }
}

/// A store of buffers to use again, owned by one thread. It never holds more than it was told to.
///
/// Buffers of the usual size take any IP packet. Packets that wait in queues lie in *cells*, buffers for ordinary
/// packets: a packet of 1500 octets that waits in one of 64 KiB would cost as much memory as forty do.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Buf>,
    capacity: usize,
    headroom: usize,
    keep: usize,
    allocated: u64,
    /// Cells that are free, and the octets of each; zero: there are none.
    cells: Vec<Buf>,
    cell: usize,
}

impl Pool {
    /// Makes a pool of buffers of `capacity` octets with `headroom` in front, which keeps at most `keep` free ones.
    pub fn new(capacity: usize, headroom: usize, keep: usize) -> Pool {
        let (free, cells) = (Vec::with_capacity(keep), Vec::new());
        Pool { free, capacity, headroom, keep, allocated: 0, cells, cell: 0 }
    }

    /// Takes an empty buffer, a used one if there is one.
    #[inline]
    pub fn take(&mut self) -> Buf {
        match self.free.pop() {
            Some(mut buf) => {
                buf.reset(self.headroom);
                buf
            }
            None => {
                self.allocated += 1;
                Buf::with_capacity(self.capacity, self.headroom)
            }
        }
    }

    /// Gives a buffer back. One of another size, or one too many, is freed.
    #[inline]
    pub fn put(&mut self, buf: Buf) {
        if buf.bytes.len() == self.capacity {
            if self.free.len() < self.keep {
                self.free.push(buf);
            }
        } else if buf.bytes.len() == self.cell && self.cells.len() < self.cells.capacity() {
            self.cells.push(buf);
        }
    }

    /// Makes `count` cells for packets of at most `octets` octets, with the pool's headroom in front and `tailroom`
    /// behind them. Cells that there were before are freed, now or when they come back.
    pub fn set_cells(&mut self, count: usize, octets: usize, tailroom: usize) {
        // Another size than before tells cells of the two apart.
        let mut cell = self.headroom + octets + tailroom;
        if cell == self.cell || cell == self.capacity {
            cell += 64;
        }
        self.cell = if count == 0 { 0 } else { cell };
        self.cells = Vec::with_capacity(count);
        self.cells.extend((0..count).map(|_| Buf::with_capacity(cell, self.headroom)));
    }

    /// Makes further cells of the same size, so that there are `count` in all. If there were none, there are none.
    pub fn grow_cells(&mut self, count: usize) {
        let more = if self.cell == 0 { 0 } else { count.saturating_sub(self.cells.capacity()) };
        self.cells.reserve_exact(self.cells.capacity() + more - self.cells.len());
        self.cells.extend((0..more).map(|_| Buf::with_capacity(self.cell, self.headroom)));
    }

    /// Takes a cell that holds a copy of these octets; `None` if no cell is free or they are too many.
    #[inline]
    pub fn cell(&mut self, octets: &[u8], tailroom: usize) -> Option<Buf> {
        if self.headroom + octets.len() + tailroom > self.cell {
            return None;
        }
        let mut buf = self.cells.pop()?;
        buf.reset(self.headroom);
        buf.push_back(octets.len())?.copy_from_slice(octets);
        Some(buf)
    }

    /// Number of cells that are free.
    pub fn free_cells(&self) -> usize {
        self.cells.len()
    }

    /// Number of buffers allocated since the start. It grows only while the working set does.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}
