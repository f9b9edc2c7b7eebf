//! A burst: datagrams of one flow, back to back in one buffer. Each is as long as the first, except the last, which may
//! be shorter. It is what UDP_SEGMENT sends and what UDP_GRO delivers with one system call.
//!
//! Outbound, ESP is built in place in the slots of the burst (RFC 3948: the UDP payload *is* the ESP packet), and one
//! set of outer headers is kept beside the buffer. Inbound, the datagrams are taken out one by one and opened in place.
//! The type parameter is the stage, as it is for a [`Packet`].
//!
//! Adapters that know whole packets only (captures, raw sockets) get them from [`Burst::packets`].

use crate::ipv4::{self, Ipv4Repr};
use crate::ipv6::{self, Ipv6Repr};
use crate::packet::{Evidence, Next};
use crate::udp::{self, Udp, UdpRepr};
use crate::{AggregateId, AppId, Buf, Meta, Packet, Pool, Time, WireError, protocol, stage};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Range;

/// The most datagrams of one burst, which every kernel with UDP_SEGMENT takes.
pub const MAX_DATAGRAMS: usize = 64;

/// The most octets of UDP payload in a burst over IPv4.
pub const MAX_LEN_V4: usize = 65_535 - ipv4::HEADER_LEN - udp::HEADER_LEN;

/// The most octets of UDP payload in a burst over IPv6. Linux counts the header in here too.
pub const MAX_LEN_V6: usize = 65_535 - ipv6::HEADER_LEN - udp::HEADER_LEN;

/// The headers around every datagram of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeader {
    /// The source address of every datagram.
    pub src: IpAddr,
    /// The destination address, of the same family.
    pub dst: IpAddr,
    /// The source port of every datagram.
    pub src_port: u16,
    /// The destination port of every datagram.
    pub dst_port: u16,
    /// The type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// The time to live or hop limit; outbound, zero leaves it to the host.
    pub ttl: u8,
    /// Whether the datagrams may be cut into IP fragments. Such a burst cannot be sent with one call.
    pub may_fragment: bool,
}

/// What a socket tells of the headers of a burst was read by the host's own stack.
impl Evidence<stage::Raw, stage::Clean> for OuterHeader {}

/// The metadata that all datagrams of a burst share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstMeta {
    /// The time when the burst was received.
    pub received: Time,
    /// The ESP sequence number of the first datagram; each of the others has the next one. It is set outbound only.
    pub sequence: u64,
    /// The SPI of the association. It is set outbound only.
    pub spi: u32,
    /// The application that sends. It is set outbound only.
    pub app: AppId,
    /// The class of the datagrams, where a graph gave them one. It is set outbound only.
    pub aggregate: AggregateId,
    /// Octets of the inner packets, for counters. It is set outbound only.
    pub inner_len: u32,
}

/// A burst of datagrams of one flow, in one buffer.
#[derive(Debug)]
pub struct Burst<S> {
    buf: Buf,
    /// The headers around each datagram.
    pub header: OuterHeader,
    /// The metadata of the datagrams.
    pub meta: BurstMeta,
    /// Octets from one datagram's start to the next one's.
    stride: usize,
    /// Free octets in front of each datagram, as part of the stride.
    lead: usize,
    count: usize,
    closed: bool,
    stage: PhantomData<S>,
}

impl Burst<stage::Scheduled> {
    /// Begins an empty burst in the free area of `buf`, whose datagrams are to be `stride` octets long. The evidence is
    /// that of its first packet. `None` if the addresses are of two families, `stride` is zero, or not one such datagram
    /// fits.
    pub fn begin(
        _: &impl Evidence<stage::Selected, stage::Scheduled>,
        buf: Buf,
        header: OuterHeader,
        stride: usize,
    ) -> Option<Self> {
        let fits = stride > 0 && stride <= max_len(&header) && stride <= buf.len() + buf.tailroom();
        if !fits || header.src.is_ipv4() != header.dst.is_ipv4() {
            return None;
        }
        let mut buf = buf;
        buf.truncate(0);
        Some(Burst {
            buf,
            header,
            meta: BurstMeta::default(),
            stride,
            lead: 0,
            count: 0,
            closed: false,
            stage: PhantomData,
        })
    }

    /// Room for the next datagram of `len` octets, at most the stride; its content is not defined. Nothing changes
    /// until [`Burst::commit`]. `None` if the burst has ended or has too little room left, or `len` is zero or too
    /// long.
    #[inline]
    pub fn next_slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.takes(len) {
            return None;
        }
        self.buf.spare_mut().get_mut(..len)
    }

    /// Whether the next datagram may have `len` octets.
    #[inline]
    pub fn takes(&self, len: usize) -> bool {
        (1..=self.stride).contains(&len)
            && self.buf.len() + len <= max_len(&self.header)
            && self.buf.tailroom() >= len
            && !self.closed
            && self.count < MAX_DATAGRAMS
    }

    /// Appends the filled slot of `len` octets as the next datagram. One shorter than the stride is the last. `false`
    /// if [`Burst::next_slot`] would not have given so many octets.
    #[inline]
    #[must_use]
    pub fn commit(&mut self, len: usize) -> bool {
        if !self.takes(len) || self.buf.push_back(len).is_none() {
            return false;
        }
        self.count += 1;
        self.closed = len < self.stride;
        true
    }

    /// The datagrams built so far, to seal in place as a batch.
    #[inline]
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let stride = self.stride;
        self.buf.as_mut_slice().chunks_mut(stride)
    }

    /// Whether no further datagram of the full length can be added; a shorter one may still fit.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.closed
            || self.count == MAX_DATAGRAMS
            || self.buf.len() + self.stride > max_len(&self.header)
            || self.buf.tailroom() < self.stride
    }
}

