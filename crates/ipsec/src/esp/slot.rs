//! ESP without outer headers, in the slots of a burst (RFC 3948: the payload of the UDP datagram *is* the ESP packet).
//!
//! The same packets as those of [`super::encap`] and [`super::decap`], for the associations that most traffic has: ESP
//! in UDP, tunnel or transport mode, nothing that changes header fields or lengths. What their datagrams have in common
//! (outer headers, lengths, next header) is found once; sealing and opening happen in batches, in place.
//!
//! Outbound, enters: a slot with the inner packet, or its upper layer in transport mode, behind [`Frame::front`].
//! Inbound, enters: datagrams of one association, back to back; leaves: where in each of them the inner packet lies.

use super::{HEADER, decap, pad};
use crate::proof::{InnerProof, SealProof};
use crate::steps::Steps;
use crate::{headers, lengths, nat, transport, tunnel};
use crypto::{OpenOp, SealOp, UnitFailed};
use sadb::sa::{Counters, Encapsulation, HeaderPolicy, Key, SaProtocol, Shape, Tfc};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use std::array::from_fn;
use std::net::IpAddr;
use std::ops::Range;
use wire::esp::Esp;
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::ipv6::{self, Ipv6, Ipv6Repr};
use wire::plain::Plain;
use wire::{DropReason, OuterHeader, Time, protocol, udp};

/// Packets that are given to a transform at once: few enough to be in the first-level cache from one pass to the next.
pub const BATCH: usize = 16;
/// What is put in front of datagrams is a multiple of this, in octets.
const ALIGNED: usize = 8;

/// Whether packets of this association can be built and opened in slots.
#[inline]
pub fn serves(config: &SaConfig) -> bool {
    let options = &config.options;
    options.protocol == SaProtocol::Esp
        && options.encapsulation == Encapsulation::Udp
        && options.next.is_none()
        && options.tfc == Tfc::None
        && matches!(config.mode, Mode::Tunnel | Mode::Transport)
        && options.headers == HeaderPolicy::default()
}

/// Whether received datagrams of this association can be opened in slots, and how many octets each needs in front of it
/// for that. In transport mode a new IP header has to find room where ESP header, IV, trailer and ICV were: that of
/// IPv6 is longer than these.
#[inline]
pub fn opens_with(config: &SaConfig) -> Option<usize> {
    let shape = Shape::of(config.suite);
    let given_up = HEADER + pad::TRAILER + usize::from(shape.iv) + usize::from(shape.icv);
    let header = match config.mode {
        Mode::Tunnel => 0,
        _ if config.endpoints.remote.is_ipv4() => ipv4::HEADER_LEN,
        _ => ipv6::HEADER_LEN,
    };
    serves(config).then(|| header.saturating_sub(given_up).next_multiple_of(ALIGNED))
}

/// What the datagrams of one inner packet, or of all its segments, have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    spi: u32,
    shape: Shape,
    next_header: u8,
    tos: u8,
    ttl: u8,
    /// The outer packets must not be fragmented, unless they do not fit otherwise and may be.
    df: bool,
    /// Octets of the inner IP header that stay out of ESP.
    left_out: u8,
    /// Octets that the path carries of payload and trailer.
    most: u16,
    /// Type of service, time to live and don't-fragment flag of the inner packet.
    inner: (u8, u8, bool),
}

impl Frame {
    /// The frame for `packet`, which is whole and has these headers. It may be longer than what is to be sealed at
    /// once: all segments have the same frame.
    ///
    /// # Errors
    /// If the mode refuses the packet, for the same reasons as [`super::encap`].
    #[inline]
    pub fn new(sa: &OutboundSa, packet: &[u8], headers: &Headers) -> Result<Frame, DropReason> {
        let config = sa.config();
        Ok(match config.mode {
            Mode::Tunnel => {
                if headers.total_len != packet.len() {
                    return Err(DropReason::BadHeader);
                }
                let next_header = if headers.version == 4 { protocol::IPV4 } else { protocol::IPV6 };
                Frame::tunnel(sa, next_header, headers.tos, headers.ttl, headers.dont_fragment)
            }
            Mode::Transport | Mode::Beet => {
                let inner = transport::read(packet, &config.endpoints, true)?;
                Frame {
                    spi: sa.spi().0,
                    shape: sa.shape(),
                    next_header: inner.next_header,
                    tos: inner.tos,
                    ttl: inner.ttl,
                    df: inner.df,
                    left_out: inner.kept as u8,
                    most: most(sa, inner.kept),
                    inner: (inner.tos, inner.ttl, inner.df),
                }
            }
        })
    }

