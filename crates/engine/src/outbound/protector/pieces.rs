//! Packets that go on in pieces: super-packets that are cut, and whole packets that become fragments again. Packets in
//! clear, which need no association, go on from here too.

use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::stage::Selected;
use wire::{Buf, Flow, Gso, Meta, Packet, WireError, fragment, ipv6, segment};

use super::fit::{self, Fit};
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;

/// What is known of a packet whose size was compared with its path.
pub(super) struct PacketFit<'a> {
    pub headers: &'a Headers,
    pub fit: Fit,
    pub flow: &'a Flow,
}

/// Pass the packet to `then` as its fit says: itself, or its pieces, each in a buffer of its own.
#[inline]
pub(super) fn cut<S>(
    packet: Packet<S>,
    fitted: &PacketFit<'_>,
    cx: &mut Cx<'_, Outcome>,
    mut then: impl FnMut(Packet<S>, &mut Cx<'_, Outcome>),
) {
    let (bytes, headers) = (packet.bytes(), fitted.headers);
    let done = match fitted.fit {
        Fit::Whole => return then(packet, cx),
        Fit::Cut(longest) => {
            segment::segments(bytes, headers, &packet.meta.gso, longest).map(|mut pieces| {
                each(&packet, |buf| pieces.next_into(buf), fitted.flow, cx, then);
            })
        }
        // With its own identification, so that whoever joins them gets this very packet.
        Fit::Fragments(longest) => {
            let id = Ipv4::new_checked(bytes).map_or(0, |ip| ip.id());
            fragment::fragments(bytes, headers, id.into(), longest).map(|mut pieces| {
                each(&packet, |buf| pieces.next_into(buf), fitted.flow, cx, then);
            })
        }
    };
    match done {
        Ok(()) => cx.pool.put(packet.into_buf()),
        Err(error) => cx.discard(packet, error.into(), Some(fitted.flow)),
    }
}

/// Pass every piece of `whole` that `next` writes to `then`, in a buffer of its own.
fn each<S>(
    whole: &Packet<S>,
    mut next: impl FnMut(&mut Buf) -> Option<Result<(), WireError>>,
    flow: &Flow,
    cx: &mut Cx<'_, Outcome>,
    mut then: impl FnMut(Packet<S>, &mut Cx<'_, Outcome>),
) {
    let meta = Meta { gso: Gso::default(), ..whole.meta };
    loop {
        let mut buf = cx.pool.take();
        match next(&mut buf) {
            Some(Ok(())) => then(whole.piece(buf, meta), cx),
            Some(Err(error)) => cx.discard(whole.piece(buf, meta), error.into(), Some(flow)),
            None => return cx.pool.put(buf),
        }
    }
}

/// Send a packet in clear as it is; only what the kernel left undone is completed.
pub(in crate::outbound) fn clear(
    mut packet: Packet<Selected>,
    headers: &Headers,
    flow: &Flow,
    cx: &mut Cx<'_, Outcome>,
) {
    match fit::clear(&mut packet) {
        Ok(fit) => cut(packet, &PacketFit { headers, fit, flow }, cx, release),
        Err(reason) => cx.discard(packet, reason, Some(flow)),
    }
}

/// Send a packet in clear that had been joined for policy to see. It goes in fragments again that fit every link,
/// since nobody cuts it behind us. The identification is the sender's own, so it is as unique as before.
#[cold]
pub(in crate::outbound) fn cut_again(
    packet: Packet<Selected>,
    headers: &Headers,
    id: u32,
    flow: &Flow,
    cx: &mut Cx<'_, Outcome>,
) {
    let mut pieces = match fragment::fragments(packet.bytes(), headers, id, ipv6::MIN_MTU) {
        Ok(pieces) => pieces,
        Err(error) => return cx.discard(packet, error.into(), Some(flow)),
    };
    each(&packet, |buf| pieces.next_into(buf), flow, cx, release);
    cx.pool.put(packet.into_buf());
}

/// Let a packet out in clear, counted.
fn release(packet: Packet<Selected>, cx: &mut Cx<'_, Outcome>) {
    cx.stats.clear.count(packet.bytes().len());
    cx.out.push(Outcome::Clear(packet));
}
