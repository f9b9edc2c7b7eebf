//! The inbound thread with a graph, where outer packets come by UDP and raw sockets: how much is taken from each of them
//! in a round.

use engine::InboundGraph;
use netio::raw::RawReceiver;
use netio::udp::Family;
use wire::{AggregateId, Burst, DropReason, Packet, Time, stage};

use super::socket_queues::{SocketKind, SocketQueues};
use super::{InboundHalf, InboundThread, Received, Tapped};
use crate::datapath::queue_state::{BETWEEN, ROUND, share};

impl InboundThread {
    /// Rounds with a graph, whose sources are the sockets that are ready. Returns the time until which there is nothing to
    /// do, and whether the sockets work.
    pub(super) fn sockets(
        &mut self,
        half: &mut InboundHalf,
        (ready, bare): ([bool; 2], [bool; 8]),
        mut received: Received<'_>,
        work: &mut Tapped<'_>,
    ) -> (Option<Time>, bool) {
        let mut works = true;
        let has_room = |classes: &[AggregateId]| half.engine.room(classes) > 0;
        let is_pending = self.queues.as_mut().is_some_and(|queues| queues.states.is_any_pending(has_room));
        let is_any = is_pending || ready.iter().chain(&bare).any(|ready| *ready);
        let until = self.rounds(half, is_any, work, |thread, half, now, work| {
            let mut more = false;
            let most = if half.engine.is_in_progress() { BETWEEN } else { ROUND };
            let sources = if thread.queues.is_some() { [false; 2] } else { ready };
            for (family, _) in [Family::V4, Family::V6].into_iter().zip(sources).filter(|(_, ready)| *ready) {
                match thread.datagrams_in(half, (family, 0), most, now, received.bursts, work) {
                    Ok((yet, _)) => more |= yet,
                    Err(()) => works = false,
                }
            }
            match thread.take_by_class(half, now, &mut received, work) {
                Ok(yet) => more |= yet,
                Err(()) => works = false,
            }
            for (at, _) in bare.iter().enumerate().filter(|(_, ready)| **ready) {
                let Some(receiver) = thread.raw.get_mut(at) else { continue };
                // A socket that does not work is left alone until something else comes.
                let (yet, _) = bare_in(half, receiver, most, now, received.packets, work).unwrap_or_default();
                more |= yet;
            }
            more && works
        });
        (until, works)
    }

    /// Take packets in at hook 1a by class, as far as the graph has room for it. Returns whether there may be more.
    fn take_by_class(
        &mut self,
        half: &mut InboundHalf,
        now: Time,
        received: &mut Received<'_>,
        work: &mut Tapped<'_>,
    ) -> Result<bool, ()> {
        let Some(mut queues) = self.queues.take() else { return Ok(false) };
        let taken = read_by_class(&mut queues, half, |queues, half, kind, (at, most)| match kind {
            SocketKind::Udp(family) => {
                self.datagrams_in(half, (family, at), most, now, received.bursts, work)
            }
            SocketKind::Raw(raw) => match queues.raw(raw) {
                Some(receiver) => bare_in(half, receiver, most, now, received.packets, work),
                None => Ok((false, 0)),
            },
            SocketKind::Frames(_) => Ok((false, 0)),
        });
        self.queues = Some(queues);
        taken
    }

    /// Take datagrams in at hook 1a with one call, at most so many unless they are joined. Returns whether there may be
    /// more, and how many there were.
    fn datagrams_in(
        &mut self,
        half: &mut InboundHalf,
        queue: (Family, usize),
        most: usize,
        now: Time,
        bursts: &mut Vec<Burst<stage::Raw>>,
        work: &mut Tapped<'_>,
    ) -> Result<(bool, usize), ()> {
        let Tapped { pool, outcomes, delivery } = work;
        let received = match self.udp.recv_bursts_of(queue, most, now, pool, bursts) {
            Ok(received) => received,
            Err(error) => {
                half.losses.broke("the UDP socket", &error);
                return Err(());
            }
        };
        half.losses.received += received.datagrams as u64;
        half.losses.count(DropReason::Truncated, received.truncated as u64);
        for burst in bursts.drain(..) {
            half.engine.receive_burst(now, burst, pool, outcomes, delivery);
        }
        half.losses.works("the UDP socket");
        Ok((received.more, received.datagrams))
    }
}

/// Take packets in by class, as far as the graph has room for it. `read` reads from a socket of a queue with one call, at
/// most so many packets; it answers whether there may be more, and how many there were. Returns whether there may be
/// more.
pub(super) fn read_by_class(
    queues: &mut SocketQueues,
    half: &mut InboundHalf,
    mut read: impl FnMut(
        &mut SocketQueues,
        &mut InboundHalf,
        SocketKind,
        (usize, usize),
    ) -> Result<(bool, usize), ()>,
) -> Result<bool, ()> {
    let graph = half.engine.graph();
    let share = share(graph.map_or(0, |graph| graph.waiting().0), graph.map_or(0, InboundGraph::last_turn));
    queues.next_round();
    let mut more = false;
    for at in 0..queues.states.count() {
        if !queues.states.is_pending(at) || !half.engine.gets_ahead(queues.states.classes(at)) {
            continue;
        }
        let room = usize::try_from(half.engine.room(queues.states.classes(at))).unwrap_or(usize::MAX);
        let most = queues.states.most(at, share).min(room);
        if most == 0 {
            continue;
        }
        let arrived = queues.states.arrived(at);
        let (mut taken, mut yet) = (0, false);
        for number in queues.sources(at) {
            let mut may_have_more = true;
            while may_have_more && taken < most {
                let Some(kind) = queues.may_have(number) else {
                    may_have_more = false;
                    break;
                };
                let (some, packets) = read(queues, half, kind, (at, most - taken))?;
                queues.states.taken(at, packets as u64);
                queues.was_read(number, some);
                taken += packets;
                may_have_more = some;
            }
            yet |= may_have_more;
        }
        if yet {
            more = true;
        } else {
            queues.states.empty(at, arrived);
        }
    }
    Ok(more)
}

/// Take bare packets in at hook 1a with one call, at most so many. Returns whether there may be more, and how many there
/// were.
fn bare_in(
    half: &mut InboundHalf,
    receiver: &mut RawReceiver,
    most: usize,
    now: Time,
    packets: &mut Vec<Packet<stage::Raw>>,
    work: &mut Tapped<'_>,
) -> Result<(bool, usize), ()> {
    let Tapped { pool, outcomes, delivery } = work;
    let received = match receiver.recv_most(most, now, pool, packets) {
        Ok(received) => received,
        Err(error) => {
            half.losses.broke("a raw socket", &error);
            return Err(());
        }
    };
    half.losses.received += received.datagrams as u64;
    half.losses.count(DropReason::Truncated, received.truncated as u64);
    for packet in packets.drain(..) {
        half.engine.receive(now, packet, pool, outcomes, delivery);
    }
    half.losses.works("a raw socket");
    Ok((received.more, received.datagrams))
}