    /// The frame for a packet that goes into this association's tunnel.
    #[inline]
    pub(super) fn tunnel(sa: &OutboundSa, next_header: u8, tos: u8, ttl: u8, dont_fragment: bool) -> Frame {
        let config = sa.config();
        let policy = &config.options.headers;
        Frame {
            spi: sa.spi().0,
            shape: sa.shape(),
            next_header,
            tos: headers::outer_tos(policy, tos),
            ttl: headers::outer_ttl(policy, ttl),
            df: headers::outer_df(policy, dont_fragment, false),
            left_out: 0,
            most: most(sa, lengths::outer_header(config)),
            inner: (tos, ttl, dont_fragment),
        }
    }

    /// Whether a packet of this frame may be in a burst whose first packet had `first`.
    #[inline]
    pub fn joins(&self, first: &Frame) -> bool {
        (self.spi, self.tos, self.ttl, self.df) == (first.spi, first.tos, first.ttl, first.df)
    }

    /// Whether it is also the frame of this packet, for the same association.
    #[inline]
    pub fn is_of(&self, plain: &Plain) -> bool {
        self.left_out == 0
            && self.next_header == protocol::IPV4
            && self.inner == (plain.tos, plain.ttl, plain.dont_fragment)
    }

    /// The headers around each datagram.
    pub fn outer(&self, sa: &OutboundSa, may_fragment: bool) -> OuterHeader {
        let ends = &sa.config().endpoints;
        OuterHeader {
            src: ends.local,
            dst: ends.remote,
            src_port: ends.local_port,
            dst_port: ends.remote_port,
            tos: self.tos,
            ttl: self.ttl,
            may_fragment: may_fragment || !self.df,
        }
    }

    /// Octets of the inner packet's IP header that stay out of the slot: none in tunnel mode.
    #[inline]
    pub fn left_out(&self) -> usize {
        self.left_out.into()
    }

    /// Offset in a slot at which the payload starts: behind header and IV.
    #[inline]
    pub fn front(&self) -> usize {
        HEADER + usize::from(self.shape.iv)
    }

    /// Octets of the datagram for an inner packet of `inner` octets.
    #[inline]
    pub fn slot_len(&self, inner: usize) -> usize {
        let payload = inner.saturating_sub(self.left_out());
        let room = usize::from(self.most).saturating_sub(payload);
        let trailer = pad::within(payload, self.shape, room) + pad::TRAILER;
        self.front() + payload + trailer + usize::from(self.shape.icv)
    }

    /// Write header and trailer of a slot of [`Frame::slot_len`] octets around the payload of an inner packet of
    /// `inner` octets. IV and ICV come with [`seal`].
    #[inline]
    pub fn write(&self, slot: &mut [u8], inner: usize, sequence: u64) -> Result<(), DropReason> {
        wire::esp::emit(slot, self.spi, sequence as u32)?;
        let from = self.front() + inner.saturating_sub(self.left_out());
        let to = slot.len().checked_sub(self.shape.icv.into()).ok_or(DropReason::NoRoom)?;
        let trailer = slot.get_mut(from..to).ok_or(DropReason::NoRoom)?;
        pad::write(trailer, self.next_header);
        Ok(())
    }
}

/// Octets that the path carries of payload and trailer behind `ip` octets of IP header.
#[inline]
fn most(sa: &OutboundSa, ip: usize) -> u16 {
    let shape = sa.shape();
    let around = udp::HEADER_LEN + HEADER + usize::from(shape.iv) + usize::from(shape.icv);
    usize::from(sa.config().path_mtu).saturating_sub(ip + around) as u16
}

