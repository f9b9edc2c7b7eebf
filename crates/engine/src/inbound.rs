//! The inbound half, from the wire to the host, in the order of its stages.
//!
//! 0. The fast path. A burst of datagrams that a UDP socket has put together is opened as a whole: see `burst.rs`,
//!    which says of every stage why it may be left out, or is walked through there. Everything else begins at 1.
//! 1. Outer headers. They are scrubbed first where that is wanted. Fragments (a UDP socket delivers none, a capture
//!    may) wait until their packet is whole.
//! 2. The payload behind them: ESP in UDP, or bare.
//! 3. The association, and whether the packet is from its peer. Behind it is the seam: see `crate::seam`.
//! 4. ESP: replay, ICV, trailer, inner packet.
//! 5. Inner headers. Fragments wait until their packet is whole.
//! 6. The selectors of the association. A packet that is itself one of an association with this host (a bundle) goes
//!    through stages 3 to 6 again, at most four times: see `rounds.rs` and `nest.rs`. ESP in UDP inside an association is
//!    refused.
//! 7. The services that all members together prove.
//! 8. The rules of the SPD: whether the services that the packet had are those that its rule demands. Where entries of
//!    sockets stand for policy, those are compared too: see `entries.rs`. After that, packets are scrubbed that policy
//!    wants scrubbed.
//! 9. The mark that proves all this to the kernel half.

mod bare;
mod before;
mod burst;
mod check_spd;
mod compressed;
mod control;
mod delivery;
mod entries;
mod graph;
mod later;
mod name;
mod nested;
mod opened;
mod outcome;
mod permit;
mod queued;
mod results;
mod rounds;
mod scrubbed;
mod work;

use before::{Before, about};
use check_spd::check_spd;
pub use delivery::{Delivery, Traced};
pub use graph::InboundGraph;
use nested::NestedPacket;
pub use outcome::InboundOutcome;
use outcome::deliver;
pub(crate) use outcome::unknown;
use permit::Permit;
use scrubbed::scrub;
pub use work::OpenWork;

use crate::cx::Cx;
use crate::event::Events;
use crate::nest::Members;
use crate::peer;
use crate::probes;
use crate::quoted::{self, InnerIcmp};
use crate::rules::Rules;
use crate::scrubbing::Scrubbing;
use crate::seam::{self, Turn};
use crate::stats::{About, Dropped, Stats};
use ::scrub::Scrubber;
use ipsec::Outer;
use sadb::rules::Member;
use sadb::{InboundSa, InboundSad, Mode, PerSocket, Spi};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::ip::{self, Headers};
use wire::reassembly::Limits;
use wire::stage::{Classed, Clean, Inner, Raw, Scheduled};
use wire::{DropReason, Flow, Packet, Pool, Reassembled, Reassembler, ScrubId, Services, Time, protocol};

/// The bounds for fragments of outer packets, which come here only as frames (docs/design/0016). Anybody on the way may
/// send them, so none of [`OUTER_SHARES`] sources has more than its share.
const OUTER_FRAGMENTS: Limits =
    Limits { datagrams: 256, memory: 4 << 20, timeout: std::time::Duration::from_secs(30) };
const OUTER_SHARES: usize = 16;

/// The inbound half of the engine.
pub struct Inbound {
    stages: Stages,
    stats: Stats,
    events: Events,
    /// The results for packets that came in a burst and were taken one by one.
    singly: Vec<InboundOutcome>,
}

