//! Packets that go on in pieces: super-packets that are cut, whole packets that become fragments again.

use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::stage::Inner;
use wire::{Buf, Flow, Gso, Meta, Packet, Pool, WireError, fragment, segment};

use super::{Outcome, end};
use crate::tally::Tally;

/// Every piece of a super-packet, in a buffer of its own, to `then`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of `Outbound` that are not lent to `then`, and the packet"
)]
pub(super) fn cut(
    tally: &mut Tally,
    packet: Packet<Inner>,
    headers: &Headers,
    longest: usize,
    flow: &Flow,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
    then: impl FnMut(&mut Tally, Packet<Inner>, &mut Pool, &mut Vec<Outcome>),
) {
    let mut pieces = match segment::segments(packet.bytes(), headers, &packet.meta.gso, longest) {
        Ok(pieces) => pieces,
        Err(error) => return end(tally, packet, error.into(), Some(flow), pool, out),
    };
    each(tally, packet.meta, |buf| pieces.next_into(buf), flow, pool, out, then);
    pool.put(packet.into_buf());
}

/// A packet in IPv4 fragments of at most `longest` octets, with its own identification, each to `then`.
#[expect(clippy::too_many_arguments, reason = "as of `cut`")]
#[cold]
pub(super) fn refragment(
    tally: &mut Tally,
    packet: Packet<Inner>,
    headers: &Headers,
    longest: usize,
    flow: &Flow,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
    then: impl FnMut(&mut Tally, Packet<Inner>, &mut Pool, &mut Vec<Outcome>),
) {
    let id = Ipv4::new_checked(packet.bytes()).map_or(0, |ip| ip.id());
    let mut pieces = match fragment::fragments(packet.bytes(), headers, id.into(), longest) {
        Ok(pieces) => pieces,
        Err(error) => return end(tally, packet, error.into(), Some(flow), pool, out),
    };
    let meta = Meta { may_fragment: false, ..packet.meta };
    each(tally, meta, |buf| pieces.next_into(buf), flow, pool, out, then);
    pool.put(packet.into_buf());
}

/// Every piece that `next` writes, in a buffer of its own, to `then`.
pub(super) fn each(
    tally: &mut Tally,
    meta: Meta,
    mut next: impl FnMut(&mut Buf) -> Option<Result<(), WireError>>,
    flow: &Flow,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
    mut then: impl FnMut(&mut Tally, Packet<Inner>, &mut Pool, &mut Vec<Outcome>),
) {
    let meta = Meta { gso: Gso::default(), ..meta };
    loop {
        let mut buf = pool.take();
        match next(&mut buf) {
            Some(Ok(())) => then(tally, Packet::from_host(buf, meta), pool, out),
            Some(Err(error)) => {
                end(tally, Packet::from_host(buf, meta), error.into(), Some(flow), pool, out);
            }
            None => return pool.put(buf),
        }
    }
}
