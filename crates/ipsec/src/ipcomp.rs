//! IPComp: payloads made shorter where that pays (RFC 3173), by DEFLATE (RFC 2394).
//!
//! A packet leaves compressed or as if the association were not there (RFC 3173 section 2.2); in tunnel mode the latter
//! is IP in IP. Inbound, compressed packets count only inside an association with a key, so whoever could send a bomb
//! has authenticated it; its growth is bounded all the same.

mod backoff;
mod codec;

pub use codec::Codec;

use crate::frame::{self, Layout};
use crate::inner::Inner;
use crate::ipip;
use crate::opened::Opened;
use crate::proof::InnerProof;
use crate::restore;
use crate::udp_encap::Outer;
use sadb::{InboundSa, Mode, OutboundSa};
use wire::ipcomp::{self, HEADER_LEN, IpComp};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, ipv4, ipv6, options, protocol};

/// Payloads shorter than this are not tried: RFC 2394 section 5 found no gain in them.
pub const THRESHOLD: usize = 90;

/// Compress an outbound packet, or pass it on uncompressed where that is no shorter.
pub(crate) fn compress(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
    codec: &mut Codec,
) -> Result<(), DropReason> {
    // Without compression nothing would say which association fixes the inner addresses.
    if sa.config().mode == Mode::Beet {
        return Err(DropReason::WrongProtocol);
    }
    let len = packet.bytes().len();
    let inner = frame::read(sa.config(), packet.bytes_mut())?;
    let body = packet.bytes().get(inner.body..).ok_or(DropReason::Truncated)?;
    let spi = sa.spi().0;
    let Some(shorter) = worthwhile(body, spi, codec) else {
        return pass_uncompressed(sa, packet, &inner, limit, len);
    };
    let now = packet.meta.received;
    // Known to fit before the packet is changed: it only gets shorter.
    Layout::new(sa.config(), &inner, inner.body + shorter, HEADER_LEN, |_| 0)?.check_room(packet)?;
    sa.check_lifetime(now, len)?;
    let place = packet.bytes_mut().get_mut(inner.body..inner.body + shorter).ok_or(DropReason::NoRoom)?;
    place.copy_from_slice(codec.output(shorter));
    packet.buf_mut().truncate(inner.body + shorter);
    if inner.kept > 0 {
        fit_lengths(packet.bytes_mut(), inner.kept)?;
    }
    let layout = Layout::new(sa.config(), &inner, inner.body + shorter, HEADER_LEN, |_| 0)?;
    frame::check_df(sa.config(), packet, &layout, limit)?;
    layout.open_front(sa, packet, &inner, protocol::IPCOMP)?;
    let place = packet.bytes_mut().get_mut(layout.ip..).ok_or(DropReason::NoRoom)?;
    // The configuration was checked: a CPI has 16 bits.
    ipcomp::emit(place, inner.next_header, spi as u16)?;
    sa.counters.carried(now, len);
    Ok(())
}

/// Compress into the codec and tell how long the result is, if it is shorter, header included.
fn worthwhile(body: &[u8], spi: u32, codec: &mut Codec) -> Option<usize> {
    if body.len() < THRESHOLD || codec.backoff.skips(spi) {
        return None;
    }
    let shorter = codec.deflate(body, body.len() - HEADER_LEN - 1);
    codec.backoff.learn(spi, shorter.is_some());
    shorter
}

/// Make the packet's own header say how long it is now.
fn fit_lengths(bytes: &mut [u8], kept: usize) -> Result<(), DropReason> {
    if bytes.first().is_some_and(|first| first >> 4 == 4) {
        let total = u16::try_from(bytes.len()).map_err(|_| DropReason::TooLong)?;
        options::put_header_len(bytes, kept - ipv4::HEADER_LEN, total);
        return Ok(());
    }
    Ok(ipv6::put_payload_len(bytes)?)
}

/// Pass a packet on without compression; in tunnel mode it still gets the outer header of the tunnel.
fn pass_uncompressed(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    inner: &Inner,
    limit: usize,
    len: usize,
) -> Result<(), DropReason> {
    if inner.kept == 0 {
        return ipip::wrap(sa, packet, limit);
    }
    let now = packet.meta.received;
    sa.check_lifetime(now, len)?;
    sa.counters.carried(now, len);
    Ok(())
}

/// Decompress an inbound packet; one of IP in IP was passed uncompressed.
pub(crate) fn decompress(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
    codec: &mut Codec,
) -> Result<InnerProof, DropReason> {
    if outer.protocol != protocol::IPCOMP {
        return ipip::unwrap(sa, packet, outer);
    }
    let bytes = packet.bytes().get(outer.at..outer.end).ok_or(DropReason::IpCompTooShort)?;
    let view = IpComp::new_checked(bytes).map_err(|_| DropReason::IpCompTooShort)?;
    let next_header = view.next_header();
    if view.payload().is_empty() {
        return Err(DropReason::IpCompTooShort);
    }
    // In tunnel mode the payload is a whole packet, and what stands in front of it now goes.
    let kept = if sa.config().mode == Mode::Tunnel { 0 } else { outer.at };
    let longest = usize::from(u16::MAX).saturating_sub(kept);
    let len = codec.inflate(view.payload(), longest)?;
    let payload = outer.at + HEADER_LEN;
    let buf = packet.buf_mut();
    buf.truncate(payload);
    if !buf.make_room(0, len) {
        return Err(DropReason::NoRoom);
    }
    buf.push_back(len).ok_or(DropReason::NoRoom)?.copy_from_slice(codec.output(len));
    let opened = Opened { outer, payload, len, next_header, wrong: DropReason::IpCompNextHeader };
    restore::restore(sa, packet, &opened)?;
    restore::account(sa, packet, outer, 0)
}
