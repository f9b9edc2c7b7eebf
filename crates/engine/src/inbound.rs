//! Inbound, from the wire to the host: the order of the stages.
//!
//! 1. Outer headers. Fragments (a UDP socket delivers none, a capture may) wait until their packet is whole.
//! 2. What is behind them: ESP in UDP, or bare.
//! 3. The association, and whether the packet is from its peer.
//! 4. ESP: replay, ICV, trailer, inner packet.
//! 5. Inner headers. Fragments wait until their packet is whole.
//! 6. ESP inside ESP for this host is refused: to open it, a decrypted packet would have to walk in at the front door.
//! 7. The selectors of the association.
//! 8. The mark that proves all this to the kernel half.

mod burst;
mod delivery;

pub use delivery::Delivery;

use crate::event::{Event, Events, Expire};
use crate::tally::{About, Dropped, Tally};
use ipsec::Outer;
use sadb::sa::{InboundState, LifeState};
use sadb::{Direction, InboundSa, InboundSad, SadError, Spi};
use wire::ip::{self, Headers};
use wire::stage::{Admitted, Classed, Clean, Inner, Raw};
use wire::{DropReason, Flow, Packet, Pool, Reassembled, Reassembler, Time, Verdict, protocol};

/// What became of an inbound packet.
#[derive(Debug)]
pub enum InboundOutcome {
    /// For the host, through the TUN with this mark.
    Deliver(Packet<Admitted>, u32),
    /// Ended here.
    Drop(Dropped),
}

/// The inbound half of the engine.
pub struct Inbound {
    sad: InboundSad,
    /// The UDP port on which ESP arrives.
    port: u16,
    outer_fragments: Reassembler,
    inner_fragments: Reassembler,
    events: Events,
    tally: Tally,
    /// What became of packets that came in a burst and were taken one by one.
    singly: Vec<InboundOutcome>,
}

impl Inbound {
    /// An engine without associations that takes UDP datagrams to `port` for ESP ([`ipsec::udp_encap::PORT`]).
    pub fn new(port: u16) -> Inbound {
        Inbound {
            sad: InboundSad::new(),
            port,
            outer_fragments: Reassembler::default(),
            inner_fragments: Reassembler::default(),
            events: Events::default(),
            tally: Tally::new(),
            singly: Vec::new(),
        }
    }

    /// Take one packet all the way. Its outcome is appended to `out`; buffers come from `pool` and go back to it.
    pub fn handle(
        &mut self,
        now: Time,
        mut packet: Packet<Raw>,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
    ) {
        packet.meta.received = now;
        // Not moved out of the result: the headers are many, and every packet would pay for the copy.
        let parsed = Headers::parse(packet.bytes());
        let headers = match &parsed {
            Ok(headers) => headers,
            Err(error) => return end(&mut self.tally, packet, (*error).into(), None, pool, out),
        };
        packet.buf_mut().truncate(headers.total_len);
        if headers.fragment.is_none() {
            return self.open(now, packet, headers, pool, out);
        }
        let joined = join(&mut self.outer_fragments, now, 0, &mut packet, headers, pool);
        self.tally.lost(DropReason::FragmentLimit, self.outer_fragments.take_lost());
        match joined {
            Ok(headers) => self.open(now, packet, &headers, pool, out),
            Err(reason) => end(&mut self.tally, packet, reason, None, pool, out),
        }
    }

