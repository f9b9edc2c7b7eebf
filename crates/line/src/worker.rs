//! A worker: a scrubber of its own between two ports. One thread; nothing of it is shared.

use std::os::fd::AsFd;
use std::time::Duration;

use netio::line::{Arrived, OutgoingFrame, Port, SendResult};
use netio::{clock, line, poll};
use scrub::{Arrival, Emitted, Outcome, Scrubber, Side, Verdict};
use wire::ip::Headers;
use wire::{Buf, Gso, Pool, Time, eth, protocol};

use crate::link::{Link, Stations};
use control::channel::{Inbox, Next};
use documents::scrub_record::{Head, Ring};
use wire::link::without_padding;

/// Buffers that are kept for use again: those of both ports' slots, and of a batch on its way.
const KEEP: usize = 3 * line::BATCH;
/// Room behind a frame for options that a rule adds.
const TAILROOM: usize = 128;
/// Connections that a processor's own cache holds.
const CACHED: usize = 4096;
/// How long is waited for a frame at most.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long a worker that hands over may be busy with what it has heard.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a port is left alone that answers with an error.
const RECOVERY: Duration = Duration::from_millis(100);
/// The sides, in the order of their places.
pub const SIDES: [Side; 2] = [Side::Outside, Side::Inside];

/// What a worker did with the frames of one side, beside what its scrubber counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// The number of frames that arrived.
    pub frames: u64,
    /// The number of octets in the frames that arrived.
    pub octets: u64,
    /// The number of frames that arrived as super-packets.
    pub super_packets: u64,
    /// Frames that are no IP and passed.
    pub passed: u64,
    /// Frames that are no IP and ended.
    pub not_ip: u64,
    /// Frames whose type names one IP version and their packet another.
    pub ip_version: u64,
    /// Frames that could not be taken: longer than the longest packet, or super-packets of a kind that nobody here knows.
    pub unreadable: u64,
    /// Packets of the scrubber's own to this side.
    pub own: u64,
    /// The number of the scrubber's own packets that did not leave, since nobody knows the stations.
    pub own_lost: u64,
    /// What became of frames that left by this side.
    pub sent: SendResult,
}

/// The buffer of a frame that ends, and where that counts.
type Ended = (Buf, fn(&mut LineStats));

/// A worker of the line: it takes frames from either side, scrubs them and sends them on.
#[derive(Debug)]
pub struct Worker {
    /// `None`: frames pass and nobody looks at them (measurements).
    pub scrubber: Option<Scrubber>,
    /// The ports by side; `None` while the interface is gone.
    pub ports: [Option<Port>; 2],
    /// The tallies of frames by side.
    pub tallies: [LineStats; 2],
    /// The last packets that rules met.
    pub ring: Ring,
    ethertypes: Vec<u16>,
    stations: Stations,
    broken: [Option<Time>; 2],
    batch: Batch,
}

/// Frames on their way, and where their buffers come from.
#[derive(Debug)]
struct Batch {
    pool: Pool,
    arrived: Vec<Arrived>,
    /// The frames that wait to be sent, by the side that they leave by.
    leaving: [Vec<OutgoingFrame>; 2],
}

impl Worker {
    /// One that has seen nothing.
    pub fn new(
        scrubber: Option<Scrubber>,
        ports: [Port; 2],
        ethertypes: Vec<u16>,
        ring: Ring,
        key: sockmon::line::LineKey,
    ) -> Worker {
        let leaving = [Vec::with_capacity(2 * line::BATCH), Vec::with_capacity(2 * line::BATCH)];
        let pool = Pool::new(line::HEADROOM + line::FRAME + TAILROOM, line::HEADROOM, KEEP);
        Worker {
            scrubber,
            ports: ports.map(Some),
            tallies: [LineStats::default(); 2],
            ring,
            ethertypes,
            stations: Stations::new(key),
            broken: [None; 2],
            batch: Batch { pool, arrived: Vec::with_capacity(line::BATCH), leaving },
        }
    }

    /// Another port at a side, or none: the interface has come back, or has gone.
    pub fn set_port(&mut self, at: usize, port: Option<Port>) {
        if let (Some(place), Some(broken)) = (self.ports.get_mut(at), self.broken.get_mut(at)) {
            (*place, *broken) = (port, None);
        }
    }

    /// Scrub frames until told to stop.
    pub fn serve(&mut self, inbox: &Inbox<Worker>) {
        loop {
            let now = clock::monotonic();
            let busy = SIDES.map(|side| self.turn(side, now)).contains(&true);
            self.expire(now);
            let wait = if busy { Duration::ZERO } else { self.patience(now) };
            if !self.wait(inbox, wait) {
                return;
            }
        }
    }

    /// Hear no more, and scrub what was heard.
    pub fn drain(&mut self) {
        for port in self.ports.iter().flatten() {
            if let Err(error) = port.deafen() {
                tracing::warn!("{}: {error}", port.device().name);
            }
        }
        let begin = clock::monotonic();
        loop {
            let now = clock::monotonic();
            let more = SIDES.map(|side| self.turn(side, now)).contains(&true);
            if !more || now.since(begin) > DRAIN {
                return;
            }
        }
    }

