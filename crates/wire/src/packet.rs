//! The packet: one owned buffer with room in front and behind, whose type parameter tells its stage.
//!
//! Inbound: Raw -> Clean -> Classed -> Scheduled -> Inner -> Admitted.
//! Outbound: Inner -> Selected -> Scheduled -> Outer.
//! Bundles: [`Packet::nested`] (Inner -> Scheduled) and [`Packet::bundled`] (Outer -> Scheduled), by name, counted.
//! No edge leads from [`stage::Inner`] back to [`stage::Raw`]: a decrypted packet cannot walk in at the front door again
//! (docs/design/0001). The stage says how far a packet has come. It does not prove that the checks were made: whoever calls
//! [`Packet::advance`] vouches for that.
//!
//! ```compile_fail
//! fn back_to_the_door(packet: wire::Packet<wire::stage::Inner>) -> wire::Packet<wire::stage::Raw> {
//!     packet.advance()
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
        /// Inbound: bytes as they came from the wire.
        Raw;
        /// Inbound: outer headers checked.
        Clean;
        /// Inbound: its security association found, its sequence number plausible.
        Classed;
        /// Its turn for cryptography has come.
        Scheduled;
        /// Cleartext that is not admitted to the host (inbound) or not yet decided (outbound).
        Inner;
        /// Inbound: policy accepts it.
        Admitted;
        /// Outbound: policy and association chosen.
        Selected;
        /// Outbound: ready for the wire.
        Outer;
    }
}

/// The edges of the one-way street. Sealed: no other room can add one.
pub trait Next<To>: sealed::Edge<To> {}

mod sealed {
    pub trait Edge<To> {}
}

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
    /// An empty buffer of `capacity` octets whose data starts after `headroom` of them.
    pub fn with_capacity(capacity: usize, headroom: usize) -> Buf {
        let start = headroom.min(capacity);
        Buf { bytes: vec![0; capacity].into_boxed_slice(), start, end: start }
    }

    /// A buffer that holds `data`, with `headroom` octets before it and `tailroom` behind it.
    pub fn from_slice(data: &[u8], headroom: usize, tailroom: usize) -> Buf {
        let mut buf = Buf::with_capacity(headroom + data.len() + tailroom, headroom);
        buf.bytes[headroom..headroom + data.len()].copy_from_slice(data);
        buf.end = headroom + data.len();
        buf
    }

    /// The data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The data, to edit in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Octets of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Octets free in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Octets free behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Grow the data by `n` octets at the front and return them; `None` without room.
    #[inline]
    pub fn push_front(&mut self, n: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(n)?;
        Some(&mut self.bytes[self.start..self.start + n])
    }

    /// Grow the data by `n` octets at the back and return them; `None` without room.
    #[inline]
    pub fn push_back(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.tailroom() < n {
            return None;
        }
        let at = self.end;
        self.end += n;
        Some(&mut self.bytes[at..at + n])
    }

    /// Take `n` octets off the front of the data; `false` if there are fewer.
    #[inline]
    #[must_use]
    pub fn trim_front(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        self.start += n;
        true
    }

    /// Cut the data to its first `n` octets; no effect if it is shorter.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }

    /// Forget the data and start again after `headroom` octets.
    #[inline]
    pub fn reset(&mut self, headroom: usize) {
        self.start = headroom.min(self.bytes.len());
        self.end = self.start;
    }

    /// Have at least `front` octets free before the data and `back` behind it, moving the data inside the buffer if only their
    /// shares are wrong; `false` if the buffer is too small for both. A bundle asks for more room than a device leaves.
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

    /// The whole free area behind the data, for a device to read into; follow with [`Buf::set_len`].
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Say that the data is now `n` octets long (after a read into [`Buf::spare_mut`]); clamped to the capacity.
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
    /// What is known beside the bytes.
    pub meta: Meta,
    stage: PhantomData<S>,
}

impl Packet<stage::Raw> {
    /// A packet as it came from the wire: starts with the outer IP header.
    #[inline]
    pub fn raw(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl Packet<stage::Inner> {
    /// A packet as the host handed it over: starts with the inner IP header.
    #[inline]
    pub fn from_host(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl Packet<stage::Inner> {
    /// Inbound: what came out of an association is itself a packet of an association with this host (a bundle), and is
    /// opened in turn. This is the only way back, it leads no further than cryptography, and whoever takes it counts its
    /// rounds: there is none to [`stage::Raw`], where a packet has proved nothing yet.
    #[inline]
    pub fn nested(self) -> Packet<stage::Scheduled> {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }
}

impl Packet<stage::Outer> {
    /// Outbound: the packet of one association goes through the next member of its bundle (RFC 4301 section 4.1;
    /// paper 001: the SPI chain). Whoever takes this way counts its rounds.
    #[inline]
    pub fn bundled(self) -> Packet<stage::Scheduled> {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }
}

impl Packet<stage::Admitted> {
    /// A packet that the engine itself made for the host (an ICMP error).
    pub fn made_for_host(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }
}

impl<S> Packet<S> {
    /// A packet of a burst, which is at the burst's stage.
    pub(crate) fn at_stage(buf: Buf, meta: Meta) -> Self {
        Packet { buf, meta, stage: PhantomData }
    }

    /// The same packet, one stage on.
    #[inline]
    pub fn advance<T>(self) -> Packet<T>
    where
        S: Next<T>,
    {
        Packet { buf: self.buf, meta: self.meta, stage: PhantomData }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_slice()
    }

    /// The bytes, to edit in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_mut_slice()
    }

    /// The buffer.
    #[inline]
    pub fn buf(&self) -> &Buf {
        &self.buf
    }

    /// The buffer, to grow or trim.
    #[inline]
    pub fn buf_mut(&mut self) -> &mut Buf {
        &mut self.buf
    }

    /// The buffer, to give back to its [`Pool`].
    #[inline]
    pub fn into_buf(self) -> Buf {
        self.buf
    }
}

/// Buffers to use again, owned by one thread. Never holds more than it was told to.
#[derive(Debug)]
pub struct Pool {
    free: Vec<Buf>,
    capacity: usize,
    headroom: usize,
    keep: usize,
    allocated: u64,
}

impl Pool {
    /// A pool of buffers of `capacity` octets with `headroom` in front, which keeps at most `keep` free ones.
    pub fn new(capacity: usize, headroom: usize, keep: usize) -> Pool {
        Pool { free: Vec::with_capacity(keep), capacity, headroom, keep, allocated: 0 }
    }

    /// An empty buffer: a used one if there is one.
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

    /// Give a buffer back. One of another size, or one too many, is freed.
    #[inline]
    pub fn put(&mut self, buf: Buf) {
        if buf.bytes.len() == self.capacity && self.free.len() < self.keep {
            self.free.push(buf);
        }
    }

    /// Buffers allocated since the start: grows only while the working set does.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}
