//! AH: integrity of a whole packet, the headers in front of it included (RFC 4302).
//!
//! ```text
//! | IP header, options or extension headers | next 1 | length 1 | 0 0 | SPI 4 | sequence 4 | IV, ICV, padding | payload |
//! ```
//!
//! The ICV covers the headers in front as [`wire::ah::immutable`] turns them, the header with zeros for the ICV (the IV
//! of AES-GMAC stands in its place: RFC 4543 section 7), the payload, and the upper half of an extended sequence number
//! behind it (sections 2.5.1 and 3.3.3.2.2). Always bare: a NAT or a UDP header would break it.

use crate::frame::{self, Layout};
use crate::opened::Opened;
use crate::proof::{IcvProof, InnerProof, SealProof};
use crate::restore;
use crate::udp_encap::Outer;
use crypto::{MAX_ICV_LEN, MAX_IV_LEN};
use sadb::sa::Key;
use sadb::{InboundSa, OutboundSa, SaConfig};
use wire::ah::{self, Ah, FIXED_LEN};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, protocol};

/// Most octets of IP header, options and extension headers that are authenticated in front of AH: what fits a copy on
/// the stack. An IPv4 header has 60 at most; more extension headers than this are nobody's honest need.
pub const MAX_HEADERS: usize = 512;

/// Octets of explicit IV and ICV of the association.
pub(crate) fn icv_len(config: &SaConfig) -> usize {
    let integrity = config.suite.integrity();
    integrity.iv_len() + integrity.icv_len()
}

/// Octets of the whole header.
pub(crate) fn header_len(config: &SaConfig) -> usize {
    let version = if config.endpoints.remote.is_ipv4() { 4 } else { 6 };
    ah::header_len(icv_len(config), version)
}

/// The parts that the ICV covers, of a packet whose AH starts at `at` and has zeros for the ICV.
struct Covered<'a> {
    /// The headers in front, as both ends see them.
    front: [u8; MAX_HEADERS],
    front_len: usize,
    /// The AH header and the payload behind it.
    rest: &'a [u8],
    /// The upper half of the sequence number, if it counts.
    upper: [u8; 4],
    upper_len: usize,
}

impl<'a> Covered<'a> {
    fn new(
        packet: &'a [u8],
        at: usize,
        end: usize,
        extended: bool,
        sequence: u64,
    ) -> Result<Self, DropReason> {
        let headers = packet.get(..at).ok_or(DropReason::AhTooShort)?;
        let mut front = [0; MAX_HEADERS];
        let copy = front.get_mut(..at).ok_or(DropReason::AhHeaders)?;
        copy.copy_from_slice(headers);
        ah::immutable(copy)?;
        Ok(Covered {
            front,
            front_len: at,
            rest: packet.get(at..end).ok_or(DropReason::AhTooShort)?,
            upper: ((sequence >> 32) as u32).to_be_bytes(),
            upper_len: if extended { 4 } else { 0 },
        })
    }

    fn parts(&self) -> [&[u8]; 3] {
        let front = self.front.get(..self.front_len).unwrap_or_default();
        [front, self.rest, self.upper.get(..self.upper_len).unwrap_or_default()]
    }
}

/// A packet with AH that is complete but for IV and ICV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AhSeal {
    sequence: u64,
    /// Offset of the AH header.
    at: usize,
    /// Octets of the whole packet.
    total: usize,
    /// Whether the upper half of the sequence number counts.
    extended: bool,
}