    /// Wait for a frame or a command, unless the time is zero; whether to go on.
    fn wait(&mut self, inbox: &Inbox<Worker>, patience: Duration) -> bool {
        let wake = inbox.wake().as_fd();
        // A port that is not there, or broken, stands in the set as the eventfd.
        let port = |side: Side| {
            let [outside, inside] = &self.ports;
            let port = if side == Side::Outside { outside } else { inside };
            let works = self.broken.get(side.index()).is_none_or(Option::is_none);
            port.as_ref().filter(|_| works).map_or(wake, AsFd::as_fd)
        };
        let set = [wake, port(Side::Outside), port(Side::Inside)];
        let woken = match patience.is_zero() {
            // Under load the commands are looked for without waiting.
            true => poll::readable([wake], Some(Duration::ZERO)).is_ok_and(|[woken]| woken),
            false => poll::readable(set, Some(patience)).is_ok_and(|[woken, ..]| woken),
        };
        !woken || inbox.run(self) == Next::GoOn
    }

    fn patience(&self, now: Time) -> Duration {
        let due = self.scrubber.as_ref().and_then(Scrubber::poll_timeout);
        let next = due.into_iter().chain(self.broken.iter().flatten().copied()).min();
        // Never zero: that would mean that there is work.
        let until = next.map_or(HOUSEKEEPING, |next| next.since(now));
        until.clamp(Duration::from_millis(1), HOUSEKEEPING)
    }

    /// Take the frames that wait at one side, and send what becomes of them. Whether there may be more.
    fn turn(&mut self, from: Side, now: Time) -> bool {
        let at = from.index();
        let (Some(port), Some(tally), Some(broken)) =
            (self.ports.get_mut(at), self.tallies.get_mut(at), self.broken.get_mut(at))
        else {
            return false;
        };
        let Some(port) = port.as_mut().filter(|_| broken.is_none_or(|until| now >= until)) else {
            return false;
        };
        *broken = None;
        let Batch { pool, arrived, .. } = &mut self.batch;
        let more = match port.recv(pool, arrived, &mut |_| tally.unreadable += 1) {
            Ok(more) => more,
            Err(error) => {
                tracing::debug!(%error, "{} gives no frames", port.device().name);
                *broken = Some(now + RECOVERY);
                false
            }
        };
        let mut arrived = std::mem::take(&mut self.batch.arrived);
        self.expect(from, &arrived);
        for frame in arrived.drain(..) {
            self.frame(from, now, frame);
        }
        self.batch.arrived = arrived;
        self.flush();
        more
    }

    /// Have the connections of a batch fetched from memory together, where there are more of them than a cache holds.
    fn expect(&mut self, from: Side, arrived: &[Arrived]) {
        let Some(scrubber) = self.scrubber.as_mut().filter(|it| it.connections().len() > CACHED) else {
            return;
        };
        scrubber.expect(arrived.iter().filter_map(|arrived| {
            let octets = arrived.frame.as_slice();
            let (link, before) = Link::of(octets, arrived.tag)?;
            let arrival = Arrival { from, link: link.number(), realm: link.number() };
            Some((arrival, octets.get(before..)?))
        }));
    }

    fn tally(&mut self, side: Side, count: impl FnOnce(&mut LineStats)) {
        if let Some(tally) = self.tallies.get_mut(side.index()) {
            count(tally);
        }
    }

    /// Handle one frame that arrived at a side, and count it there.
    fn frame(&mut self, from: Side, now: Time, arrived: Arrived) {
        let octets = arrived.frame.len() as u64;
        self.tally(from, |tally| (tally.frames, tally.octets) = (tally.frames + 1, tally.octets + octets));
        if let Err((buf, count)) = self.take(from, now, arrived) {
            self.tally(from, count);
            self.batch.pool.put(buf);
        }
    }