/// The state of the stages.
struct Stages {
    sad: InboundSad,
    /// The state that only members of bundles need.
    members: Members,
    /// The policy for ICMP errors inside associations.
    icmp: InnerIcmp,
    /// The UDP port on which ESP arrives.
    port: u16,
    /// The addresses of peers whose bare IP in IP is taken. Usually there are none.
    tunnels_from: BTreeSet<IpAddr>,
    outer_fragments: Reassembler,
    inner_fragments: Reassembler,
    /// The rules for inbound packets; `None`: there are none.
    rules: Option<Rules>,
    /// The entries of sockets; `None`: the compiled policy decides, in the kernel half alone.
    entries: Option<Box<PerSocket>>,
    /// The policy and scrubbers for inner packets; `None`: nobody has said what is scrubbed, and by whom.
    scrubbing: Option<Box<Scrubbing>>,
    /// The scrubber of outer packets; `None`: they stay as they are.
    outer_scrubber: Option<Box<Scrubber>>,
    /// The packets of a burst that are themselves packets of an association with this host.
    members_waiting: Vec<(Packet<Inner>, Headers)>,
    /// The packets that wait for their turn with the next member of their bundle, and are in no queue yet.
    nested: Vec<NestedPacket>,
    /// The graph that packets wait in; `None`: they do not wait. The entries without a graph do not look at it.
    queues: Option<Box<InboundGraph>>,
}

impl Inbound {
    /// An engine without associations that takes UDP datagrams to `port` for ESP ([`ipsec::udp_encap::PORT`]).
    pub fn new(port: u16) -> Inbound {
        let stages = Stages {
            sad: InboundSad::new(),
            members: Members::new(port),
            icmp: InnerIcmp::default(),
            port,
            tunnels_from: BTreeSet::new(),
            outer_fragments: Reassembler::sharing(OUTER_FRAGMENTS, OUTER_SHARES).with_the_first_next_header(),
            inner_fragments: Reassembler::default(),
            rules: None,
            entries: None,
            scrubbing: None,
            outer_scrubber: None,
            members_waiting: Vec::new(),
            nested: Vec::new(),
            queues: None,
        };
        Inbound { stages, stats: Stats::new(), events: Events::default(), singly: Vec::new() }
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
        let Inbound { stages, stats, events, .. } = self;
        debug_assert!(stages.queues.is_none(), "with a graph, packets come by `receive`");
        stages.clean(packet, Stages::open_at_once, &mut Cx { pool, out, stats, events });
    }

    /// Take one packet all the way behind the scrubber of outer packets; see [`Inbound::handle`]. A packet that was cut
    /// out of a burst begins here: the host's own stack has read its outer headers already.
    pub fn handle_clean(
        &mut self,
        now: Time,
        mut packet: Packet<Raw>,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
    ) {
        packet.meta.received = now;
        let Inbound { stages, stats, events, .. } = self;
        debug_assert!(stages.queues.is_none(), "with a graph, packets come by `receive_clean`");
        stages.whole(packet, Stages::open_at_once, &mut Cx { pool, out, stats, events });
    }
}

/// Lend the parts of [`Stages`] that [`admit`] asks while an association of `Stages::sad` is borrowed.
macro_rules! lend {
    ($stages:expr, $around:expr) => {
        $crate::inbound::Parts {
            rules: &mut $stages.rules,
            icmp: &$stages.icmp,
            entries: $stages.entries.as_deref(),
            scrubbing: $stages.scrubbing.as_deref_mut(),
            members: &$stages.members,
            fragments: &mut $stages.inner_fragments,
            around: $around,
        }
    };
}
use lend;

