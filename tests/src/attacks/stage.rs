//! Where a script is played: the attacker outside, the scrubber or nothing, the wire that is captured, three routers, the stack.

use super::kit::{CLIENT, SERVER, SYN, Seg, client};
use super::packet::{OUT6, V4, V6};
use super::reading::{Reading, address_of};
use super::{FIRST_PORT, PORT, PORTS};
use scrub::{Arrival, Config, Outcome, Profile, Rules, Scrubber, Side};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{Buf, Gso, Time, protocol};

/// Routers between the wire that is watched and the host: what would die at one of them never reaches it.
const ROUTERS: u8 = 3;
/// Seconds from the start of one case to that of the next, in the capture's time.
const APART: u64 = 20_000;
/// Time between two packets of a script.
const STEP: Duration = Duration::from_millis(1);

/// A stack with services on [`PORT`] that keep what they get and close when the other side has closed.
pub trait Inside {
    /// A packet arrives (or time has gone on); all that the stack says then.
    fn take(&mut self, now: Time, packet: Option<&[u8]>) -> Vec<Vec<u8>>;
    /// Open a connection to a host outside.
    fn connect(&mut self, now: Time, to: SocketAddr) -> Vec<Vec<u8>>;
    /// Services read what came, or leave it in the stack's buffer.
    fn read(&mut self, on: bool);
    /// What the services got since the last call; every connection ends.
    fn finish(&mut self) -> Reading;
}

/// What is special about a case's surroundings.
pub struct Setting {
    /// The scrubber's configuration; without one there is no scrubber.
    pub config: Option<Config>,
    /// The MTU of the link behind the wire.
    pub mtu: usize,
    /// The stack's answers go another way.
    pub one_sided: bool,
}

impl Setting {
    /// The usual surroundings, with a scrubber of the standard profile, or without one.
    pub fn standard(scrubbed: bool) -> Setting {
        Setting { config: scrubbed.then(|| Config::new(Profile::Standard)), mtu: 1500, one_sided: false }
    }
}

/// One performance of a script, against one stack.
pub struct Stage<'h> {
    scrubber: Option<Scrubber>,
    setting: Setting,
    inside: &'h mut dyn Inside,
    now: Time,
    case: usize,
    port: u16,
    /// On which link packets come. The stack is on link 0; the wire that is watched carries all.
    pub link: u32,
    /// The next packet is lost between the wire and the stack.
    pub lose: bool,
    /// Initial sequence numbers of the client and of the server.
    pub isn: [u32; 2],
    /// What the server's last timestamp was.
    pub stamp: u32,
    /// The wire in front of the stack: when, and what.
    pub wire: Vec<(Time, Vec<u8>)>,
    /// What came out to the attacker.
    pub heard: Vec<Vec<u8>>,
    /// Rules of the scrubber that acted.
    pub acted: Rules,
}

