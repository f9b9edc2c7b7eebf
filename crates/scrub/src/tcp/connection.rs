//! One connection: the record of what each end has sent, and the paper's states (paper 003 Figure 2).

mod established;
mod fast_path;
pub(super) mod idle;

use super::segment::{Options, Segment};
use super::seq;
use super::store::{Arena, Store};
use crate::config::{Config, Protect};
use crate::rule::Rule;
use crate::verdict::{Context, Job, Side, Stop};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use wire::ip::Headers;
use wire::plain::PlainSegment;
use wire::tcp::{Flags, TcpOption};
use wire::{Buf, Time};

/// The state of a connection (paper 003 section III.B.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum State {
    /// A SYN has passed.
    Init,
    /// The SYN was answered.
    Init2,
    /// The answer was acknowledged, so data pass.
    Estab,
    /// One end has sent its FIN.
    Close,
    /// Both FINs were acknowledged, or a reset passed.
    Closed,
}

impl State {
    /// The word of the paper for the state.
    pub const fn name(self) -> &'static str {
        match self {
            State::Init => "INIT",
            State::Init2 => "INIT2",
            State::Estab => "ESTAB",
            State::Close => "CLOSE",
            State::Closed => "CLOSED",
        }
    }
}

/// The two ends: the address outside, the one inside (four words each), the ports outside and inside, the realm. IPv4
/// addresses are in their mapped form, which is on no wire.
#[derive(Clone, Copy, Debug, Eq)]
pub(super) struct Ends([u32; 10]);

impl PartialEq for Ends {
    #[inline]
    fn eq(&self, other: &Ends) -> bool {
        // Word by word: one of the two has just been made of words, and to read it in wider pieces would have to wait for them.
        let [a, b, c, d, e, f, g, h, ports, realm] = self.0;
        let [i, j, k, l, m, n, o, p, others, elsewhere] = other.0;
        let [one, two] = [(a ^ i) | (b ^ j) | (c ^ k) | (d ^ l), (e ^ m) | (f ^ n) | (g ^ o) | (h ^ p)];
        one | two | (ports ^ others) | (realm ^ elsewhere) == 0
    }
}

/// The three words in front of an IPv4 address in its mapped form.
const MAPPED: [u32; 3] = [0, 0, 0xffff];

impl std::hash::Hash for Ends {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ports, realm] = self.0.map(u64::from);
        for pair in [a << 32 | b, c << 32 | d, e << 32 | f, g << 32 | h, ports << 32 | realm] {
            state.write_u64(pair);
        }
    }
}

fn words(address: IpAddr) -> [u32; 4] {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let (words, _) = octets.as_chunks::<4>();
    std::array::from_fn(|at| u32::from_be_bytes(words[at]))
}

impl Ends {
    #[inline]
    fn from_words([a, b, c, d]: [u32; 4], [e, f, g, h]: [u32; 4], ports: (u16, u16)) -> Ends {
        Ends([a, b, c, d, e, f, g, h, u32::from(ports.0) << 16 | u32::from(ports.1), 0])
    }

    /// The ends of a packet with these headers.
    pub fn of(headers: &Headers, ports: (u16, u16), from: Side) -> Ends {
        let (source, destination) = ((headers.src, ports.0), (headers.dst, ports.1));
        match from {
            Side::Outside => Ends::new(source, destination),
            Side::Inside => Ends::new(destination, source),
        }
    }

    /// The ends of a segment that was read in one go.
    #[inline]
    pub fn plain(segment: &PlainSegment<'_>, from: Side) -> Ends {
        let [source, destination] = segment.addresses();
        let [src, dst] = segment.ports();
        match from {
            Side::Outside => Ends::from_words(source, destination, (src, dst)),
            Side::Inside => Ends::from_words(destination, source, (dst, src)),
        }
    }