    /// Stages 2 to 4.
    #[inline]
    fn open(
        &mut self,
        now: Time,
        packet: Packet<Raw>,
        headers: &Headers,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
    ) {
        let tally = &mut self.tally;
        let mut packet: Packet<Clean> = packet.advance();
        let found = Outer::find(packet.bytes(), headers, self.port);
        let outer = match &found {
            Ok(outer) => outer,
            Err(reason) => return end(tally, packet, *reason, None, pool, out),
        };
        (packet.meta.spi, packet.meta.sequence) = (outer.spi, outer.sequence.into());
        let sa = match association(&mut self.sad, outer) {
            Ok(sa) => sa,
            Err(reason) => return end(tally, packet, reason, None, pool, out),
        };
        packet.meta.app = sa.config().selectors.app.unwrap_or_default();

        let packet: Packet<Classed> = packet.advance();
        let (about, len) = (About::of(&packet.meta), packet.bytes().len());
        match ipsec::decap(sa, packet.advance(), outer, pool) {
            Verdict::Pass(packet) => {
                admit(sa, now, packet, &mut self.inner_fragments, self.port, tally, pool, out)
            }
            Verdict::Drop(reason) | Verdict::Reply(_, reason) => {
                record(tally, Dropped::new(reason, &about, len, None), out);
            }
            // ESP holds nothing.
            Verdict::Hold(_) => record(tally, Dropped::new(DropReason::UnknownSpi, &about, len, None), out),
        }
    }
}

/// Stage 3.
fn association<'a>(sad: &'a mut InboundSad, outer: &Outer) -> Result<&'a mut InboundSa, DropReason> {
    let sa = sad.get_mut(Spi(outer.spi)).ok_or(DropReason::UnknownSpi)?;
    // The peer's port is not compared: a NAT may change it at any time, and the ICV proves more.
    if sa.is_peer(outer.src, outer.dst, None) {
        Ok(sa)
    } else {
        sa.counters.dropped(DropReason::WrongPeer);
        Err(DropReason::WrongPeer)
    }
}

/// Stages 5 to 8.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of `Inbound` that are not lent with `sa`, and the packet"
)]
fn admit(
    sa: &mut InboundSa,
    now: Time,
    mut packet: Packet<Inner>,
    fragments: &mut Reassembler,
    port: u16,
    tally: &mut Tally,
    pool: &mut Pool,
    out: &mut Vec<InboundOutcome>,
) {
    let parsed = Headers::parse(packet.bytes());
    let headers = match &parsed {
        Ok(headers) => headers,
        Err(error) => return end(tally, packet, (*error).into(), None, pool, out),
    };
    packet.buf_mut().truncate(headers.total_len);
    let mut flow = ip::flow(packet.bytes(), headers, false);
    let answer = if headers.fragment.is_none() {
        permit(sa, headers, &flow, port)
    } else {
        let joined = join_inner(sa, now, &mut packet, headers, &flow, fragments, pool);
        tally.lost(DropReason::FragmentLimit, fragments.take_lost());
        joined.and_then(|headers| {
            flow = ip::flow(packet.bytes(), &headers, false);
            permit(sa, &headers, &flow, port)
        })
    };
    match answer {
        Ok(()) => {
            tally.protected.count(packet.bytes().len());
            let mark = crate::mark(packet.meta.services, packet.meta.app);
            out.push(InboundOutcome::Deliver(packet.advance(), mark));
        }
        Err(reason) => {
            sa.counters.dropped(reason);
            end(tally, packet, reason, Some(&flow), pool, out);
        }
    }
}

/// Stages 6 and 7: whether this association may carry the packet.
fn permit(sa: &InboundSa, headers: &Headers, flow: &Flow, port: u16) -> Result<(), DropReason> {
    let esp =
        headers.protocol == protocol::ESP || headers.protocol == protocol::UDP && flow.local_port == port;
    if esp && headers.dst == sa.config().endpoints.local {
        return Err(DropReason::NestingLimit);
    }
    sa.admits(flow)
}

/// Stage 5 for a fragment: who may not send whole packets here may not send pieces of them either, and pieces of
/// different associations never make one packet.
#[cold]
fn join_inner(
    sa: &InboundSa,
    now: Time,
    packet: &mut Packet<Inner>,
    headers: &Headers,
    flow: &Flow,
    fragments: &mut Reassembler,
    pool: &mut Pool,
) -> Result<Headers, DropReason> {
    let selectors = sa.config().effective_selectors();
    if !selectors.remote.contains(flow.remote) || !selectors.local.contains(flow.local) {
        return Err(DropReason::SelectorMismatch);
    }
    join(fragments, now, sa.spi().0, packet, headers, pool)
}

