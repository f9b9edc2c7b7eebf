//! The outbound half, from the host to the wire, in the order of its stages.
//!
//! 0. The fast path. A plain packet whose flow has been decided goes straight into the open burst, or is sealed where
//!    it lies: see `fast_path.rs`, which says of every other stage why it may be left out. Everything else begins at 1.
//! 1. Headers.
//! 2. Fragments wait until their packet is whole.
//! 3. The owner of the packet. A packet of an application that has a policy is decided by that policy. An answer that
//!    the kernel made to a protected packet (PROOF in its mark) must leave protected. Anything else is decided by the
//!    rules of the SPD. Without rules, a stamped packet that no policy speaks for is bypassed and one without a stamp
//!    is dropped. The demand of the socket itself (the services in a stamped mark) comes on top of policy and rules.
//!    Packets on their way through this host are decided by the rules alone, and so are those that arrived in clear for
//!    a network behind it: see `decider/forwarded.rs`.
//! 4. The association. After that, packets are scrubbed that policy wants scrubbed: see `scrubbed.rs`.
//!
//! Here is the seam: see `crate::seam`. The [`Decider`] owns what stages 3 and 4 decide by, the [`Protector`] what
//! stages 5 and 6 work with.
//!
//! 5. Size. Super-packets are cut to fit; a packet that forbids fragmentation and does not fit is answered; any other
//!    is carried whole and its outer packet fragmented.
//! 6. ESP or AH, or each member of a bundle in turn: see `protector/bundle.rs`.

mod control;
mod decider;
mod fast_path;
mod finished;
mod graph;
mod origin;
mod outcome;
mod protector;
mod queued;
mod results;
mod route;
mod scrubbed;
mod selection;
mod waiting;

pub use graph::OutboundGraph;
pub(crate) use origin::interface;
pub use outcome::Outcome;
pub use protector::{SealWork, Timeout};

use crate::cx::Cx;
use crate::event::Events;
use crate::scrubbing::{Emitted, Scrubbers, scrub_config};
use crate::seam;
use crate::stats::Stats;
use decider::Decider;
use protector::Protector;
use sadb::spd::Spd;
use selection::{FastPath, Selection};
use std::sync::Arc;
use wire::ip::{self, Headers};
use wire::stage::{Inner, Scheduled, Selected};
use wire::{DropReason, Flow, Packet, Pool, Reassembled, Reassembler, ScrubId, Time, ipv6};

/// The outbound half of the engine.
pub struct Outbound {
    stages: Stages,
    stats: Stats,
    events: Events,
}

/// The owners of the stages, in the order in which a packet passes them.
struct Stages {
    fragments: Reassembler,
    decider: Decider,
    /// The scrubbers of flows whose policy says so.
    scrubbers: Scrubbers,
    /// Packets that the scrubber made itself.
    emitted: Vec<Emitted>,
    protector: Protector,
    /// The graph that packets wait in; `None`: each has its turn at once.
    queues: Option<Box<OutboundGraph>>,
}

impl Outbound {
    /// An engine with this policy and no associations. `seed` is random: see [`sadb::FlowCache::new`].
    pub fn new(spd: Arc<Spd>, seed: u64) -> Outbound {
        let stages = Stages {
            fragments: Reassembler::default(),
            decider: Decider::new(spd, seed),
            scrubbers: Scrubbers::new(scrub_config, [0; 16]),
            emitted: Vec::new(),
            protector: Protector::new(seed),
            queues: None,
        };
        Outbound { stages, stats: Stats::new(), events: Events::default() }
    }

    /// The stages, and what is lent to them for one call.
    #[inline]
    fn lend<'a>(
        &'a mut self,
        pool: &'a mut Pool,
        out: &'a mut Vec<Outcome>,
    ) -> (&'a mut Stages, Cx<'a, Outcome>) {
        let Outbound { stages, stats, events } = self;
        (stages, Cx { pool, out, stats, events })
    }

    /// Take one packet all the way, where there is no graph. Its outcomes are appended to `out`; buffers come from `pool`
    /// and go back to it.
    pub fn handle(&mut self, now: Time, mut packet: Packet<Inner>, pool: &mut Pool, out: &mut Vec<Outcome>) {
        packet.meta.received = now;
        let (stages, mut cx) = self.lend(pool, out);
        let cx = &mut cx;
        // Steps 0 to 2 are here, and not a function of the stages, so that the packet is not moved once more.
        match stages.fast_path(&mut packet, cx) {
            FastPath::No => {}
            FastPath::Gathered | FastPath::Ended => return cx.pool.put(packet.into_buf()),
            FastPath::Sealed(selection, sealed) => {
                let packet = seam::schedule(packet.advance(&selection));
                return cx.out.push(Outcome::Send(packet.advance(&sealed)));
            }
        }
        stages.enter(packet, cx);
    }
}