    pub fn new(outside: (IpAddr, u16), inside: (IpAddr, u16)) -> Ends {
        Ends::from_words(words(outside.0), words(inside.0), (outside.1, inside.1))
    }

    /// The ends of the same packet if it came from the other side.
    pub fn turned(&self) -> Ends {
        let [a, b, c, d, e, f, g, h, ports, realm] = self.0;
        Ends([e, f, g, h, a, b, c, d, ports.rotate_left(16), realm])
    }

    /// The same ends in another realm.
    #[inline]
    pub fn in_realm(mut self, realm: u32) -> Ends {
        self.0[9] = realm;
        self
    }

    /// The realm of both ends.
    pub fn realm(&self) -> u32 {
        self.0[9]
    }

    fn address(&self, side: Side) -> [u32; 4] {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        if side == Side::Outside { [a, b, c, d] } else { [e, f, g, h] }
    }

    /// The address and port of the end on that side.
    pub fn end(&self, side: Side) -> SocketAddr {
        let [a, b, c, d] = self.address(side).map(u128::from);
        let port = if side == Side::Outside { self.0[8] >> 16 } else { self.0[8] & 0xffff };
        SocketAddr::new(Ipv6Addr::from(a << 96 | b << 64 | c << 32 | d).to_canonical(), port as u16)
    }

    /// The source that is counted for a connection that this side opens: an address, an IPv6 /64.
    pub fn source(&self, side: Side) -> [u32; 4] {
        let [a, b, c, d] = self.address(side);
        if [a, b, c] == MAPPED { [a, b, c, d] } else { [a, b, 0, 0] }
    }

    /// A number for a place in a cache. It is not secret, so nothing may rest on it.
    #[inline]
    pub fn place(&self) -> usize {
        let mixed = self.0[3] ^ self.0[7].rotate_left(7) ^ self.0[8].wrapping_mul(0x9e37_79b1);
        (mixed ^ mixed >> 16) as usize
    }
}

/// The state of what one end has sent, as far as every segment is compared with it. (`una`, `nxt` are the names of RFC
/// 9293 section 3.3.1.)
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Half {
    /// The first number that the other end has not acknowledged.
    pub una: u32,
    /// The number behind the last octet that went on.
    pub nxt: u32,
    /// The number behind the last octet in front of the first hole.
    pub next: u32,
    /// The right edge of the other end's window.
    pub edge: u32,
    /// The timestamp that the receiver keeps (RFC 7323 section 4.3).
    pub ts_recent: u32,
    /// The latest timestamp that this end sent.
    pub ts_latest: u32,
    /// The time at which `ts_recent` was taken, in seconds.
    pub ts_second: u32,
    /// The largest window that this end has offered, in octets.
    pub max_window: u32,
    pub ttl: u8,
    pub scale: u8,
    pub end_flags: EndFlags,
}

/// The numbers of the first and the last segment of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// The sequence number of the SYN.
    pub isn: u32,
    /// The sequence number of the FIN.
    pub fin: u32,
}

/// The set of things that one end's segments have said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct EndFlags(u16);

impl EndFlags {
    pub const SYN: u16 = 1;
    pub const FIN: u16 = 2;
    pub const SCALE: u16 = 4;
    pub const SACK: u16 = 8;
    pub const TIMESTAMPS: u16 = 16;
    pub const ECN: u16 = 32;
    pub const SIGNED: u16 = 64;
    pub const MSS: u16 = 128;
    /// The end answered a SYN with the acknowledgment of something else, [`Half::una`]: it has an old connection there.
    pub const ELSEWHERE: u16 = 256;
    /// A reset of this end passed, so it may only reset again.
    pub const RESET: u16 = 512;
    /// The other end has acknowledged something of this one, in a connection that was picked up.
    pub const HEARD: u16 = 1024;
    /// The inside host's numbers are others outside ([`Connection::shift`]); both halves of the connection have this
    /// flag.
    pub const SHIFTED: u16 = 2048;