/// Protect an outbound packet with AH (RFC 4302 section 3.3).
pub(crate) fn sign(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<SealProof, DropReason> {
    let job = prepare_seal(sa, packet, limit)?;
    compute_seal(&job, sa.key(), packet.bytes_mut())
}

/// Everything but the MAC: number and lifetime, and the headers.
pub(crate) fn prepare_seal(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<AhSeal, DropReason> {
    let len = packet.bytes().len();
    let inner = frame::read(sa.config(), packet.bytes_mut())?;
    let header = header_len(sa.config());
    let layout = Layout::new(sa.config(), &inner, len, header, |_| 0)?;
    frame::check_df(sa.config(), packet, &layout, limit)?;
    if layout.ip > MAX_HEADERS {
        return Err(DropReason::AhHeaders);
    }
    layout.check_room(packet)?;
    let now = packet.meta.received;
    let sequence = sa.next_packet(now, len)?;
    let meta = &mut packet.meta;
    (meta.spi, meta.sequence, meta.services) = (sa.spi().0, sequence, sa.config().services());
    layout.open_front(sa, packet, &inner, protocol::AH)?;

    let (at, total) = (layout.ip, layout.total());
    let place = packet.bytes_mut().get_mut(at..).ok_or(DropReason::NoRoom)?;
    ah::emit(place, inner.next_header, sa.spi().0, sequence as u32, header)?;
    // Counted with the number, so that the lifetime knows of packets that are being computed.
    sa.counters.carried(now, len);
    Ok(AhSeal { sequence, at, total, extended: sa.config().options.extended_sequence })
}

/// Write IV and ICV of a packet that is prepared.
pub(crate) fn compute_seal(job: &AhSeal, key: &Key, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
    let AhSeal { sequence, at, total, extended } = *job;
    let Key::Ah(key) = key else { return Err(DropReason::WrongProtocol) };
    let from = at + FIXED_LEN;
    key.put_iv(sequence, bytes.get_mut(from..from + key.len()).ok_or(DropReason::NoRoom)?);
    let mut icv = [0; MAX_IV_LEN + MAX_ICV_LEN];
    let icv = icv.get_mut(..key.len()).ok_or(DropReason::AhLength)?;
    key.sign(sequence, &Covered::new(bytes, at, total, extended, sequence)?.parts(), icv);
    let place = bytes.get_mut(from..from + icv.len()).ok_or(DropReason::NoRoom)?;
    place.copy_from_slice(icv);
    Ok(SealProof::done())
}

/// A packet with AH whose lengths and sequence number are plausible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AhOpen {
    /// The whole sequence number.
    pub sequence: u64,
    /// Offset of the AH header.
    at: usize,
    /// Offset of the end of the packet.
    end: usize,
    /// Octets of the AH header.
    header_len: usize,
    /// Octets of the explicit IV in front of the ICV.
    iv_len: usize,
    /// The protocol of the payload.
    next_header: u8,
    /// Whether the upper half of the sequence number counts.
    extended: bool,
}

/// Check an inbound packet's AH and leave its inner packet (RFC 4302 section 3.4).
pub(crate) fn verify(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
) -> Result<InnerProof, DropReason> {
    let job = prepare_open(sa, packet.bytes(), outer)?;
    let authentic = job.compute(sa.key(), packet.bytes_mut())?;
    finish_open(sa, packet, outer, &job, authentic)
}

/// The checks before the MAC: lengths, and whether the window takes the sequence number.
pub(crate) fn prepare_open(sa: &InboundSa, bytes: &[u8], outer: &Outer) -> Result<AhOpen, DropReason> {
    let Key::Ah(key) = sa.key() else { return Err(DropReason::WrongProtocol) };
    // Never in UDP.
    if outer.protocol != protocol::AH || outer.src_port.is_some() {
        return Err(DropReason::WrongProtocol);
    }
    let header = bytes.get(outer.at..outer.end).ok_or(DropReason::AhTooShort)?;
    let header = Ah::new_checked(header).map_err(|_| DropReason::AhTooShort)?;
    let (next_header, header_len) = (header.next_header(), header.header_len());
    let version = if outer.src.is_ipv4() { 4 } else { 6 };
    // The padding is no longer than it must be (section 3.3.3.2.1).
    if header_len != ah::header_len(key.len(), version) {
        return Err(DropReason::AhLength);
    }
    let sequence = sa.whole_sequence(outer.sequence);
    sa.replay.check(sequence)?;
    Ok(AhOpen {
        sequence,
        at: outer.at,
        end: outer.end,
        header_len,
        iv_len: sa.config().suite.integrity().iv_len(),
        next_header,
        extended: sa.config().options.extended_sequence,
    })
}

impl AhOpen {
    /// Verify the packet; zeros are left where its ICV was.
    pub(crate) fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<IcvProof, DropReason> {
        let Key::Ah(key) = key else { return Err(DropReason::WrongProtocol) };
        let from = self.at + FIXED_LEN;
        let place = bytes.get_mut(from..from + key.len()).ok_or(DropReason::AhTooShort)?;
        let mut icv = [0; MAX_IV_LEN + MAX_ICV_LEN];
        let icv = icv.get_mut(..key.len()).ok_or(DropReason::AhLength)?;
        icv.copy_from_slice(place);
        place.iter_mut().skip(self.iv_len).for_each(|octet| *octet = 0);
        let covered = Covered::new(bytes, self.at, self.end, self.extended, self.sequence)?;
        IcvProof::if_right(key.verify(&covered.parts(), icv))
    }
}

/// Everything behind the ICV: the replay window again, the inner packet, the counters.
pub(crate) fn finish_open(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
    job: &AhOpen,
    _: IcvProof,
) -> Result<InnerProof, DropReason> {
    sa.replay.commit(job.sequence)?;
    let (payload, next_header) = (job.at + job.header_len, job.next_header);
    let opened =
        Opened { outer, payload, len: job.end - payload, next_header, wrong: DropReason::AhNextHeader };
    restore::restore(sa, packet, &opened)?;
    restore::account(sa, packet, outer, job.sequence)
}