impl<'h> Stage<'h> {
    /// The stage for the case of this number.
    pub fn new(setting: Setting, inside: &'h mut dyn Inside, case: usize) -> Stage<'h> {
        Stage {
            scrubber: setting.config.clone().map(|config| Scrubber::new(config, [7; 16])),
            setting,
            inside,
            now: Time::from_secs(1000 + case as u64 * APART),
            case,
            port: FIRST_PORT + case as u16 * PORTS,
            link: 0,
            lose: false,
            isn: [0x1234_5678, 0],
            stamp: 0,
            wire: Vec::new(),
            heard: Vec::new(),
            acted: Rules::NONE,
        }
    }

    /// The number of the case, counted from 0.
    pub fn case(&self) -> usize {
        self.case
    }

    /// The port outside that is used now.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Use another port outside from now on.
    pub fn another(&mut self) {
        self.port += 1;
        assert!(self.port < FIRST_PORT + (self.case as u16 + 1) * PORTS, "ports of a case");
    }

    /// A handshake, and one octet, so that readers that begin with the first data begin at the same place. Numbers of scripts count from
    /// behind it.
    pub fn open(&mut self) {
        self.open_with(&[]);
    }

    /// Open a connection like [`Stage::open`], with options in the SYN.
    pub fn open_with(&mut self, options: &[u8]) {
        self.handshake(options);
        self.send(&client(0, b">").with(|s| self.stamped(options, s, 2)));
        self.isn[0] = self.isn[0].wrapping_add(1);
    }

    /// Make a handshake: only its segments, no data.
    pub fn handshake(&mut self, options: &[u8]) {
        self.send(&client(-1, b"").flags(SYN).options(options));
        self.send(&client(0, b"").with(|s| self.stamped(options, s, 1)));
    }

    fn stamped(&self, options: &[u8], segment: &mut Seg, later: u32) {
        if let Some(at) = options.windows(2).position(|pair| pair == [8, 10]) {
            let value = options[at + 2..at + 6].try_into().map_or(0, u32::from_be_bytes);
            *segment = segment.clone().stamps(value + later, self.stamp);
        }
    }

    /// A segment from outside, on this case's port.
    pub fn send(&mut self, segment: &Seg) {
        let bytes = self.bytes(segment);
        self.outside(&bytes);
    }

    /// Some in their order.
    pub fn send_all(&mut self, segments: &[(i64, &[u8])]) {
        for (at, data) in segments {
            self.send(&client(*at, data));
        }
    }

    /// The segment as a packet.
    pub fn bytes(&self, segment: &Seg) -> Vec<u8> {
        let ports = if segment.ports.0 == 40000 { (self.port, PORT) } else { segment.ports };
        segment.clone().with(|s| s.ports = ports).packet(self.isn)
    }

    /// The segment in an IPv4 packet whose header a script may change. `id` is the case's own.
    pub fn carried(&self, segment: &Seg) -> V4 {
        let bytes = self.bytes(segment);
        let id = 0x4000 + self.case as u16 * 64;
        let mut packet = super::packet::v4(6, &bytes[20..]);
        (packet.src, packet.dst, packet.id) = (CLIENT, SERVER, id);
        packet
    }

    /// A UDP datagram from this case's address.
    pub fn datagram(&self, data: &[u8]) -> V4 {
        let mut packet = super::packet::v4(17, &super::packet::udp((40000, PORT), data));
        packet.src[3] = address_of(self.case);
        packet.summed()
    }

    /// A UDP datagram from this case's IPv6 address.
    pub fn datagram6(&self, data: &[u8]) -> V6 {
        let mut packet = super::packet::v6(17, &super::packet::udp((40000, PORT), data));
        packet.src = self.address6();
        let bytes = super::packet::summed(packet.bytes());
        packet.with(|p| p.data = bytes[40..].to_vec())
    }

    /// This case's IPv6 address.
    pub fn address6(&self) -> [u8; 16] {
        let mut address = OUT6;
        address[15] = address_of(self.case);
        address
    }

    /// The stack opens a connection to this case's port; its SYN's port is the answer.
    pub fn connect(&mut self) -> u16 {
        let to = SocketAddr::new(IpAddr::from(CLIENT), self.port);
        let answers = self.inside.connect(self.now, to);
        let mut from = 0;
        for answer in answers {
            if let Some(segment) = Segment::of(&answer).filter(|segment| segment.to == self.port) {
                from = segment.from;
            }
            self.answer(&answer);
        }
        from
    }

    /// A packet from outside.
    pub fn outside(&mut self, bytes: &[u8]) {
        self.now = self.now + STEP;
        if let Some(bytes) = self.scrub(Side::Outside, bytes) {
            self.deliver(&bytes);
        }
        self.own();
    }

    /// Let time go by, and take what the scrubber and the stack say then.
    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        if let Some(scrubber) = &mut self.scrubber {
            scrubber.expire(self.now);
        }
        self.own();
        for answer in self.inside.take(self.now, None) {
            self.answer(&answer);
        }
    }

    /// Whether the services read.
    pub fn read(&mut self, on: bool) {
        self.inside.read(on);
        for answer in self.inside.take(self.now, None) {
            self.answer(&answer);
        }
    }

