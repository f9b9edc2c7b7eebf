//! Inbound: an outer IP packet becomes an inner one (RFC 4303 section 3.4).

use super::{HEADER, pad};
use crate::opened::Opened;
use crate::restore;
use crate::udp_encap::Outer;
use crypto::OpenOp;
use sadb::InboundSa;
use sadb::sa::Key;
use wire::stage::Scheduled;
use wire::{DropReason, Packet, protocol};

#[inline]
pub(crate) fn open(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
) -> Result<(), DropReason> {
    let Key::Esp(key) = sa.key() else { return Err(DropReason::WrongProtocol) };
    if outer.protocol != protocol::ESP {
        return Err(DropReason::WrongProtocol);
    }
    let shape = sa.shape();
    let (iv_len, icv_len) = (usize::from(shape.iv), usize::from(shape.icv));
    let sequence = sa.whole_sequence(outer.sequence);
    let esp = packet.bytes_mut().get_mut(outer.at..outer.end).ok_or(DropReason::EspTooShort)?;
    let (header, rest) = esp.split_first_chunk_mut::<HEADER>().ok_or(DropReason::EspTooShort)?;
    let (iv, rest) = rest.split_at_mut_checked(iv_len).ok_or(DropReason::EspTooShort)?;
    let data_len = rest.len().checked_sub(icv_len).ok_or(DropReason::EspTooShort)?;
    let (data, icv) = rest.split_at_mut_checked(data_len).ok_or(DropReason::EspTooShort)?;
    if data.is_empty() {
        return Err(DropReason::EspTooShort);
    } else if data.len() & (usize::from(shape.align) - 1) != 0 {
        return Err(DropReason::EspAlignment);
    }
    sa.replay.check(sequence)?;
    if !key.open(OpenOp { sequence, header, iv, data, icv, ok: false }) {
        return Err(DropReason::AuthFailed);
    }
    // RFC 1122 section 4.1.3.4. Whoever changed the octets that the ICV covers hears the same as ever.
    if outer.corrupt {
        return Err(DropReason::BadChecksum);
    }
    sa.replay.commit(sequence)?;
    let trailer = pad::read(data)?;
    if trailer.next_header == pad::DUMMY {
        sa.hear_dummy(data.get(..trailer.payload).unwrap_or_default());
        return Err(DropReason::EspDummy);
    }

    let opened = Opened {
        outer,
        payload: outer.at + HEADER + iv_len,
        len: trailer.payload,
        next_header: trailer.next_header,
        wrong: DropReason::EspNextHeader,
    };
    restore::restore(sa, packet, &opened)?;
    restore::account(sa, packet, outer, sequence)
}