impl Burst<stage::Scheduled> {
    /// The octets of all datagrams, back to back, to seal or open in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_mut_slice()
    }
}

impl Burst<stage::Admitted> {
    /// Some octets of the burst, to note in a header what a queue has decided. `None` if they are not all there.
    pub fn octets_mut(&mut self, octets: Range<usize>) -> Option<&mut [u8]> {
        self.buf.as_mut_slice().get_mut(octets)
    }
}

impl Burst<stage::Raw> {
    /// Wraps what a socket received: datagrams of `stride` octets in `buf`, the last perhaps shorter. A stride of zero,
    /// or one longer than the data, means one datagram. `None` if the addresses are of two families.
    pub fn raw(buf: Buf, header: OuterHeader, stride: usize, received: Time) -> Option<Self> {
        if header.src.is_ipv4() != header.dst.is_ipv4() {
            return None;
        }
        let len = buf.len();
        let stride = if stride == 0 || stride > len { len.max(1) } else { stride };
        let count = len.div_ceil(stride).max(1);
        let meta = BurstMeta { received, ..BurstMeta::default() };
        Some(Burst { buf, header, meta, stride, lead: 0, count, closed: true, stage: PhantomData })
    }

    /// Copies the datagrams into a buffer of `pool`, with `lead` free octets in front of each. That is room for a
    /// header that is longer than what its datagram gives up. The stride grows by as much.
    ///
    /// # Errors
    /// The burst as it was, if the datagrams do not all fit into a buffer of the pool.
    #[expect(clippy::result_large_err, reason = "the burst itself comes back, and is moved either way")]
    pub fn spread(self, lead: usize, pool: &mut Pool) -> Result<Self, Self> {
        if lead <= self.lead {
            return Ok(self);
        }
        let mut buf = pool.take();
        let needed = self.buf.len() + self.count * (lead - self.lead);
        let fits = buf.make_room(0, needed)
            && self.datagrams().all(|datagram| {
                let datagram = datagram.get(self.lead..).unwrap_or_default();
                let room = buf.push_back(lead + datagram.len()).and_then(|room| room.get_mut(lead..));
                room.map(|room| room.copy_from_slice(datagram)).is_some()
            });
        if !fits {
            pool.put(buf);
            return Err(self);
        }
        let Burst { buf: before, header, meta, stride, lead: old, count, closed, stage } = self;
        pool.put(before);
        Ok(Burst { buf, header, meta, stride: stride + lead - old, lead, count, closed, stage })
    }

    /// A burst of its own with some of these datagrams, in a buffer that `copy` fills with their octets. `None` if there
    /// is no such datagram, or no buffer.
    pub fn part(
        &self,
        datagrams: Range<usize>,
        copy: impl FnOnce(&[u8]) -> Option<Buf>,
    ) -> Option<Burst<stage::Raw>> {
        let end = datagrams.end.checked_mul(self.stride)?.min(self.buf.len());
        let octets = self.buf.as_slice().get(datagrams.start.checked_mul(self.stride)?..end)?;
        if octets.is_empty() {
            return None;
        }
        let buf = copy(octets)?;
        let count = octets.len().div_ceil(self.stride);
        let Burst { header, meta, stride, lead, closed, .. } = *self;
        Some(Burst { buf, header, meta, stride, lead, count, closed, stage: PhantomData })
    }

    /// Takes the first datagrams off, which were copied or are not wanted. An empty burst is left if there are no more.
    pub fn skip(&mut self, datagrams: usize) {
        let octets = datagrams.saturating_mul(self.stride).min(self.buf.len());
        // There are as many.
        let _ = self.buf.trim_front(octets);
        self.count = self.buf.len().div_ceil(self.stride);
    }

    /// The datagrams, to open in place. An empty one (alone) is left out: it carries nothing that could be opened.
    #[inline]
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let stride = self.stride;
        self.buf.as_mut_slice().chunks_mut(stride)
    }
}

impl<S> Burst<S> {
    /// Moves the burst to the next stage, which the evidence is for.
    #[inline]
    pub fn advance<T>(self, _: &impl Evidence<S, T>) -> Burst<T>
    where
        S: Next<T>,
    {
        let Burst { buf, header, meta, stride, lead, count, closed, .. } = self;
        Burst { buf, header, meta, stride, lead, count, closed, stage: PhantomData }
    }