    /// The end: what the services got.
    pub fn finish(self) -> Reading {
        self.inside.finish()
    }

    /// A packet on the wire, past the routers, to the stack; and its answers.
    fn deliver(&mut self, bytes: &[u8]) {
        self.now = self.now + STEP;
        self.wire.push((self.now, bytes.to_vec()));
        let ttl = match bytes.first().map(|first| first >> 4) {
            Some(6) => bytes.get(7),
            _ => bytes.get(8),
        };
        let df = bytes.get(6).is_some_and(|flags| flags & 0x40 != 0) && bytes[0] >> 4 == 4;
        let lost = std::mem::take(&mut self.lose) || self.link != 0;
        if lost || ttl.is_none_or(|ttl| *ttl <= ROUTERS) || df && bytes.len() > self.setting.mtu {
            return;
        }
        for answer in self.inside.take(self.now, Some(bytes)) {
            self.answer(&answer);
        }
    }

    /// What the stack says.
    fn answer(&mut self, bytes: &[u8]) {
        if !self.concerns(bytes) {
            return;
        }
        self.now = self.now + STEP;
        if self.setting.one_sided {
            return self.hear(bytes.to_vec());
        }
        self.wire.push((self.now, bytes.to_vec()));
        if let Some(bytes) = self.scrub(Side::Inside, bytes) {
            self.hear(bytes);
        }
        self.own();
    }

    /// A stack may still repeat what belongs to an earlier case.
    fn concerns(&self, bytes: &[u8]) -> bool {
        let ports = FIRST_PORT + self.case as u16 * PORTS..FIRST_PORT + (self.case as u16 + 1) * PORTS;
        match Segment::of(bytes) {
            Some(segment) => ports.contains(&segment.to),
            None => Headers::parse(bytes).is_ok_and(|headers| {
                headers.protocol != protocol::TCP
                    && super::reading::case_of_address(headers.dst) == Some(self.case)
            }),
        }
    }

    fn hear(&mut self, bytes: Vec<u8>) {
        if let Some(segment) = Segment::of(&bytes) {
            if segment.flags.contains(SYN) {
                self.isn[1] = segment.seq;
            }
            self.stamp = segment.stamp.unwrap_or(self.stamp);
        }
        self.heard.push(bytes);
    }

    /// What goes on to the other side.
    fn scrub(&mut self, from: Side, bytes: &[u8]) -> Option<Vec<u8>> {
        let Some(scrubber) = &mut self.scrubber else { return Some(bytes.to_vec()) };
        let mut buf = Buf::from_slice(bytes, 64, 64);
        let verdict = scrubber.process(
            self.now,
            Arrival { from, link: self.link, realm: 0 },
            &mut buf,
            &mut Gso::default(),
        );
        self.acted = self.acted.union(verdict.met.acted);
        (verdict.outcome == Outcome::Forward).then(|| buf.as_slice().to_vec())
    }

    /// The scrubber's own packets.
    fn own(&mut self) {
        while let Some(emitted) = self.scrubber.as_mut().and_then(Scrubber::poll_emitted) {
            let bytes = emitted.buf.as_slice().to_vec();
            match emitted.to {
                Side::Inside => self.deliver(&bytes),
                Side::Outside => self.hear(bytes),
            }
        }
    }
}

/// What a script must know of a segment of the stack's.
struct Segment {
    from: u16,
    to: u16,
    seq: u32,
    flags: Flags,
    stamp: Option<u32>,
}

impl Segment {
    fn of(bytes: &[u8]) -> Option<Segment> {
        let headers = Headers::parse(bytes).ok()?;
        if headers.protocol != protocol::TCP || headers.fragment.is_some() {
            return None;
        }
        let view = Tcp::new_checked(headers.upper(bytes)).ok()?;
        let stamp = view.options().map_while(Result::ok).find_map(|option| match option {
            TcpOption::Timestamps { value, .. } => Some(value),
            _ => None,
        });
        let (from, to) = (view.src_port(), view.dst_port());
        Some(Segment { from, to, seq: view.seq(), flags: view.flags(), stamp })
    }
}
