//! Outbound: an inner IP packet becomes an outer one (RFC 4303 section 3.3).

use super::{HEADER, pad, slot};
use crate::frame::{self, Layout};
use crate::inner::Inner;
use crate::proof::SealProof;
use crate::steps::Steps;
use crate::udp_encap;
use sadb::OutboundSa;
use sadb::sa::{Key, Shape, Tfc};
use std::net::IpAddr;
use wire::stage::Scheduled;
use wire::udp::{self, Udp};
use wire::{DropReason, Packet, protocol};

/// Seal a packet whose outer packet should not be longer than `limit` where that is ours to choose.
#[inline]
pub(crate) fn seal(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<SealProof, DropReason> {
    let job = prepare(sa, packet, limit)?;
    job.compute(sa.key(), packet.bytes_mut())
}

/// Everything but the cipher's work: number and lifetime, headers and trailer.
#[inline]
pub(crate) fn prepare(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<EspSeal, DropReason> {
    let len = packet.bytes().len();
    // Not moved out of the result: to copy what was just written field by field would wait for it.
    let read = frame::read(sa.config(), packet.bytes_mut());
    let inner = match &read {
        Ok(inner) => inner,
        Err(reason) => return Err(*reason),
    };
    let shape = sa.shape();
    let (iv, icv, align) = (usize::from(shape.iv), usize::from(shape.icv), usize::from(shape.align));
    let tfc = sa.config().options.tfc;
    let mut hiding = 0;
    let layout = Layout::new(sa.config(), inner, len, HEADER + iv, |layout| {
        if tfc != Tfc::None {
            hiding = pad::hiding(tfc, layout.body, limit.saturating_sub(layout.total() + icv), align);
        }
        // What goes through another member of a bundle must not grow for nothing.
        let limit = if layout.udp > 0 { limit } else { 0 };
        let room = limit.saturating_sub(layout.total() + icv + hiding);
        hiding + pad::within(layout.body + hiding, shape, room) + pad::TRAILER + icv
    })?;
    frame::check_df(sa.config(), packet, &layout, limit)?;
    if hiding > 0 && !packet.buf_mut().make_room(super::HEADROOM, layout.tail) {
        return Err(DropReason::NoRoom);
    }
    layout.check_room(packet)?;
    let now = packet.meta.received;
    let sequence = sa.next_packet(now, len)?;

    let job = enclose(sa, packet, inner, &layout, hiding, sequence)?;
    // Counted with the number, so that the lifetime knows of packets that are being computed.
    sa.counters.carried(now, len);
    Ok(job)
}

/// Everything around the payload: `hiding` octets and trailer behind it, headers in front. What is left is the
/// cipher's.
#[inline]
pub(crate) fn enclose(
    sa: &OutboundSa,
    packet: &mut Packet<Scheduled>,
    inner: &Inner,
    layout: &Layout,
    hiding: usize,
    sequence: u64,
) -> Result<EspSeal, DropReason> {
    let shape = sa.shape();
    let back = packet.buf_mut().push_back(layout.tail).ok_or(DropReason::NoRoom)?;
    let (hidden, back) = back.split_at_mut_checked(hiding).ok_or(DropReason::NoRoom)?;
    hidden.fill(0);
    let trailer = back.len().saturating_sub(shape.icv.into());
    if let Some(trailer) = back.get_mut(..trailer) {
        pad::write(trailer, inner.next_header);
    }

    // Written before the cipher runs, so that the packet can be moved right after it.
    let meta = &mut packet.meta;
    (meta.spi, meta.sequence, meta.services) = (sa.spi().0, sequence, sa.config().services());
    layout.open_front(sa, packet, inner, protocol::ESP)?;
    let at = layout.ip + layout.udp;
    let header = packet.bytes_mut().get_mut(at..at + HEADER).ok_or(DropReason::NoRoom)?;
    wire::esp::emit(header, sa.spi().0, sequence as u32)?;
    let checksum = if layout.udp > 0 { udp_encap::checksum_ends(&sa.config().endpoints) } else { None };
    Ok(EspSeal { sequence, at, shape, checksum })
}

/// An ESP packet that is complete but for IV, ciphertext, ICV and the checksum of a UDP header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EspSeal {
    pub sequence: u64,
    /// Offset of the ESP header, which goes to the end of the packet.
    pub at: usize,
    pub shape: Shape,
    /// The addresses for the checksum of the UDP header in front of the ESP header, if it has one.
    pub checksum: Option<(IpAddr, IpAddr)>,
}

impl EspSeal {
    #[inline]
    pub(crate) fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
        let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
        let esp = bytes.get_mut(self.at..).ok_or(DropReason::NoRoom)?;
        if key.seal(slot::seal_op(self.shape, esp, self.sequence)?).is_err() {
            // What the unit made of it is not known: no octet of the payload stays.
            esp.fill(0);
            return Err(DropReason::UnitFailed);
        }
        self.fill_checksum(bytes)
    }

    /// A part of [`Self::compute`]; see [`crate::SealJob::step`].
    pub(crate) fn step(
        &self,
        key: &Key,
        bytes: &mut [u8],
        steps: &mut Steps,
        octets: &mut usize,
    ) -> Result<Option<SealProof>, DropReason> {
        let esp = bytes.get_mut(self.at..).ok_or(DropReason::NoRoom)?;
        match slot::seal_step(key, self.shape, self.sequence, std::iter::once(esp), steps, octets)? {
            Some(_) => self.fill_checksum(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The checksum of the UDP header over what is sealed, if the association wants one. Nothing is to do behind it.
    #[inline]
    fn fill_checksum(&self, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
        if let Some((src, dst)) = self.checksum {
            let from = self.at.checked_sub(udp::HEADER_LEN).ok_or(DropReason::NoRoom)?;
            Udp::new_checked(bytes.get_mut(from..).ok_or(DropReason::NoRoom)?)?.fill_checksum(src, dst);
        }
        Ok(SealProof::done())
    }
}
