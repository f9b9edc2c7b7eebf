//! The order of the rules: one packet from its first octet to the next link.

use crate::config::Config;
use crate::counters::Counters;
use crate::fragments::{Fragments, Taken};
use crate::rule::Rule;
use crate::sessions::Sessions;
use crate::tcp::Connections;
use crate::verdict::{Arrival, Emitted, Job, Outcome, Side, Stop, Verdict};
use crate::{icmp, ip, sctp, udp};
use std::collections::VecDeque;
use wire::ip::Headers;
use wire::{Buf, Gso, Time, protocol};

/// One scrubber: what it knows of the packets that pass it. One for each worker; they share nothing.
#[derive(Debug)]
pub struct Scrubber {
    config: Config,
    fragments: Fragments,
    connections: Connections,
    sessions: Sessions,
    numbers: ip::Numbers,
    counters: Counters,
    own: VecDeque<Emitted>,
}

/// What all stages may use of a scrubber while one packet is at work.
pub(crate) struct Desk<'s> {
    pub now: Time,
    pub arrival: Arrival,
    /// Packets of our own go here.
    pub own: &'s mut VecDeque<Emitted>,
}

impl Desk<'_> {
    pub fn emit(&mut self, to: Side, buf: Buf, why: Rule) {
        self.own.push_back(Emitted { to, buf, why });
    }
}

impl Scrubber {
    /// One that has seen nothing. `seed` keys its tables and whatever must not be guessed; the same seed and packets give the same
    /// packets.
    pub fn new(config: Config, seed: [u8; 16]) -> Scrubber {
        Scrubber {
            fragments: Fragments::new(config.fragments),
            connections: Connections::new(&config, seed),
            sessions: Sessions::new(&config, seed),
            numbers: ip::Numbers::new(seed),
            counters: Counters::default(),
            own: VecDeque::new(),
            config,
        }
    }

    /// One packet, which starts at its IP header. `gso`: what the kernel left to do of its checksum and segmentation.
    pub fn process(&mut self, now: Time, arrival: Arrival, buf: &mut Buf, gso: &Gso) -> Verdict {
        let mut job = Job::new(&self.config);
        let mut desk = Desk { now, arrival, own: &mut self.own };
        let mut stages = Stages {
            fragments: &mut self.fragments,
            connections: &mut self.connections,
            sessions: &mut self.sessions,
            numbers: &mut self.numbers,
        };
        let outcome = match stages.work(&mut job, &mut desk, buf, gso) {
            Ok(outcome) => outcome,
            Err(Stop::Pass) => Outcome::Forward,
            Err(Stop::Hold) => Outcome::Hold,
            Err(Stop::Drop(rule)) => Outcome::Drop(rule),
        };
        let verdict = Verdict { outcome, met: job.met };
        self.counters.count(arrival.from, &verdict);
        verdict
    }

    /// The next packet that is not one that came: fragments of it, and packets of the scrubber's own.
    pub fn poll_emitted(&mut self) -> Option<Emitted> {
        self.own.pop_front()
    }

    /// When [`Scrubber::expire`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.connections.poll_timeout(), self.sessions.poll_timeout(), self.fragments.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Forget what is over.
    pub fn expire(&mut self, now: Time) {
        let arrival = Arrival { from: Side::Outside, link: 0 };
        let mut desk = Desk { now, arrival, own: &mut self.own };
        self.fragments.expire(now, &mut self.counters);
        self.sessions.expire(now);
        self.connections.expire(&self.config, &mut desk);
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What passed and what each rule did.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What it knows of connections.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }
}

struct Stages<'s> {
    fragments: &'s mut Fragments,
    connections: &'s mut Connections,
    sessions: &'s mut Sessions,
    numbers: &'s mut ip::Numbers,
}

impl Stages<'_> {
    fn work(
        &mut self,
        job: &mut Job<'_>,
        desk: &mut Desk<'_>,
        buf: &mut Buf,
        gso: &Gso,
    ) -> Result<Outcome, Stop> {
        let mut headers = ip::clean(job, desk, buf)?;
        if headers.fragment.is_some() {
            match self.fragments.take(job, desk, buf, &headers)? {
                Taken::Held => return Ok(Outcome::Hold),
                Taken::Whole(whole) => headers = whole,
            }
        }
        let ttl = self.transport(job, desk, buf, &mut headers, gso)?;
        ip::raise_ttl(job, buf, &headers, ttl);
        ip::finish(job, self.numbers, buf, &headers);
        ip::fit(job, desk, self.numbers, buf, &headers, gso)
    }

    /// The highest time to live that the packet's flow has had.
    fn transport(
        &mut self,
        job: &mut Job<'_>,
        desk: &mut Desk<'_>,
        buf: &mut Buf,
        headers: &mut Headers,
        gso: &Gso,
    ) -> Result<u8, Stop> {
        match headers.protocol {
            protocol::TCP => self.connections.segment(job, desk, buf, headers, gso),
            protocol::UDP => udp::clean(job, desk, self.sessions, buf, headers, gso),
            protocol::ICMP | protocol::ICMPV6 => {
                icmp::clean(job, desk, self.sessions, self.connections, buf, headers)
            }
            protocol::SCTP => sctp::clean(job, buf, headers).map(|()| headers.ttl),
            _ => Ok(headers.ttl),
        }
    }
}
