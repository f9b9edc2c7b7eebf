//! A connection through a scrubber, said in short: the client is outside, the server inside, numbers count from each end's first octet.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod traces;

use scrub::{Arrival, Config, Emitted, Outcome, Profile, Rule, Scrubber, Side};
use std::time::Duration;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{Buf, Gso, Time, checksum};

pub const CLIENT: [u8; 4] = [192, 0, 2, 1];
pub const SERVER: [u8; 4] = [198, 51, 100, 2];
pub const ACK: Flags = Flags::ACK;
pub const SYN: Flags = Flags::SYN;
pub const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
pub const RST: Flags = Flags::RST;
pub const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

/// A segment to send.
#[derive(Clone)]
pub struct Seg {
    pub from: Side,
    /// From the first octet behind the SYN.
    pub seq: i64,
    pub ack: i64,
    pub flags: Flags,
    pub data: Vec<u8>,
    pub options: Vec<u8>,
    pub window: u16,
    pub urgent: u16,
    pub ttl: u8,
    pub tos: u8,
    pub ports: (u16, u16),
    pub bad_checksum: bool,
    pub offset: Option<u8>,
}

impl std::fmt::Debug for Seg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, seq, len, ack, window) =
            (self.from.name(), self.seq, self.data.len(), self.ack, self.window);
        write!(f, "{from} {seq}+{len} ack {ack} window {window} flags {:#x} ecn {}", self.flags.0, self.tos)?;
        write!(f, " options {:?}", self.options)
    }
}

/// A segment of the client's.
pub fn client(seq: i64, data: &[u8]) -> Seg {
    Seg {
        from: Side::Outside,
        seq,
        ack: 0,
        flags: ACK,
        data: data.to_vec(),
        options: Vec::new(),
        window: 65535,
        urgent: 0,
        ttl: 60,
        tos: 0,
        ports: (40000, 80),
        bad_checksum: false,
        offset: None,
    }
}

/// A segment of the server's.
pub fn server(seq: i64, data: &[u8]) -> Seg {
    Seg { from: Side::Inside, ports: (80, 40000), ..client(seq, data) }
}

impl Seg {
    pub fn flags(mut self, flags: Flags) -> Seg {
        self.flags = flags;
        self
    }
    pub fn ack(mut self, ack: i64) -> Seg {
        self.ack = ack;
        self
    }
    pub fn window(mut self, window: u16) -> Seg {
        self.window = window;
        self
    }
    pub fn ttl(mut self, ttl: u8) -> Seg {
        self.ttl = ttl;
        self
    }
    pub fn options(mut self, options: &[u8]) -> Seg {
        self.options = options.to_vec();
        while !self.options.len().is_multiple_of(4) {
            self.options.push(0);
        }
        self
    }
    pub fn stamps(self, value: u32, echo: u32) -> Seg {
        let mut options = vec![1, 1, 8, 10];
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
        self.options(&options)
    }
    pub fn with(mut self, edit: impl FnOnce(&mut Seg)) -> Seg {
        edit(&mut self);
        self
    }