impl Stages {
    /// Stage 1, and then what follows it.
    #[inline]
    fn clean(
        &mut self,
        mut packet: Packet<Raw>,
        then: impl FnOnce(&mut Stages, Packet<Raw>, &Headers, &mut Cx<'_, InboundOutcome>),
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        if let Some(scrubber) = &mut self.outer_scrubber
            && let Err((reason, rule)) = scrubbed::outer(scrubber, &mut packet)
        {
            let dropped = Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), None);
            cx.report(Dropped { scrub: rule, ..dropped });
            return cx.pool.put(packet.into_buf());
        }
        self.whole(packet, then, cx);
    }

    /// Stage 1 behind the scrubber of outer packets, and then what follows it.
    fn whole(
        &mut self,
        mut packet: Packet<Raw>,
        then: impl FnOnce(&mut Stages, Packet<Raw>, &Headers, &mut Cx<'_, InboundOutcome>),
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
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
        if headers.fragment.is_none() {
            return then(self, packet, headers, cx);
        }
        let joined = join(&mut self.outer_fragments, 0, &mut packet, headers, cx.pool);
        cx.stats.lost_fragments(self.outer_fragments.take_lost());
        match joined {
            Ok(headers) => then(self, packet, &headers, cx),
            Err(reason) => cx.discard(packet, reason, None),
        }
    }

    /// Stages 2 to 4 for one whole packet, and what follows them. It waits for nothing.
    #[inline]
    fn open_at_once(&mut self, packet: Packet<Raw>, headers: &Headers, cx: &mut Cx<'_, InboundOutcome>) {
        self.open(packet, headers, Turn::at_once(), cx);
    }

    /// Stages 2 to 4 for one whole packet that has this turn, and what follows them.
    #[inline]
    fn open(&mut self, packet: Packet<Raw>, headers: &Headers, turn: Turn, cx: &mut Cx<'_, InboundOutcome>) {
        self.open_in::<false>(packet, headers, turn, cx);
    }

    /// Stages 2 to 4 for one whole packet that has this turn, and what follows them; if `LATER`, a unit that answers
    /// later does the cipher's part of stage 4.
    #[inline]
    fn open_in<const LATER: bool>(
        &mut self,
        packet: Packet<Raw>,
        headers: &Headers,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let mut packet: Packet<Clean> = packet.advance(headers);
        if self.takes_bare(headers) {
            return self.open_bare(packet, headers, cx);
        }
        let found = Outer::find(packet.bytes(), headers, self.port);
        let outer = match &found {
            Ok(outer) => outer,
            Err(reason) => return cx.discard(packet, *reason, None),
        };
        (packet.meta.spi, packet.meta.sequence) = (outer.spi, outer.sequence.into());
        let sa = match association(&mut self.sad, outer) {
            Ok(sa) => sa,
            Err(reason) => {
                cx.report(Dropped::new(reason, &about(&packet, outer), packet.bytes().len(), None));
                return cx.pool.put(packet.into_buf());
            }
        };
        packet.meta.app = sa.config().selectors.app.unwrap_or_default();

        let before = Before::of(sa, &packet, outer);
        let packet: Packet<Classed> = packet.advance(&*sa);
        let packet: Packet<Scheduled> = seam::schedule_received(packet, turn);
        if LATER {
            return self.prepare_later(packet, outer, before, cx);
        }
        let opened = ipsec::decap(sa, packet, outer, cx.pool);
        let nested = after_opening(sa, opened, outer, &before, lend!(self, &[]), cx);
        if let Some((packet, headers)) = nested {
            let name = sa.name();
            self.nest(packet, headers, name, cx);
        }
    }
}

/// What follows stage 4. Returns the packet if it is itself one of an association with this host.
#[inline]
fn after_opening(
    sa: &mut InboundSa,
    opened: Result<Packet<Inner>, DropReason>,
    outer: &Outer,
    before: &Before,
    parts: Parts<'_>,
    cx: &mut Cx<'_, InboundOutcome>,
) -> Option<(Packet<Inner>, Headers)> {
    if !before.is_settled && matches!(opened, Ok(_) | Err(DropReason::EspDummy)) {
        peer::notice(sa, outer, before.top, cx.events);
    }
    match opened {
        Ok(packet) => admit(sa, packet, parts, cx),
        Err(reason) => {
            if reason == DropReason::EspDummy {
                probes::hear(before.about.at, sa, cx.events);
            }
            cx.report(Dropped::new(reason, &before.about, before.len, None));
            None
        }
    }
}

