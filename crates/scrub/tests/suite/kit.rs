//! A connection through a scrubber, said in short. The client is outside, the server inside, and numbers count from
//! each end's first octet.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod segment;
pub mod traces;

pub use segment::*;

use scrub::{Arrival, Config, Emitted, Outcome, Profile, Rule, Scrubber, Side};
use std::time::Duration;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{Buf, Gso, Time, checksum};

/// The result of passing one packet through a scrubber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    pub outcome: Outcome,
    /// The numbers of the rules that acted.
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
    pub realm: u32,
}

impl World {
    pub fn new(config: Config) -> World {
        World {
            scrubber: Scrubber::new(config, [7; 16]),
            now: Time::from_secs(1000),
            isn: [0xffff_fff0, 5000],
            realm: 0,
        }
    }

    pub fn standard() -> World {
        World::new(Config::new(Profile::Standard))
    }

    /// A world behind a handshake without options.
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

    /// A world behind a handshake with timestamps: the client's starts at 100, the server's at 501.
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
        let verdict = self.scrubber.process(
            self.now,
            Arrival { from, link: 0, realm: self.realm },
            &mut buf,
            &mut Gso::default(),
        );
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

    /// The packets that the scrubber itself sends, with the side each goes to.
    pub fn own(&mut self) -> Vec<(Side, Out)> {
        let mut all = Vec::new();
        while let Some(Emitted { to, buf, why, .. }) = self.scrubber.poll_emitted() {
            all.push((to, self.read(Outcome::Forward, vec![why.id()], buf.as_slice(), to.other())));
        }
        all
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.scrubber.expire(self.now);
    }
}