    pub fn packet(&self, isn: [u32; 2]) -> Vec<u8> {
        let (own, other) = (isn[self.from.index()], isn[self.from.other().index()]);
        let number = |isn: u32, at: i64| isn.wrapping_add(1).wrapping_add(at as u32);
        let header = 20 + self.options.len();
        let total = 20 + header + self.data.len();
        let mut bytes = vec![0x45, self.tos];
        bytes.extend((total as u16).to_be_bytes());
        bytes.extend([0x12, 0x34, 0x40, 0, self.ttl, 6, 0, 0]);
        let (src, dst) = if self.from == Side::Outside { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        bytes.extend(src);
        bytes.extend(dst);
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.extend(number(own, self.seq).to_be_bytes());
        let ack = if self.flags.contains(ACK) { number(other, self.ack) } else { 0 };
        bytes.extend(ack.to_be_bytes());
        let words = self.offset.unwrap_or((header / 4) as u8);
        bytes.extend((u16::from(words) << 12 | self.flags.0).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(&self.options);
        bytes.extend(&self.data);
        let check = checksum::ip_checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        let headers = Headers::parse(&bytes).expect("a packet");
        checksum::complete_transport(&mut bytes, &headers).expect("a segment");
        if self.bad_checksum {
            bytes[36] ^= 0x55;
        }
        bytes
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    pub outcome: Outcome,
    /// Numbers of the rules that acted.
    pub acted: Vec<&'static str>,
    pub bytes: Vec<u8>,
    pub seq: i64,
    pub ack: i64,
    pub flags: Flags,
    pub data: Vec<u8>,
    pub ttl: u8,
    pub tos: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<String>,
}

impl Out {
    #[track_caller]
    pub fn dropped_by(&self, rule: &str) {
        let wanted = Rule::find(rule).expect("a rule");
        assert_eq!(self.outcome, Outcome::Drop(wanted), "acted: {:?}", self.acted);
    }

    #[track_caller]
    pub fn passed_with(&self, rules: &[&str]) -> &Out {
        assert_eq!((self.outcome, self.acted.as_slice()), (Outcome::Forward, rules));
        self
    }

    #[track_caller]
    pub fn unchanged(&self) -> &Out {
        self.passed_with(&[])
    }

    #[track_caller]
    pub fn carries(&self, seq: i64, data: &[u8]) -> &Out {
        let (here, wanted) = (String::from_utf8_lossy(&self.data), String::from_utf8_lossy(data));
        assert_eq!((self.seq, &*here), (seq, &*wanted));
        self
    }
}

pub struct World {
    pub scrubber: Scrubber,
    pub now: Time,
    pub isn: [u32; 2],
}

impl World {
    pub fn new(config: Config) -> World {
        World {
            scrubber: Scrubber::new(config, [7; 16]),
            now: Time::from_secs(1000),
            isn: [0xffff_fff0, 5000],
        }
    }

    pub fn standard() -> World {
        World::new(Config::new(Profile::Standard))
    }

    /// Behind a handshake without options.
    pub fn established() -> World {
        World::established_with(Config::new(Profile::Standard), &[], &[])
    }

    pub fn established_with(config: Config, asked: &[u8], answered: &[u8]) -> World {
        let mut world = World::new(config);
        world.pass(&client(-1, b"").flags(SYN).options(asked)).unchanged();
        world.pass(&server(-1, b"").flags(SYN_ACK).options(answered)).unchanged();
        let mut last = client(0, b"");
        if asked.windows(2).any(|pair| pair == [8, 10]) {
            last = last.stamps(101, 501);
        }
        world.pass(&last).unchanged();
        world
    }

    /// With timestamps: the client's starts at 100, the server's at 501.
    pub fn stamped() -> World {
        let asked = [[1, 1, 8, 10].as_slice(), &100_u32.to_be_bytes(), &[0; 4]].concat();
        let answered = [[1, 1, 8, 10].as_slice(), &501_u32.to_be_bytes(), &100_u32.to_be_bytes()].concat();
        World::established_with(Config::new(Profile::Standard), &asked, &answered)
    }

    pub fn pass(&mut self, segment: &Seg) -> Out {
        self.pass_bytes(segment.from, &segment.packet(self.isn))
    }

    pub fn pass_bytes(&mut self, from: Side, bytes: &[u8]) -> Out {
        let mut buf = Buf::from_slice(bytes, 64, 64);
        let verdict =
            self.scrubber.process(self.now, Arrival { from, link: 0 }, &mut buf, &mut Gso::default());
        let acted = verdict.met.acted.iter().map(Rule::id).collect();
        self.read(verdict.outcome, acted, buf.as_slice(), from)
    }

    fn read(&self, outcome: Outcome, acted: Vec<&'static str>, bytes: &[u8], from: Side) -> Out {
        let mut out = Out {
            outcome,
            acted,
            bytes: bytes.to_vec(),
            seq: 0,
            ack: 0,
            flags: Flags(0),
            data: Vec::new(),
            ttl: 0,
            tos: 0,
            window: 0,
            urgent: 0,
            options: Vec::new(),
        };
        let Ok(headers) = Headers::parse(bytes) else { return out };
        let Ok(view) = Tcp::new_checked(headers.upper(bytes)) else { return out };
        if outcome == Outcome::Forward {
            assert_eq!(checksum::verify_transport(bytes, &headers), Some(true), "the checksum behind");
            assert!(wire::ip::checksum_ok(bytes, &headers));
            assert_eq!(headers.total_len, bytes.len());
        }
        let relative = |isn: u32, number: u32| i64::from(number.wrapping_sub(isn).wrapping_sub(1) as i32);
        out.seq = relative(self.isn[from.index()], view.seq());
        out.ack = relative(self.isn[from.other().index()], view.ack());
        (out.flags, out.data) = (view.flags(), view.payload().to_vec());
        (out.ttl, out.tos) = (headers.ttl, headers.tos);
        (out.window, out.urgent) = (view.window(), view.urgent());
        let name = |option: TcpOption<'_>| match option {
            TcpOption::Nop => None,
            other => Some(format!("{other:?}")),
        };
        out.options = view.options().map_while(Result::ok).filter_map(name).collect();
        out
    }

    /// What the scrubber itself says: where it goes, and what it is.
    pub fn own(&mut self) -> Vec<(Side, Out)> {
        let mut all = Vec::new();
        while let Some(Emitted { to, buf, why }) = self.scrubber.poll_emitted() {
            all.push((to, self.read(Outcome::Forward, vec![why.id()], buf.as_slice(), to.other())));
        }
        all
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.scrubber.expire(self.now);
    }
}