/// Stage 3: the association of a packet, if its peer sent it.
fn association<'a>(sad: &'a mut InboundSad, outer: &Outer) -> Result<&'a mut InboundSa, DropReason> {
    let sa = sad.find_mut(Spi(outer.spi), outer.src, outer.dst).ok_or(unknown(outer.spi))?;
    // The peer's port is not compared: a NAT may change it at any time, and the ICV proves more.
    if sa.is_peer(outer.src, outer.dst, None) || sa.may_have_moved(outer.src, outer.dst) {
        Ok(sa)
    } else {
        sa.counters.dropped(DropReason::WrongPeer);
        Err(DropReason::WrongPeer)
    }
}

/// The parts of the inbound half that stages 6 to 8 ask.
struct Parts<'a> {
    rules: &'a mut Option<Rules>,
    icmp: &'a InnerIcmp,
    entries: Option<&'a PerSocket>,
    scrubbing: Option<&'a mut Scrubbing>,
    members: &'a Members,
    fragments: &'a mut Reassembler,
    /// The associations that the packet came out of before, the outermost first.
    around: &'a [Member],
}

/// Stages 5 to 9. Returns the packet if it is itself one of an association with this host.
fn admit(
    sa: &mut InboundSa,
    mut packet: Packet<Inner>,
    mut parts: Parts<'_>,
    cx: &mut Cx<'_, InboundOutcome>,
) -> Option<(Packet<Inner>, Headers)> {
    let parsed = Headers::parse(packet.bytes());
    let headers = match &parsed {
        Ok(headers) => headers,
        Err(error) => {
            cx.discard(packet, (*error).into(), None);
            return None;
        }
    };
    packet.buf_mut().truncate(headers.total_len);
    if !ip::checksum_ok(packet.bytes(), headers) {
        sa.counters.dropped(DropReason::BadChecksum);
        cx.discard(packet, DropReason::BadChecksum, None);
        return None;
    }
    let mut flow = ip::flow(packet.bytes(), headers, false);
    let mut joined_headers = None;
    let answer = if headers.fragment.is_none() {
        check_inner(sa, &mut parts, &mut packet, headers, &flow)
    } else {
        let joined = join_inner(sa, &mut packet, headers, &flow, parts.fragments, cx.pool);
        cx.stats.lost_fragments(parts.fragments.take_lost());
        joined.and_then(|headers| {
            flow = ip::flow(packet.bytes(), &headers, false);
            check_inner(sa, &mut parts, &mut packet, joined_headers.insert(headers), &flow)
        })
    };
    match answer {
        Ok(None) => {
            let headers = joined_headers.unwrap_or(*headers);
            return Some((packet, headers));
        }
        Ok(Some(permit)) => {
            let app = sa.config().selectors.app.unwrap_or_default();
            if let Some(scrubbing) = parts.scrubbing.as_deref_mut() {
                packet.meta.scrub = packet.meta.scrub.max(scrubbing.profile(app, &flow));
            }
            if packet.meta.scrub != ScrubId::NONE && packet.meta.services == Services::NONE {
                // Its octets would be what the scrubber holds a protected flow with the same addresses to.
                sa.counters.dropped(DropReason::Scrubbed);
                cx.discard(packet, DropReason::Scrubbed, Some(&flow));
            } else if packet.meta.scrub != ScrubId::NONE {
                scrub(sa, app, parts.scrubbing, (packet, permit), &flow, cx);
            } else {
                deliver(packet, permit, cx);
            }
        }
        Err(reason) => {
            sa.counters.dropped(reason);
            cx.discard(packet, reason, Some(&flow));
        }
    }
    None
}

/// Stages 6 and 8. `None`: the packet is itself one of an association with this host. Rules see only what is at the end
/// of a bundle, with the services of all its members.
#[inline]
fn check_inner(
    sa: &InboundSa,
    parts: &mut Parts<'_>,
    packet: &mut Packet<Inner>,
    headers: &Headers,
    flow: &Flow,
) -> Result<Option<Permit>, DropReason> {
    let nested = check_selectors(sa, parts.icmp, packet.bytes(), headers, flow, parts.members)?;
    if nested {
        return Ok(None);
    }
    if packet.meta.services == Services::CUSTOM {
        packet.meta.services = vouched(sa, parts.around, flow);
    }
    check_spd(parts.rules, sa, parts.around, packet, headers)?;
    crate::entries::accept(parts.entries, flow, packet.meta.services, packet.meta.received)?;
    Ok(Some(Permit::granted()))
}