    pub fn has(self, what: u16) -> bool {
        self.0 & what != 0
    }

    pub fn add(&mut self, what: u16, is: bool) {
        if is {
            self.0 |= what;
        }
    }

    fn set(&mut self, what: u16, is: bool) {
        self.0 = if is { self.0 | what } else { self.0 & !what };
    }
}

/// The record of one connection. Its fields are in this order because none of a million is in any cache: two lines of
/// 64 octets, or three, hold all that a plain segment is compared with (`expect`), and the fields behind them are left
/// alone.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Connection {
    pub ends: Ends,
    pub halves: [Half; 2],
    /// The time of its last segment, in milliseconds.
    pub last: u32,
    pub state: State,
    /// The number of probes that were sent since it is silent.
    pub probes: u8,
    /// Whether it changed and a standby was not told yet.
    pub news: bool,
    /// Whether its start was not seen.
    pub picked_up: bool,
    pub stores: [Option<Box<Store>>; 2],
    pub bounds: [Bounds; 2],
    pub mss: [u16; 2],
    /// The distance by which the inside host's numbers are behind those that stand for them outside (rule Q.4). All
    /// numbers that are kept here are its own.
    pub shift: u32,
    /// The time of the last challenge, in milliseconds.
    pub challenged: u32,
    /// The neighbours in the list that it is in.
    pub links: [u32; 2],
    /// The slot of the wheel that it is in.
    pub slot: u16,
    pub opener: Side,
}

/// Whether the handshake of a connection in this state is not done.
pub(super) fn is_half_open(state: State) -> bool {
    matches!(state, State::Init | State::Init2)
}

/// The time in milliseconds, which wraps every seven weeks.
pub(super) fn millis(now: Time) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// The time in whole seconds.
pub(super) fn seconds(now: Time) -> u32 {
    (now.0 / 1_000_000_000) as u32
}

/// The number of octets that a SYN may have brought along where it was not seen.
const OPENING: u32 = 1460;

pub(super) fn protects(config: &Config, to: Side) -> bool {
    to == Side::Inside || config.protect == Protect::Both
}

/// The parts beside the connection that the work on a segment needs.
pub(super) struct Work<'w, 'c, 'd> {
    pub job: &'w mut Job<'c>,
    pub context: &'w mut Context<'d>,
    pub arena: &'w mut Arena,
    pub buf: &'w mut Buf,
    pub headers: &'w mut Headers,
    pub segment: Segment,
    /// The distance by which the inside host's numbers are to be behind those outside (rule Q.4).
    pub shift: u32,
}

impl Work<'_, '_, '_> {
    pub fn from(&self) -> Side {
        self.context.arrival.from
    }

    pub fn now(&self) -> Time {
        self.context.now
    }
}

impl Connection {
    /// A connection that `opener` opens; [`Connection::segment`] follows.
    pub fn new(ends: Ends, opener: Side, now: Time) -> Connection {
        Connection {
            ends,
            halves: [Half::default(); 2],
            stores: [None, None],
            bounds: [Bounds::default(); 2],
            mss: [0; 2],
            shift: 0,
            last: millis(now),
            challenged: millis(now).wrapping_sub(u32::MAX / 2),
            links: [u32::MAX; 2],
            slot: u16::MAX,
            state: State::Init,
            opener,
            picked_up: false,
            probes: 0,
            news: false,
        }
    }

    /// A connection whose start was not seen, so that everything about its windows is believed (rule Q.14).
    pub fn picked_up(ends: Ends, segment: &Segment, from: Side, now: Time) -> Connection {
        let mut connection = Connection::new(ends, from, now);
        connection.state = State::Estab;
        connection.picked_up = true;
        let widest = u32::from(u16::MAX) << super::segment::MOST_SCALE;
        for (side, at) in [(from, segment.seq), (from.other(), segment.ack)] {
            connection.bounds_mut(side).isn = at.wrapping_sub(1);
            let half = connection.half_mut(side);
            *half = Half {
                una: at,
                nxt: at,
                next: at,
                edge: at.wrapping_add(widest),
                max_window: widest,
                scale: super::segment::MOST_SCALE,
                ..Half::default()
            };
            half.end_flags.add(EndFlags::SYN | EndFlags::SCALE | EndFlags::SACK, true);
        }
        connection
    }

