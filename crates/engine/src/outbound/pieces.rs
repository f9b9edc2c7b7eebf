//! Packets that go on in pieces: super-packets that are cut, and whole packets that become fragments again.

use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::stage::Inner;
use wire::{Buf, Flow, Gso, Meta, Packet, Pool, WireError, fragment, segment};

use super::outcome::{Outcome, end};
use crate::fit::Fit;
use crate::tally::Tally;

/// Pass the packet to `then` as `fit` says: itself, or its pieces, each in a buffer of its own.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of `Outbound` that are not lent to `then`, and the packet"
)]
#[inline]
pub(super) fn cut(
    tally: &mut Tally,
    packet: Packet<Inner>,
    headers: &Headers,
    fit: Fit,
    flow: &Flow,
    pool: &mut Pool,
    out: &mut Vec<Outcome>,
    mut then: impl FnMut(&mut Tally, Packet<Inner>, &mut Pool, &mut Vec<Outcome>),
) {
    let (bytes, meta) = (packet.bytes(), packet.meta);
    let done = match fit {
        Fit::Whole => return then(tally, packet, pool, out),
        Fit::Cut(longest) => segment::segments(bytes, headers, &meta.gso, longest).map(|mut pieces| {
            each(tally, meta, |buf| pieces.next_into(buf), flow, pool, out, then);
        }),
        // With its own identification, so that whoever joins them gets this very packet.
        Fit::Fragments(longest) => {
            let id = Ipv4::new_checked(bytes).map_or(0, |ip| ip.id());
            fragment::fragments(bytes, headers, id.into(), longest).map(|mut pieces| {
                each(tally, meta, |buf| pieces.next_into(buf), flow, pool, out, then);
            })
        }
    };
    match done {
        Ok(()) => pool.put(packet.into_buf()),
        Err(error) => end(tally, packet, error.into(), Some(flow), pool, out),
    }
}

/// Pass every piece that `next` writes to `then`, in a buffer of its own.
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