/// What a packet under a cipher of one's own counts as. The policy of sockets is held against the remote selectors of
/// such associations (`Spd::rival_suite`), so one vouches for peers of its selectors alone: not for whatever a tunnel
/// inside of it carries, nor for an ICMP error from a router that only what it quotes lets in.
#[cold]
fn vouched(sa: &InboundSa, around: &[Member], flow: &Flow) -> Services {
    let own = Member::from(sa.config());
    let mut members = std::iter::once(&own).chain(around);
    let vouches =
        |member: &Member| member.services() == Services::CUSTOM && member.remote().contains(flow.remote);
    if members.any(vouches) { Services::CUSTOM } else { Services::AUTHENTICATED }
}

/// Stage 6: check that this association may carry the packet. Returns whether the packet is itself one of an
/// association with this host.
fn check_selectors(
    sa: &InboundSa,
    icmp: &InnerIcmp,
    bytes: &[u8],
    headers: &Headers,
    flow: &Flow,
    members: &Members,
) -> Result<bool, DropReason> {
    let nested = members.is_next(sa.config().mode, headers, flow)?;
    match quoted::admits(icmp, sa, bytes, headers, flow) {
        // What is compressed shows neither protocol nor ports yet: `Inbound::nest` asks again.
        Err(_) if nested && headers.protocol == protocol::IPCOMP && has_ends(sa, flow) => {}
        answer => answer?,
    }
    if headers.has_options && sa.config().mode == Mode::Tunnel {
        ends_inside(sa, ip::final_destination(bytes, headers)?)?;
    }
    Ok(nested)
}

/// Check that the selectors of the association also allow the end of a source route inside a tunnel, since the sender
/// asks them about that end.
#[cold]
fn ends_inside(sa: &InboundSa, last: IpAddr) -> Result<(), DropReason> {
    let inside = sa.config().effective_selectors().local.contains(last);
    if inside { Ok(()) } else { Err(DropReason::SelectorMismatch) }
}

/// Whether the association carries packets between these hosts.
#[cold]
fn has_ends(sa: &InboundSa, flow: &Flow) -> bool {
    let selectors = sa.config().effective_selectors();
    selectors.remote.contains(flow.remote) && selectors.local.contains(flow.local)
}

/// Stage 5 for a fragment. Whoever may not send whole packets here may not send pieces of them either, and pieces of
/// different associations never make one packet.
#[cold]
fn join_inner(
    sa: &InboundSa,
    packet: &mut Packet<Inner>,
    headers: &Headers,
    flow: &Flow,
    fragments: &mut Reassembler,
    pool: &mut Pool,
) -> Result<Headers, DropReason> {
    if !has_ends(sa, flow) {
        return Err(DropReason::SelectorMismatch);
    }
    join(fragments, sa.context(), packet, headers, pool)
}

/// Put the whole packet in place of its last fragment.
#[cold]
fn join<S>(
    fragments: &mut Reassembler,
    context: u32,
    packet: &mut Packet<S>,
    headers: &Headers,
    pool: &mut Pool,
) -> Result<Headers, DropReason> {
    match fragments.push(packet.meta.received, context, packet.bytes(), headers, pool) {
        Reassembled::Incomplete => Err(DropReason::FragmentHeld),
        Reassembled::Rejected(reason) => Err(reason),
        Reassembled::Complete(whole) => {
            pool.put(std::mem::replace(packet.buf_mut(), whole));
            Ok(Headers::parse(packet.bytes())?)
        }
    }
}