impl Stages {
    /// Stages 1 and 2, and what follows them.
    #[inline(always)]
    fn enter(&mut self, mut packet: Packet<Inner>, cx: &mut Cx<'_, Outcome>) {
        // Not moved out of the result: the headers are many, and every packet would pay for the copy.
        let parsed = Headers::parse(packet.bytes());
        let headers = match &parsed {
            Ok(headers) => headers,
            Err(error) => return cx.discard(packet, (*error).into(), None),
        };
        packet.buf_mut().truncate(headers.total_len);
        if !ip::checksum_ok(packet.bytes(), headers) {
            return cx.discard(packet, DropReason::BadChecksum, None);
        }
        if let Some(reason) = self.decider.refuses(&packet.meta) {
            let flow = ip::flow(packet.bytes(), headers, true);
            return cx.discard(packet, reason, Some(&flow));
        }
        if headers.fragment.is_some() {
            return self.join(packet, headers, cx);
        }
        self.dispatch(packet, headers, None, cx);
    }

    /// Stage 2: the last missing fragment becomes the whole packet and goes on.
    #[cold]
    fn join(&mut self, mut packet: Packet<Inner>, headers: &Headers, cx: &mut Cx<'_, Outcome>) {
        // Pieces of different senders never make one packet.
        let context = origin::sender(&packet.meta);
        let id = headers.fragment.map(|fragment| fragment.id);
        let now = packet.meta.received;
        let answer = self.fragments.push(now, context, packet.bytes(), headers, cx.pool);
        cx.stats.lost_fragments(self.fragments.take_lost());
        let reason = match answer {
            Reassembled::Incomplete => DropReason::FragmentHeld,
            Reassembled::Rejected(reason) => reason,
            Reassembled::Complete(whole) => {
                cx.pool.put(std::mem::replace(packet.buf_mut(), whole));
                // Its sender had fragmented it, so may we: answering "too big" would not help.
                packet.meta.may_fragment = true;
                match Headers::parse(packet.bytes()) {
                    Ok(headers) => return self.dispatch(packet, &headers, id, cx),
                    Err(error) => error.into(),
                }
            }
        };
        let flow = ip::flow(packet.bytes(), headers, true);
        cx.discard(packet, reason, Some(&flow));
    }

    /// Stages 3 and 4 and what follows them, for a whole packet. `joined` is the identification of the fragments that
    /// it was joined from.
    #[inline]
    fn dispatch(
        &mut self,
        mut packet: Packet<Inner>,
        headers: &Headers,
        joined: Option<u32>,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let arrived = origin::has_arrived(&packet.meta);
        let mut flow = ip::flow(packet.bytes(), headers, !arrived);
        if headers.has_options && !arrived {
            // What protects the packet must do so to its end, not to the first stop of its route.
            match ip::final_destination(packet.bytes(), headers) {
                Ok(last) => flow.remote = last,
                Err(error) => return cx.discard(packet, error.into(), Some(&flow)),
            }
        }
        let sad = self.protector.sad_mut();
        let selection = match self.decider.decide(&mut packet, headers, &flow, sad, cx) {
            Ok(selection) => selection,
            Err(reason) => return self.set_aside(reason, packet, headers, joined, &flow, cx),
        };
        // Asked before the step to the next stage: a packet that two calls may take is copied twice.
        if packet.meta.scrub != ScrubId::NONE {
            return self.scrub(selection, packet.advance(&selection), joined, &flow, cx);
        }
        self.pass_on(selection, packet.advance(&selection), headers, joined, &flow, cx);
    }

    /// The seam, and stages 5 and 6.
    #[inline]
    fn pass_on(
        &mut self,
        selection: Selection,
        packet: Packet<Selected>,
        headers: &Headers,
        joined: Option<u32>,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        match (selection.association(), joined) {
            (Some(association), _) if self.queues.is_some() => {
                self.enqueue(association, selection, packet, headers, flow, cx);
            }
            (Some(association), _) => {
                let packet: Packet<Scheduled> = seam::schedule(packet);
                self.protector.protect(association, packet, headers, flow, cx);
            }
            (None, joined) => {
                let (held, from, now) =
                    (self.describe_held(&packet, headers, flow), cx.out.len(), packet.meta.received);
                match joined.filter(|_| packet.bytes().len() > ipv6::MIN_MTU) {
                    Some(id) => protector::cut_again(packet, headers, id, flow, cx),
                    None => protector::clear(packet, headers, flow, cx),
                }
                self.clear_held(held, from, now, cx);
            }
        }
    }
}