/// The whole packet in place of its last fragment.
#[cold]
fn join<S>(
    fragments: &mut Reassembler,
    now: Time,
    context: u32,
    packet: &mut Packet<S>,
    headers: &Headers,
    pool: &mut Pool,
) -> Result<Headers, DropReason> {
    match fragments.push(now, context, packet.bytes(), headers, pool) {
        Reassembled::Incomplete => Err(DropReason::FragmentHeld),
        Reassembled::Rejected(reason) => Err(reason),
        Reassembled::Complete(whole) => {
            pool.put(std::mem::replace(packet.buf_mut(), whole));
            Ok(Headers::parse(packet.bytes())?)
        }
    }
}

/// The packet ends here and its buffer goes back.
#[cold]
fn end<S>(
    tally: &mut Tally,
    packet: Packet<S>,
    reason: DropReason,
    flow: Option<&Flow>,
    pool: &mut Pool,
    out: &mut Vec<InboundOutcome>,
) {
    record(tally, Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), flow), out);
    pool.put(packet.into_buf());
}

fn record(tally: &mut Tally, dropped: Dropped, out: &mut Vec<InboundOutcome>) {
    tally.dropped(dropped);
    out.push(InboundOutcome::Drop(dropped));
}

/// The control plane's verbs.
impl Inbound {
    /// Choose and hold an SPI for a peer to send to; see [`InboundSad::allocate_spi`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate_spi(&mut self, random: u32) -> Result<Spi, SadError> {
        self.sad.allocate_spi(random)
    }

    /// Give up an SPI that was allocated and not used.
    pub fn release_spi(&mut self, spi: Spi) {
        self.sad.release_spi(spi);
    }

    /// Add an association.
    ///
    /// # Errors
    /// As [`InboundSad::insert`].
    pub fn add_sa(&mut self, sa: InboundSa) -> Result<(), SadError> {
        self.sad.insert(sa)
    }

    /// Take an association out.
    ///
    /// # Errors
    /// As [`InboundSad::remove`].
    pub fn remove_sa(&mut self, spi: Spi) -> Result<InboundSa, SadError> {
        self.sad.remove(spi)
    }

    /// The associations with their counters.
    pub fn sad(&self) -> &InboundSad {
        &self.sad
    }

    /// Every association with its key and replay window, for another daemon.
    pub fn export(&self) -> Vec<InboundState> {
        self.sad.list().map(InboundSa::export).collect()
    }

    /// Counters and latest drops.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next event for key managers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Events that found no room since the last call.
    pub fn take_lost_events(&mut self) -> u64 {
        self.events.take_lost()
    }

    /// Let go of fragments whose packet did not complete in time, and of associations behind a hard limit. Call about
    /// once a second.
    pub fn expire(&mut self, now: Time) {
        let mut dead = Vec::new();
        for sa in self.sad.list_mut() {
            if let Some(state) = sa.age(now) {
                let spi = sa.spi();
                self.events.push(Event::Expire(Expire {
                    spi,
                    direction: Direction::Inbound,
                    remote: sa.config().endpoints.remote,
                    state,
                    packets: sa.counters.packets,
                    bytes: sa.counters.bytes,
                }));
                if state == LifeState::Dead {
                    dead.push(spi);
                }
            }
        }
        for spi in dead {
            // Just found, so it is there.
            let _ = self.sad.remove(spi);
        }
        for fragments in [&mut self.outer_fragments, &mut self.inner_fragments] {
            fragments.expire(now);
            self.tally.lost(DropReason::FragmentLimit, fragments.take_lost());
        }
    }
}