    pub fn half(&self, side: Side) -> &Half {
        &self.halves[side.index()]
    }

    pub fn half_mut(&mut self, side: Side) -> &mut Half {
        &mut self.halves[side.index()]
    }

    pub fn bounds(&self, side: Side) -> &Bounds {
        &self.bounds[side.index()]
    }

    pub fn bounds_mut(&mut self, side: Side) -> &mut Bounds {
        &mut self.bounds[side.index()]
    }

    /// Set another shift for the inside host's numbers.
    pub fn set_shift(&mut self, shift: u32) {
        self.shift = shift;
        self.halves.iter_mut().for_each(|half| half.end_flags.set(EndFlags::SHIFTED, shift != 0));
    }

    /// Rule Q.4: the shift of the inside host's numbers from its SYN on. It is that of the connection before, if there
    /// was one, so that numbers go on outside where they go on inside.
    fn shift_of_syn(&self, work: &mut Work<'_, '_, '_>) -> u32 {
        let shift = if self.shift == 0 { work.shift } else { self.shift };
        let modulates = !work.segment.options.signed && work.job.acts(Rule::IsnModulation);
        if modulates { shift } else { 0 }
    }

    /// Rule Q.4: in a segment from outside, replace the inside host's outer numbers by those that the host knows.
    pub fn shift_in(&self, work: &mut Work<'_, '_, '_>) {
        if work.from() == Side::Outside && self.shift != 0 {
            work.segment.shift_ack(work.job, work.buf, work.headers, self.shift.wrapping_neg());
        }
    }

    /// Rule Q.4: in a segment from inside, replace its own number by the one that stands for it outside.
    pub fn shift_out(&self, work: &mut Work<'_, '_, '_>) {
        if work.from() == Side::Inside && self.shift != 0 {
            work.segment.shift_seq(work.job, work.buf, work.headers, self.shift);
        }
    }

    /// Whether both ends have said this.
    pub fn agreed(&self, what: u16) -> bool {
        self.halves.iter().all(|half| half.end_flags.has(what))
    }

    /// The number of octets that a window field of that end stands for.
    pub fn window_of(&self, side: Side, field: u16) -> u32 {
        let shift = if self.agreed(EndFlags::SCALE) { self.half(side).scale } else { 0 };
        u32::from(field) << shift
    }

    /// Words of those lines of memory that a plain segment is compared with (its stores may begin on one more). Reading
    /// them brings the lines into the cache.
    #[inline]
    pub fn first_words(&self) -> u32 {
        self.ends.0[0] ^ self.halves[0].una ^ self.halves[1].una ^ self.last
    }

