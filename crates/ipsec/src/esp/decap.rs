//! Inbound: an outer IP packet becomes an inner one (RFC 4303 section 3.4).

use super::{HEADER, pad};
use crate::opened::Opened;
use crate::proof::{IcvProof, InnerProof};
use crate::restore;
use crate::steps::Steps;
use crate::udp_encap::Outer;
use crypto::{OpenOp, UnitFailed};
use sadb::InboundSa;
use sadb::sa::{Key, Shape};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, protocol};

/// An ESP packet whose lengths and sequence number are plausible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EspOpen {
    /// The whole sequence number.
    pub sequence: u64,
    /// Offset of the ESP header.
    at: usize,
    /// Offset of the end of the packet.
    end: usize,
    shape: Shape,
}

#[inline]
pub(crate) fn open(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
) -> Result<InnerProof, DropReason> {
    let job = prepare(sa, packet.bytes(), outer)?;
    let authentic = job.compute(sa.key(), packet.bytes_mut())?;
    finish(sa, packet, outer, &job, authentic)
}

/// The checks before the cipher's work: lengths, and whether the window takes the sequence number.
#[inline]
pub(crate) fn prepare(sa: &InboundSa, bytes: &[u8], outer: &Outer) -> Result<EspOpen, DropReason> {
    if !matches!(sa.key(), Key::Esp(_)) || outer.protocol != protocol::ESP {
        return Err(DropReason::WrongProtocol);
    }
    let shape = sa.shape();
    let sequence = sa.whole_sequence(outer.sequence);
    let esp = bytes.get(outer.at..outer.end).ok_or(DropReason::EspTooShort)?;
    check_lengths(shape, esp.len())?;
    sa.replay.check(sequence)?;
    Ok(EspOpen { sequence, at: outer.at, end: outer.end, shape })
}

/// Check the length of an ESP packet of `len` octets, header and all.
#[inline]
pub(super) fn check_lengths(shape: Shape, len: usize) -> Result<(), DropReason> {
    let around = HEADER + usize::from(shape.iv) + usize::from(shape.icv);
    match len.checked_sub(around) {
        None | Some(0) => Err(DropReason::EspTooShort),
        Some(data) if data & (usize::from(shape.align) - 1) != 0 => Err(DropReason::EspAlignment),
        Some(_) => Ok(()),
    }
}

/// The parts of an ESP packet whose lengths were checked.
#[inline]
pub(super) fn open_op(shape: Shape, esp: &mut [u8], sequence: u64) -> Option<OpenOp<'_>> {
    let (header, rest) = esp.split_first_chunk_mut::<HEADER>()?;
    let (iv, rest) = rest.split_at_mut_checked(shape.iv.into())?;
    let data_len = rest.len().checked_sub(shape.icv.into())?;
    let (data, icv) = rest.split_at_mut_checked(data_len)?;
    Some(OpenOp { sequence, header, iv, data, icv, ok: false })
}

impl EspOpen {
    /// Verify and decrypt the packet.
    #[inline]
    pub(crate) fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<IcvProof, DropReason> {
        let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
        let esp = bytes.get_mut(self.at..self.end).unwrap_or_default();
        let op = open_op(self.shape, esp, self.sequence).ok_or(DropReason::EspTooShort)?;
        match key.open(op) {
            Ok(right) => IcvProof::if_right(right),
            Err(UnitFailed) => {
                // What is in there may be the plaintext of a packet that nobody has found authentic.
                esp.fill(0);
                Err(DropReason::UnitFailed)
            }
        }
    }

    /// A part of [`Self::compute`]; see [`crate::OpenJob::step`].
    pub(crate) fn step(
        &self,
        key: &Key,
        bytes: &mut [u8],
        steps: &mut Steps,
        octets: &mut usize,
    ) -> Result<Option<IcvProof>, DropReason> {
        let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
        steps.go_on(self.sequence)?;
        let esp = bytes.get_mut(self.at..self.end).unwrap_or_default();
        let op = open_op(self.shape, esp, self.sequence).ok_or(DropReason::EspTooShort)?;
        let opened = key.open_step(op, &mut steps.state, octets);
        if opened == Ok(None) {
            return Ok(None);
        }
        steps.clear();
        match opened {
            Ok(right) => IcvProof::if_right(right == Some(true)).map(Some),
            Err(UnitFailed) => {
                esp.fill(0);
                Err(DropReason::UnitFailed)
            }
        }
    }
}

/// Everything behind the ICV: the replay window again, the trailer, the inner packet, the counters.
#[inline]
pub(crate) fn finish(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
    job: &EspOpen,
    _: IcvProof,
) -> Result<InnerProof, DropReason> {
    // RFC 1122 section 4.1.3.4. Whoever changed the octets that the ICV covers hears the same as ever.
    if outer.corrupt {
        return Err(DropReason::BadChecksum);
    }
    sa.replay.commit(job.sequence)?;
    let from = job.at + HEADER + usize::from(job.shape.iv);
    let to = job.end.saturating_sub(job.shape.icv.into());
    let data = packet.bytes().get(from..to).ok_or(DropReason::EspTooShort)?;
    let trailer = pad::read(data)?;
    if trailer.next_header == pad::DUMMY {
        sa.hear_dummy(data.get(..trailer.payload).unwrap_or_default());
        return Err(DropReason::EspDummy);
    }

    let opened = Opened {
        outer,
        payload: from,
        len: trailer.payload,
        next_header: trailer.next_header,
        wrong: DropReason::EspNextHeader,
    };
    restore::restore(sa, packet, &opened)?;
    restore::account(sa, packet, outer, job.sequence)
}