/// Seal slots that are complete but for IV and ICV; their sequence numbers follow one another from `first` on. This is
/// the cipher's work alone: the owner of the association has taken the numbers and counted the packets before, and a
/// clone of `key` may be another thread's.
///
/// # Errors
/// If a slot is too short for the suite of this shape, or the key is not one of ESP: then some are not sealed, and none
/// may leave. [`DropReason::UnitFailed`] if the crypto unit failed: then no slot has an octet of payload left.
#[inline]
pub fn seal<'a>(
    key: &Key,
    shape: Shape,
    first: u64,
    slots: impl Iterator<Item = &'a mut [u8]>,
) -> Result<SealProof, DropReason> {
    let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
    let mut slots = slots.zip(first..);
    loop {
        let mut ops: [SealOp<'_>; BATCH] = from_fn(|_| no_seal_op());
        let mut count = 0;
        for (op, (slot, sequence)) in ops.iter_mut().zip(&mut slots) {
            *op = seal_op(shape, slot, sequence)?;
            count += 1;
        }
        let batch = ops.get_mut(..count).unwrap_or_default();
        if !batch.is_empty() && key.seal_batch(batch).is_err() {
            wipe(batch, slots);
            return Err(DropReason::UnitFailed);
        }
        if count < BATCH {
            return Ok(SealProof::done());
        }
    }
}

/// Do a part of [`seal`]: about as much as `octets` octets of payload take, which what was done is taken off. Returns the
/// proof once all slots are sealed; `None` while there is more to do.
///
/// # Errors
/// The errors of [`seal`].
pub fn seal_step<'a>(
    key: &Key,
    shape: Shape,
    first: u64,
    slots: impl Iterator<Item = &'a mut [u8]>,
    steps: &mut Steps,
    octets: &mut usize,
) -> Result<Option<SealProof>, DropReason> {
    let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
    *octets = (*octets).max(1);
    let mut slots = slots.zip(first..);
    let sealed = steps.go_on(first).and_then(|()| {
        for _ in 0..steps.place {
            slots.next();
        }
        for (slot, sequence) in slots.by_ref() {
            if *octets == 0 {
                return Ok(None);
            }
            match key.seal_step(seal_op(shape, slot, sequence)?, &mut steps.state, octets) {
                Ok(true) => steps.place += 1,
                Ok(false) => return Ok(None),
                Err(UnitFailed) => {
                    slot.fill(0);
                    return Err(DropReason::UnitFailed);
                }
            }
        }
        Ok(Some(SealProof::done()))
    });
    if sealed == Err(DropReason::UnitFailed) {
        slots.for_each(|(slot, _)| slot.fill(0));
    }
    if sealed != Ok(None) {
        steps.clear();
    }
    sealed
}

/// Leave no octet of payload in a batch that was not sealed, wherever the unit has put it, nor in the slots behind it.
#[cold]
fn wipe<'a>(batch: &mut [SealOp<'_>], slots: impl Iterator<Item = (&'a mut [u8], u64)>) {
    for SealOp { iv, data, icv, .. } in batch {
        iv.fill(0);
        data.fill(0);
        icv.fill(0);
    }
    slots.for_each(|(slot, _)| slot.fill(0));
}

#[inline]
fn no_seal_op<'a>() -> SealOp<'a> {
    SealOp { sequence: 0, header: &[0; HEADER], iv: &mut [], data: &mut [], icv: &mut [] }
}

#[inline]
fn no_open_op<'a>() -> OpenOp<'a> {
    OpenOp { sequence: 0, header: &[0; HEADER], iv: &[], data: &mut [], icv: &[], ok: false }
}

#[inline]
pub(crate) fn seal_op(shape: Shape, slot: &mut [u8], sequence: u64) -> Result<SealOp<'_>, DropReason> {
    let (header, rest) = slot.split_first_chunk_mut::<HEADER>().ok_or(DropReason::NoRoom)?;
    let (iv, rest) = rest.split_at_mut_checked(shape.iv.into()).ok_or(DropReason::NoRoom)?;
    let data_len = rest.len().checked_sub(shape.icv.into()).ok_or(DropReason::NoRoom)?;
    let (data, icv) = rest.split_at_mut_checked(data_len).ok_or(DropReason::NoRoom)?;
    Ok(SealOp { sequence, header, iv, data, icv })
}

/// What became of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The sequence number of the datagram: in full if it was opened, as it travelled if not.
    pub sequence: u64,
    /// Offset in the datagram at which the inner packet starts.
    start: u32,
    /// Octets of the inner packet.
    len: u32,
    /// The reason why there is no inner packet, if there is none.
    pub dropped: Option<DropReason>,
}

impl Opened {
    /// A datagram that was not looked at yet.
    pub const NONE: Opened = Opened { sequence: 0, start: 0, len: 0, dropped: Some(DropReason::EspTooShort) };

    /// A datagram, ESP header and all, that is not opened.
    pub fn refused(datagram: &[u8], reason: DropReason) -> Opened {
        let sequence = Esp::new_checked(datagram).map_or(0, |esp| esp.sequence());
        Opened { sequence: sequence.into(), dropped: Some(reason), ..Opened::NONE }
    }