    /// Check one segment of the connection, and take it in.
    pub fn segment(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let from = work.from();
        let flags = work.segment.flags;
        let over = self.state == State::Closed;
        match self.state {
            State::Init | State::Init2 if flags.contains(Flags::SYN) => self.opening(work)?,
            State::Init if flags.contains(Flags::RST) => self.refused(work)?,
            State::Init if self.is_elsewhere(&work.segment, from) => {
                let at = work.segment.ack;
                self.bounds_mut(from).isn = at.wrapping_sub(1);
                let half = self.half_mut(from);
                (half.una, half.nxt, half.next, half.edge) = (at, at, at, at);
                half.end_flags.add(EndFlags::ELSEWHERE, true);
            }
            State::Init => return work.job.refuse(Rule::Handshake),
            State::Init2 if flags.contains(Flags::RST) => self.reset(work)?,
            State::Init2 => {
                let (answer, edge) = (self.half(from.other()).nxt, self.half(from.other()).edge);
                let ack = work.segment.ack;
                // Where packets may have passed unseen, the answer's own acknowledgment may be one of them, and data behind the answer, too.
                let later = work.job.config.may_miss && seq::before(answer, ack) && !seq::before(edge, ack);
                let fits = from == self.opener && flags.contains(Flags::ACK) && (ack == answer || later);
                if !fits {
                    work.job.refuse(Rule::Handshake)?;
                }
                self.established(work)?;
                if fits {
                    self.state = State::Estab;
                }
                self.after_established();
            }
            State::Estab | State::Close | State::Closed => {
                if flags.contains(Flags::RST) {
                    self.reset(work)?;
                } else if flags.contains(Flags::SYN) {
                    self.syn_inside(work)?;
                } else {
                    self.lives(work)?;
                    self.established(work)?;
                    self.after_established();
                }
            }
        }
        let half = self.half_mut(from);
        half.ttl = half.ttl.max(work.headers.ttl);
        // What comes behind the end puts the next beginning off no further.
        if !over {
            self.last = millis(work.now());
        }
        self.probes = 0;
        Ok(())
    }

    /// Check that the sender may say anything: it has not reset the connection, which some reader or the receiver may
    /// have heard and another not, and both ends have opened it at all.
    fn lives(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (own, other) = (self.half(work.from()), self.half(work.from().other()));
        if own.end_flags.has(EndFlags::RESET) {
            work.job.refuse(Rule::ResetExact)?;
        }
        if !own.end_flags.has(EndFlags::SYN) || !other.end_flags.has(EndFlags::SYN) {
            work.job.refuse(Rule::Handshake)?;
        }
        Ok(())
    }

    /// Check a SYN before the connection is established.
    fn opening(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (from, segment) = (work.from(), work.segment);
        let answers = segment.flags.contains(Flags::ACK);
        if from == self.opener && answers {
            return work.job.refuse(Rule::Handshake);
        }
        if from != self.opener && !answers {
            return work.job.refuse(Rule::SplitHandshake);
        }
        if answers {
            // With data in the SYN (rule O.7) the answer says how much of them it takes.
            let may_miss = work.job.config.may_miss;
            let opener = self.half(self.opener);
            // Data of the SYN that was cut off here (rule T.7) arrived all the same beside a capture.
            let most = if may_miss { opener.nxt.wrapping_add(OPENING) } else { opener.nxt };
            let fits = !seq::before(segment.ack, opener.una) && !seq::before(most, segment.ack);
            if fits && seq::before(opener.nxt, segment.ack) {
                work.job.met.would.insert(Rule::Handshake);
                self.pass_hole(self.opener, segment.ack);
            }
            if !fits {
                work.job.refuse(Rule::Handshake)?;
                return Ok(());
            }
            self.signature(work)?;
        }
        let again = self.half(from).end_flags.has(EndFlags::SYN);
        if again && self.bounds(from).isn != segment.seq {
            work.job.refuse(Rule::OneIsn)?;
            return Ok(());
        }
        self.options_of_syn(work, answers);
        if again && !self.as_first(work, answers) {
            return self.unchanged_if_signed(work);
        }
        self.note_syn(work, answers);
        if work.segment.len > 0 {
            self.data_of_syn(work)?;
        }
        self.unchanged_if_signed(work)
    }