    /// Moves the burst to a smaller buffer, which `copy` fills with its octets; the one before comes back with it. If
    /// there is no such buffer, the burst keeps its own.
    pub fn moved(mut self, copy: impl FnOnce(&[u8]) -> Option<Buf>) -> (Burst<S>, Option<Buf>) {
        let before = copy(self.buf.as_slice()).map(|buf| std::mem::replace(&mut self.buf, buf));
        (self, before)
    }

    /// Octets of each datagram, except the last, which may be shorter.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride.min(self.buf.len())
    }

    /// Free octets in front of each datagram, as part of the stride: zero before [`Burst::spread`].
    #[inline]
    pub fn lead(&self) -> usize {
        self.lead
    }

    /// Number of datagrams in the burst.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the burst holds no datagram.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The octets of all datagrams, back to back.
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_slice()
    }

    /// The datagrams in order, each with its lead. An empty datagram (inbound, alone) is left out.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.buf.as_slice().chunks(self.stride)
    }

    /// Octets of the buffer that the burst is in.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Moves the burst to a buffer that `copy` fills with its octets. The answer is the buffer that it was in; `None` if
    /// there is no such buffer.
    pub fn move_to(&mut self, copy: impl FnOnce(&[u8]) -> Option<Buf>) -> Option<Buf> {
        copy(self.buf.as_slice()).map(|buf| std::mem::replace(&mut self.buf, buf))
    }

    /// Takes the buffer out, to give it back to its [`Pool`].
    pub fn into_buf(self) -> Buf {
        self.buf
    }

    /// Copies some octets into a packet of its own, at the burst's stage, in a buffer of `pool`. `None` if they are not
    /// all there, or the pool's buffers are too small.
    pub fn extract(&self, octets: Range<usize>, meta: Meta, pool: &mut Pool) -> Option<Packet<S>> {
        let octets = self.buf.as_slice().get(octets)?;
        let mut buf = pool.take();
        match buf.push_back(octets.len()) {
            Some(room) => {
                room.copy_from_slice(octets);
                Some(Packet::at_stage(buf, meta))
            }
            None => {
                pool.put(buf);
                None
            }
        }
    }

    /// Copies each datagram into a whole packet with IP and UDP header, in a buffer of `pool`, for adapters that know
    /// only whole packets. The UDP checksums are right.
    pub fn packets<'a>(
        &'a self,
        pool: &'a mut Pool,
    ) -> impl Iterator<Item = Result<Packet<S>, WireError>> + 'a {
        self.datagrams().enumerate().map(|(i, payload)| {
            let mut buf = pool.take();
            buf.push_back(payload.len()).ok_or(WireError::NoRoom)?.copy_from_slice(payload);
            self.header.push(&mut buf)?;
            let meta = Meta {
                received: self.meta.received,
                sequence: self.meta.sequence.wrapping_add(i as u64),
                spi: self.meta.spi,
                app: self.meta.app,
                tos: self.header.tos,
                may_fragment: self.header.may_fragment,
                ..Meta::default()
            };
            Ok(Packet::at_stage(buf, meta))
        })
    }
}

/// The most octets of UDP payload in a burst with these headers.
#[inline]
fn max_len(header: &OuterHeader) -> usize {
    if header.dst.is_ipv4() { MAX_LEN_V4 } else { MAX_LEN_V6 }
}

impl OuterHeader {
    /// Octets of the IP and the UDP header together.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(&self) -> usize {
        udp::HEADER_LEN + if self.dst.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    /// Writes the UDP and IP headers in front of the payload that `buf` holds, which needs [`OuterHeader::len`] octets
    /// of headroom.
    pub fn push(&self, buf: &mut Buf) -> Result<(), WireError> {
        let payload_len = buf.len();
        let datagram_len = payload_len + udp::HEADER_LEN;
        buf.push_front(self.len()).ok_or(WireError::NoRoom)?;
        let (ip, datagram) =
            buf.as_mut_slice().split_at_mut_checked(self.len() - udp::HEADER_LEN).ok_or(WireError::NoRoom)?;
        udp::emit(datagram, &UdpRepr { src_port: self.src_port, dst_port: self.dst_port, payload_len })?;
        Udp::new_checked(datagram)?.fill_checksum(self.src, self.dst);
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let repr = Ipv4Repr {
                    src,
                    dst,
                    protocol: protocol::UDP,
                    ttl: self.ttl,
                    tos: self.tos,
                    id: 0,
                    df: !self.may_fragment,
                    payload_len: datagram_len,
                };
                ipv4::emit(ip, &repr)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = Ipv6Repr {
                    src,
                    dst,
                    next_header: protocol::UDP,
                    hop_limit: self.ttl,
                    traffic_class: self.tos,
                    flow_label: 0,
                    payload_len: datagram_len,
                };
                ipv6::emit(ip, &repr)
            }
            _ => Err(WireError::Version),
        }
    }
}