    /// The octets of the datagram in which the inner packet lies.
    #[inline]
    pub fn octets(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// Open datagrams of one association in place, each of `stride` octets, the last perhaps shorter, of which the first
/// `lead` are free (as many as [`opens_with`] wants, or more); `outer` is what they travelled in. `opened` has one
/// place for each and says of every datagram what [`super::decap`] would have said of it as a packet, had they come one
/// after the other. Counted and checked in the same order: lengths, replay, ICV, replay again, trailer, inner header,
/// lifetime.
#[inline]
pub fn open(
    sa: &mut InboundSa,
    now: Time,
    outer: &OuterHeader,
    datagrams: &mut [u8],
    (stride, lead): (usize, usize),
    opened: &mut [Opened],
) {
    let size = batch_len(sa);
    let batches = datagrams.chunks_mut(stride.max(1).saturating_mul(size));
    for (datagrams, opened) in batches.zip(opened.chunks_mut(size)) {
        // One pass over the datagrams does what `prepare_batch` and `compute_batch` do in two.
        let mut ops = OpenOps::new();
        for (datagram, opened) in datagrams.chunks_mut(stride.max(1)).zip(&mut *opened) {
            let datagram = datagram.get_mut(lead..).unwrap_or_default();
            match prepare(sa, datagram, opened) {
                Ok(()) => ops.push(sa.shape(), datagram, opened),
                Err(reason) => opened.dropped = Some(reason),
            }
        }
        ops.compute(sa.key());
        finish_batch(sa, now, outer, datagrams, (stride, lead), opened);
    }
}

/// The largest number of datagrams of this association that [`prepare_batch`] may be given at once. What an extended
/// sequence number is depends on the packets before it.
#[inline]
pub fn batch_len(sa: &InboundSa) -> usize {
    if sa.config().options.extended_sequence { 1 } else { BATCH }
}

/// The proof for a whole burst whose datagrams were all given to [`open`]: `opened` says of each whether there is an
/// inner packet, and where.
///
/// That `opened` is that of the burst is the caller's to see: `xtask/src/purity.rs` lists who may ask for it.
#[inline]
pub fn restored(_: &[Opened]) -> InnerProof {
    InnerProof::done()
}

/// The owner's first part of [`open`], for at most [`batch_len`] datagrams: lengths, sequence numbers, replay window.
#[inline]
pub fn prepare_batch(
    sa: &InboundSa,
    datagrams: &[u8],
    (stride, lead): (usize, usize),
    opened: &mut [Opened],
) {
    for (datagram, opened) in datagrams.chunks(stride.max(1)).zip(opened) {
        let reason = prepare(sa, datagram.get(lead..).unwrap_or_default(), opened).err();
        opened.dropped = Some(reason.unwrap_or(NOT_PROVED));
    }
}

/// The reason to drop a datagram that nobody has found authentic yet.
const NOT_PROVED: DropReason = DropReason::AuthFailed;

#[inline]
fn prepare(sa: &InboundSa, datagram: &[u8], opened: &mut Opened) -> Result<(), DropReason> {
    let low = Esp::new_checked(datagram).map_err(|_| DropReason::EspTooShort)?.sequence();
    opened.sequence = low.into();
    decap::check_lengths(sa.shape(), datagram.len())?;
    if !matches!(sa.key(), Key::Esp(_)) {
        return Err(DropReason::WrongProtocol);
    }
    opened.sequence = sa.whole_sequence(low);
    sa.replay.check(opened.sequence)
}

/// The cipher's part of [`open`], for datagrams that [`prepare_batch`] has seen. It needs nothing of the association
/// but its key and the shape of its suite, so that another thread may do it. A datagram is dropped unless it is proved
/// here.
#[inline]
pub fn compute_batch(
    key: &Key,
    shape: Shape,
    datagrams: &mut [u8],
    (stride, lead): (usize, usize),
    opened: &mut [Opened],
) {
    let mut ops = OpenOps::new();
    for (datagram, opened) in datagrams.chunks_mut(stride.max(1)).zip(opened) {
        if opened.dropped == Some(NOT_PROVED) {
            ops.push(shape, datagram.get_mut(lead..).unwrap_or_default(), opened);
        }
    }
    ops.compute(key);
}

/// Do a part of [`compute_batch`], for all datagrams of a burst: about as much as `octets` octets take, which what was done
/// is taken off. Returns whether all is done.
pub fn compute_step(
    key: &Key,
    shape: Shape,
    datagrams: &mut [u8],
    (stride, lead): (usize, usize),
    opened: &mut [Opened],
    steps: &mut Steps,
    octets: &mut usize,
) -> bool {
    let first = opened.first().map_or(0, |first| first.sequence);
    let (Key::Esp(key), Ok(())) = (key, steps.go_on(first)) else {
        steps.clear();
        return true;
    };
    *octets = (*octets).max(1);
    let rest = datagrams.chunks_mut(stride.max(1)).zip(opened).skip(steps.place);
    for (datagram, opened) in rest {
        if opened.dropped == Some(NOT_PROVED)
            && let Some(esp) = datagram.get_mut(lead..)
            && let Some(op) = decap::open_op(shape, esp, opened.sequence)
        {
            if *octets == 0 {
                return false;
            }
            match key.open_step(op, &mut steps.state, octets) {
                Ok(None) => return false,
                Ok(Some(true)) => opened.dropped = None,
                Ok(Some(false)) => {}
                Err(UnitFailed) => {
                    // What is in there may be the plaintext of a packet that nobody has found authentic.
                    esp.fill(0);
                    opened.dropped = Some(DropReason::UnitFailed);
                }
            }
        }
        steps.place += 1;
    }
    steps.clear();
    true
}

/// What a transform is to open of a batch, with the place for the result of each.
struct OpenOps<'a> {
    ops: [OpenOp<'a>; BATCH],
    results: [Option<&'a mut Opened>; BATCH],
    count: usize,
}

impl<'a> OpenOps<'a> {
    #[inline]
    fn new() -> OpenOps<'a> {
        OpenOps { ops: from_fn(|_| no_open_op()), results: [const { None }; BATCH], count: 0 }
    }

    /// Add a datagram that was prepared. Until it is proved, it is dropped.
    #[inline]
    fn push(&mut self, shape: Shape, datagram: &'a mut [u8], opened: &'a mut Opened) {
        opened.dropped = Some(NOT_PROVED);
        let next = decap::open_op(shape, datagram, opened.sequence);
        let places = (self.ops.get_mut(self.count), self.results.get_mut(self.count));
        if let (Some(next), (Some(op), Some(result))) = (next, places) {
            (*op, *result) = (next, Some(opened));
            self.count += 1;
        }
    }

    #[inline]
    fn compute(mut self, key: &Key) {
        let Key::Esp(key) = key else { return };
        let ops = self.ops.get_mut(..self.count).unwrap_or_default();
        if !ops.is_empty() && key.open_batch(ops).is_err() {
            // What is in there may be the plaintext of a packet that nobody has found authentic.
            for (op, result) in ops.iter_mut().zip(&mut self.results) {
                op.data.fill(0);
                if let Some(opened) = result {
                    opened.dropped = Some(DropReason::UnitFailed);
                }
            }
            return;
        }
        for (op, result) in ops.iter().zip(&mut self.results) {
            if let Some(opened) = result.as_mut().filter(|_| op.ok) {
                opened.dropped = None;
            }
        }
    }
}

/// The owner's last part of [`open`]: everything behind the ICV, in the order in which the datagrams came.
#[inline]
pub fn finish_batch(
    sa: &mut InboundSa,
    now: Time,
    outer: &OuterHeader,
    datagrams: &mut [u8],
    (stride, lead): (usize, usize),
    opened: &mut [Opened],
) {
    for (datagram, opened) in datagrams.chunks_mut(stride.max(1)).zip(opened) {
        if let Err(reason) = finish(sa, now, outer, (datagram, lead), opened) {
            opened.dropped = Some(reason);
            // As it travelled.
            opened.sequence = u64::from(opened.sequence as u32);
            sa.counters.dropped(reason);
        }
    }
}

/// Everything behind the ICV, for one datagram.
#[inline]
fn finish(
    sa: &mut InboundSa,
    now: Time,
    outer: &OuterHeader,
    (datagram, lead): (&mut [u8], usize),
    opened: &mut Opened,
) -> Result<(), DropReason> {
    let sequence = opened.sequence;
    match opened.dropped {
        // One of the same batch may have taken its number, or moved the window past it, before it was its turn.
        Some(reason @ (DropReason::AuthFailed | DropReason::UnitFailed)) => {
            return Err(sa.replay.check(sequence).err().unwrap_or(reason));
        }
        Some(reason) => {
            let sequence = sa.whole_sequence(sequence as u32);
            return Err(sa.replay.check(sequence).err().filter(|_| is_replay(reason)).unwrap_or(reason));
        }
        None => sa.replay.commit(sequence)?,
    }
    let shape = sa.shape();
    let front = lead + HEADER + usize::from(shape.iv);
    let behind = datagram.len().saturating_sub(shape.icv.into());
    let plain = datagram.get_mut(front..behind).ok_or(DropReason::EspTooShort)?;
    let trailer = pad::read(plain)?;
    if trailer.next_header == pad::DUMMY {
        sa.hear_dummy(plain.get(..trailer.payload).unwrap_or_default());
        return Err(DropReason::EspDummy);
    }
    let (config, counters) = sa.config_and_counters();
    let (start, len) = match config.mode {
        Mode::Tunnel => {
            let inner = plain.get_mut(..trailer.payload).ok_or(DropReason::EspPadLength)?;
            (front, restore_tunnel(inner, trailer.next_header, outer.tos, &config.options.headers, counters)?)
        }
        Mode::Transport | Mode::Beet => {
            let (start, len) = restore_transport(datagram, front, trailer, outer)?;
            nat::repair(&mut sa.nat, datagram.get_mut(start..start + len).unwrap_or_default());
            (start, len)
        }
    };
    sa.carry(now, len)?;
    (opened.start, opened.len) = (start as u32, len as u32);
    Ok(())
}

/// Whether the reason is one of the replay window's, which the batch asked before all of it was opened.
fn is_replay(reason: DropReason) -> bool {
    matches!(reason, DropReason::Replayed | DropReason::ReplayTooOld)
}

/// Restore a tunnel's packet like `tunnel::restore`, in a slice that begins with the inner packet. Returns the length
/// of that packet in octets.
#[inline]
fn restore_tunnel(
    inner: &mut [u8],
    next_header: u8,
    outer_tos: u8,
    policy: &HeaderPolicy,
    counters: &mut Counters,
) -> Result<usize, DropReason> {
    match (next_header, tunnel::version(inner)) {
        (protocol::IPV4, Some(4)) => {
            let mut ip = Ipv4::new_checked(inner)?;
            let tos = headers::inner_tos(policy, counters, ip.tos(), outer_tos)?;
            if tos != ip.tos() {
                // A header that was wrong before must not come out right.
                if !ip.checksum_ok() {
                    return Err(DropReason::BadChecksum);
                }
                ip.set_tos(tos);
                ip.fill_checksum();
            }
            Ok(ip.total_len())
        }
        (protocol::IPV6, Some(6)) => {
            let mut ip = Ipv6::new_checked(inner)?;
            let tos = headers::inner_tos(policy, counters, ip.traffic_class(), outer_tos)?;
            if tos != ip.traffic_class() {
                ip.set_traffic_class(tos);
            }
            Ok(ip.total_len())
        }
        _ => Err(DropReason::EspNextHeader),
    }
}

/// Restore a transport mode packet like `transport::restore`, within one datagram. Where what is in front of the
/// payload leaves too little room for the IP header, the payload moves back over its own trailer. Returns start and
/// length of the packet in octets.
#[inline]
fn restore_transport(
    datagram: &mut [u8],
    front: usize,
    trailer: pad::Trailer,
    outer: &OuterHeader,
) -> Result<(usize, usize), DropReason> {
    if !transport::comes_out(trailer.next_header) {
        return Err(DropReason::EspNextHeader);
    }
    let header = if outer.src.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let payload = front.max(header);
    let end = payload + trailer.payload;
    if end > datagram.len() {
        return Err(DropReason::EspTooShort);
    }
    if payload != front {
        datagram.copy_within(front..front + trailer.payload, payload);
    }
    let start = payload - header;
    let packet = datagram.get_mut(start..end).ok_or(DropReason::EspTooShort)?;
    match (outer.src, outer.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = Ipv4Repr {
                src,
                dst,
                protocol: trailer.next_header,
                ttl: outer.ttl,
                tos: outer.tos,
                id: 0,
                df: true,
                payload_len: trailer.payload,
            };
            ipv4::emit(packet, &repr)?;
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: trailer.next_header,
                hop_limit: outer.ttl,
                traffic_class: outer.tos,
                flow_label: 0,
                payload_len: trailer.payload,
            };
            ipv6::emit(packet, &repr)?;
        }
        _ => return Err(DropReason::BadHeader),
    }
    Ok((start, end - start))
}