    /// Rule Q.2: a SYN that comes again gets the options of the first, whichever of the two its receiver hears. Only
    /// the time of its timestamps is its own. Returns `false` if it keeps others.
    pub(super) fn as_first(&self, work: &mut Work<'_, '_, '_>, answers: bool) -> bool {
        let from = work.from();
        let (half, other) = (self.half(from), self.half(from.other()));
        let offered = |what| !answers || other.end_flags.has(what);
        let has = |what| half.end_flags.has(what) && offered(what);
        let is = work.segment.options;
        let echo = if answers { other.ts_latest } else { 0 };
        let first = Options {
            mss: half.end_flags.has(EndFlags::MSS).then_some(self.mss[from.index()]),
            scale: has(EndFlags::SCALE).then_some(half.scale),
            sack_permitted: has(EndFlags::SACK),
            timestamps: has(EndFlags::TIMESTAMPS).then(|| is.timestamps.unwrap_or((half.ts_latest, echo))),
            ..is
        };
        // What was taken off for not having been asked for is still in the summary.
        let now = Options {
            scale: is.scale.filter(|_| offered(EndFlags::SCALE)),
            sack_permitted: is.sack_permitted && offered(EndFlags::SACK),
            timestamps: is.timestamps.filter(|_| offered(EndFlags::TIMESTAMPS)),
            ..is
        };
        if first == now {
            return true;
        }
        let acts = work.job.acts(Rule::OneIsn);
        if acts {
            work.segment.put_options(work.buf, work.headers, first);
        }
        acts
    }

    /// Record the data of a SYN that may have them (rule O.7). They count like any other: a copy of them cannot differ.
    fn data_of_syn(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let from = work.from();
        if protects(work.job.config, from.other()) {
            work.segment.seq = work.segment.seq.wrapping_add(1);
            let done = self.record(work);
            work.segment.seq = work.segment.seq.wrapping_sub(1);
            done?;
        }
        let end = work.segment.end();
        let half = self.half_mut(from);
        (half.nxt, half.next) = (seq::max(half.nxt, end), seq::max(half.next, end));
        Ok(())
    }

    /// Clean the options of a SYN. An answer may only have what was offered to it.
    pub(super) fn options_of_syn(&self, work: &mut Work<'_, '_, '_>, answers: bool) {
        let from = work.from();
        let to = from.other();
        let offered = |what| !answers || self.half(to).end_flags.has(what);
        let (scale, sack, stamps) =
            (offered(EndFlags::SCALE), offered(EndFlags::SACK), offered(EndFlags::TIMESTAMPS));
        let options = work.segment.options;
        let drops = [
            (options.scale.is_some() && !scale, Rule::OptionScale),
            (options.sack_permitted && !sack, Rule::OptionMss),
            (options.timestamps.is_some() && !stamps, Rule::OptionTimestamps),
        ];
        for (due, rule) in drops {
            if due && work.job.acts(rule) {
                work.segment.keep_options(work.buf, work.headers, |option| {
                    !matches!(
                        (rule, option),
                        (Rule::OptionScale, TcpOption::WindowScale(_))
                            | (Rule::OptionMss, TcpOption::SackPermitted)
                            | (Rule::OptionTimestamps, TcpOption::Timestamps { .. })
                    )
                });
            }
        }
        let header = if work.headers.version == 4 { 40 } else { 60 };
        let fits = work.job.config.mtu[from.index()].min(work.job.config.mtu[to.index()]);
        let fits = u16::try_from(fits.saturating_sub(header)).unwrap_or(u16::MAX);
        let most = work.job.config.max_segment.map_or(fits, |most| most.min(fits));
        work.segment.lower_mss(work.job, work.buf, work.headers, most);
        // RFC 3168 section 6.1.1: the question is ECE and CWR, the answer ECE alone.
        let ecn = Flags::ECE | Flags::CWR;
        let flags = work.segment.flags;
        let fitting = if answers {
            flags.contains(Flags::ECE)
                && !flags.contains(Flags::CWR)
                && self.half(to).end_flags.has(EndFlags::ECN)
        } else {
            flags.contains(ecn)
        };
        if flags.intersects(ecn) && !fitting && work.job.acts(Rule::TcpEcn) {
            work.segment.clear(work.buf, work.headers, ecn);
        }
        if work.headers.tos & 3 != 0 && work.job.acts(Rule::TcpEcn) {
            super::segment::clear_ecn(work.buf, work.headers);
        }
    }