    /// What becomes of a frame; the buffer of one that ends here, and where it counts.
    fn take(&mut self, from: Side, now: Time, arrived: Arrived) -> Result<(), Ended> {
        let Some((link, before)) = Link::of(arrived.frame.as_slice(), arrived.tag) else {
            return Err((arrived.frame, |tally| tally.unreadable += 1));
        };
        let gso = arrived.gso(before);
        let mut buf = arrived.frame;
        let (Ok(gso), true) = (gso, buf.trim_front(before)) else {
            return Err((buf, |tally| tally.unreadable += 1));
        };
        if gso.size > 0 {
            self.tally(from, |tally| tally.super_packets += 1);
        }
        let version = match link.ethertype() {
            eth::IPV4 => 4,
            eth::IPV6 => 6,
            other => return self.pass(from, other, link, buf, gso),
        };
        let Some(scrubber) = &mut self.scrubber else {
            self.leave(from.other(), &link, buf, gso);
            return Ok(());
        };
        // Zeros that fill a short frame are the link's.
        let len = without_padding(buf.as_slice()).len();
        buf.truncate(len);
        if buf.as_slice().first().is_some_and(|first| matches!(first >> 4, 4 | 6) && first >> 4 != version)
            && !scrubber.config().is_observing()
        {
            return Err((buf, |tally| tally.ip_version += 1));
        }
        let came = Head::of(buf.as_slice());
        let arrival = Arrival { from, link: link.number(), realm: link.number() };
        let mut gso = gso;
        let verdict = scrubber.process(now, arrival, &mut buf, &mut gso);
        if verdict.met.is_incident() {
            let went = (verdict.outcome == Outcome::Forward).then_some(buf.as_slice());
            self.ring.note(now, from, verdict, &came, went);
        }
        match verdict.outcome {
            Outcome::Forward => {
                self.learn(buf.as_slice(), &link);
                self.leave(from.other(), &link, buf, gso);
            }
            Outcome::Drop(_) | Outcome::Hold | Outcome::Fragmented => self.batch.pool.put(buf),
        }
        self.emitted(from, &verdict, &link);
        Ok(())
    }

    /// A frame that is no IP.
    fn pass(&mut self, from: Side, kind: u16, link: Link, buf: Buf, gso: Gso) -> Result<(), Ended> {
        let changes = self.scrubber.as_ref().is_some_and(|scrubber| !scrubber.config().is_observing());
        if changes && !self.ethertypes.contains(&kind) {
            return Err((buf, |tally| tally.not_ip += 1));
        }
        self.tally(from, |tally| tally.passed += 1);
        self.leave(from.other(), &link, buf, gso);
        Ok(())
    }

    /// With which stations connections are reached when there is no frame at hand.
    fn learn(&mut self, packet: &[u8], link: &Link) {
        if let Ok(headers) = Headers::parse(packet)
            && headers.protocol == protocol::TCP
        {
            self.stations.learn(headers.src, headers.dst, link);
        }
    }

    /// What the scrubber made of the packet at work, or because of it. (From a time-out: [`Worker::expire`].)
    fn emitted(&mut self, from: Side, verdict: &Verdict, link: &Link) {
        while let Some(emitted) = self.scrubber.as_mut().and_then(Scrubber::poll_emitted) {
            let onward = emitted.to == from.other();
            let piece = onward
                && verdict.outcome == Outcome::Fragmented
                && Headers::parse(emitted.buf.as_slice()).is_ok_and(|headers| headers.fragment.is_some());
            let link = if onward { Some(*link) } else { link.turned() };
            self.own(emitted, link, !piece);
        }
    }

    fn own(&mut self, emitted: Emitted, link: Option<Link>, counts: bool) {
        let Emitted { to, buf, .. } = emitted;
        self.tally(to, |tally| {
            tally.own += u64::from(counts);
            tally.own_lost += u64::from(link.is_none());
        });
        if let Some(link) = link {
            self.leave(to, &link, buf, Gso::default());
        }
    }

    /// Let time pass for the scrubber, and send the packets that it makes of that.
    fn expire(&mut self, now: Time) {
        let Some(scrubber) = &mut self.scrubber else { return };
        if scrubber.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        scrubber.expire(now);
        while let Some(emitted) = self.scrubber.as_mut().and_then(Scrubber::poll_emitted) {
            let ends = Headers::parse(emitted.buf.as_slice()).ok();
            let link = ends.and_then(|headers| self.stations.find(headers.src, headers.dst, emitted.realm));
            self.own(emitted, link, true);
        }
        self.flush();
    }

    /// Put the link header in front; it leaves with the batch.
    fn leave(&mut self, by: Side, link: &Link, buf: Buf, gso: Gso) {
        let head = link.octets();
        let mut frame = buf;
        // One of the scrubber's own buffers may have less room in front.
        if !frame.make_room(head.len() + line::PREFIX, 0) {
            let whole = Buf::from_slice(frame.as_slice(), line::HEADROOM, 0);
            self.batch.pool.put(std::mem::replace(&mut frame, whole));
        }
        let Some(room) = frame.push_front(head.len()) else { return };
        room.copy_from_slice(head);
        if let Some(leaving) = self.batch.leaving.get_mut(by.index()) {
            leaving.push(OutgoingFrame { frame, gso, before: head.len() });
        }
    }

    /// Send the frames that wait at both sides. Where the port is gone, they count as refused.
    fn flush(&mut self) {
        let Batch { pool, leaving, .. } = &mut self.batch;
        for ((frames, port), tally) in leaving.iter_mut().zip(&mut self.ports).zip(&mut self.tallies) {
            if frames.is_empty() {
                continue;
            }
            match port {
                Some(port) => tally.sent.add(port.send(frames, pool)),
                None => {
                    tally.sent.refused += frames.len() as u64;
                    frames.drain(..).for_each(|leaving| pool.put(leaving.frame));
                }
            }
        }
    }
}