    fn note_syn(&mut self, work: &mut Work<'_, '_, '_>, answers: bool) {
        let (from, segment, now) = (work.from(), work.segment, work.now());
        let options = segment.options;
        let window = u32::from(segment.window);
        let start = segment.seq.wrapping_add(1);
        let first = !self.half(from).end_flags.has(EndFlags::SYN);
        if first {
            self.bounds_mut(from).isn = segment.seq;
            self.mss[from.index()] = options.mss.unwrap_or(536);
            if from == Side::Inside {
                self.set_shift(self.shift_of_syn(work));
            }
        }
        let half = self.half_mut(from);
        if first {
            (half.una, half.nxt, half.next) = (start, start, start);
        }
        half.end_flags.add(EndFlags::SYN, true);
        half.end_flags.add(EndFlags::MSS, options.mss.is_some());
        half.end_flags.add(EndFlags::SCALE, options.scale.is_some());
        half.end_flags.add(EndFlags::SACK, options.sack_permitted);
        half.end_flags.add(EndFlags::TIMESTAMPS, options.timestamps.is_some());
        half.end_flags.add(EndFlags::SIGNED, options.signed);
        half.end_flags.add(EndFlags::ECN, segment.flags.contains(Flags::ECE));
        half.scale = options.scale.unwrap_or(half.scale);
        half.max_window = half.max_window.max(window);
        if let Some((value, _)) = options.timestamps {
            (half.ts_recent, half.ts_latest, half.ts_second) = (value, value, seconds(now));
        }
        let opened = self.half(self.opener).max_window;
        if answers {
            let asked = self.half_mut(from.other());
            asked.una = seq::max(asked.una, segment.ack);
            asked.edge = asked.una.wrapping_add(window);
            let half = self.half_mut(from);
            half.edge = half.una.wrapping_add(opened);
            self.state = State::Init2;
        }
    }

    /// Whether a segment says that its sender still has an old connection there (RFC 9293 section 3.5.1; RFC 5961
    /// section 4.2). The opener resets that one and comes again; without this it would wait in vain.
    fn is_elsewhere(&self, segment: &Segment, from: Side) -> bool {
        let other = Flags::SYN | Flags::FIN | Flags::RST;
        from != self.opener
            && segment.flags.contains(Flags::ACK)
            && !segment.flags.intersects(other)
            && segment.len == 0
            && segment.ack != self.half(self.opener).nxt
    }

    /// Check a reset in state INIT. It is the answer "nobody listens here", or the opener gives up, or it ends the old
    /// connection that the other end told the opener of.
    fn refused(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (from, segment) = (work.from(), work.segment);
        let (opener, other) = (self.half(self.opener), self.half(self.opener.other()));
        if from == self.opener && other.end_flags.has(EndFlags::ELSEWHERE) && segment.seq == other.una {
            return Ok(());
        }
        let fits = if from == self.opener {
            segment.seq == opener.nxt
        } else {
            segment.flags.contains(Flags::ACK) && segment.ack == opener.nxt
        };
        if !fits {
            return work.job.refuse(Rule::ResetExact);
        }
        self.state = State::Closed;
        Ok(())
    }

    /// Change the state when FINs were acknowledged.
    fn after_established(&mut self) {
        let mut both = self.halves.iter().zip(&self.bounds);
        if both.all(|(half, bounds)| half.end_flags.has(EndFlags::FIN) && seq::before(bounds.fin, half.una)) {
            self.state = State::Closed;
        } else if self.state == State::Estab
            && self.halves.iter().any(|half| half.end_flags.has(EndFlags::FIN))
        {
            self.state = State::Close;
        }
    }

    /// Forget all data of the connection.
    pub fn release(&mut self, arena: &mut Arena) {
        for store in &mut self.stores {
            if let Some(store) = store.take() {
                store.close(arena);
            }
        }
    }
}
