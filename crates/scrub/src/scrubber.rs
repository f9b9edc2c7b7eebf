//! The order of the rules: one packet from its first octet to the next link.

mod save;

use crate::config::{Config, Feed};
use crate::counters::Counters;
use crate::fragments::{FragmentResult, Fragments};
use crate::rule::Rule;
use crate::saved::RecordKind;
use crate::sessions::{SessionEnds, SessionRecord, Sessions};
use crate::tcp::{BATCH, ConnectionRecord, Connections, FastPath};
use crate::verdict::{Arrival, Context, Emitted, Job, Outcome, Side, Stop, Verdict};
use crate::{icmp, ip, sctp, security, udp};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wire::ip::Headers;
use wire::{Buf, Gso, Time, ah, protocol};

/// One scrubber, with what it knows of the packets that pass it. There is one for each worker; they share nothing.
#[derive(Debug)]
pub struct Scrubber {
    config: Config,
    fast_path: FastPath,
    fragments: Fragments,
    connections: Connections,
    sessions: Sessions,
    numbers: ip::Numbers,
    answers: ip::Answers,
    counters: Counters,
    emitted: VecDeque<Emitted>,
}

impl Scrubber {
    /// A scrubber that has seen nothing. `seed` keys its tables and whatever must not be guessed; the same seed and
    /// packets give the same packets.
    pub fn new(config: Config, seed: [u8; 16]) -> Scrubber {
        Scrubber {
            fragments: Fragments::new(config.fragments),
            connections: Connections::new(&config, seed),
            sessions: Sessions::new(&config, seed),
            numbers: ip::Numbers::new(seed),
            answers: ip::Answers::new(),
            counters: Counters::default(),
            emitted: VecDeque::new(),
            fast_path: FastPath::of(&config),
            config,
        }
    }

    /// Process one packet, which starts at its IP header. `gso` describes the checksum and segmentation work that the
    /// kernel left; it is updated together with the headers.
    pub fn process(&mut self, now: Time, arrival: Arrival, buf: &mut Buf, gso: &mut Gso) -> Verdict {
        if let Some(met) = self.connections.fast_path(&self.config, &self.fast_path, now, arrival, buf, gso) {
            self.counters.count_fast_path(arrival.from, met);
            return Verdict { outcome: Outcome::Forward, met };
        }
        let mut job = Job::new(&self.config);
        let mut context = Context { now, arrival, emitted: &mut self.emitted };
        let mut stages = Stages {
            fragments: &mut self.fragments,
            connections: &mut self.connections,
            sessions: &mut self.sessions,
            numbers: &mut self.numbers,
            answers: &mut self.answers,
        };
        let outcome = match stages.work(&mut job, &mut context, buf, gso) {
            Ok(outcome) => outcome,
            Err(Stop::Pass) => Outcome::Forward,
            Err(Stop::Drop(rule)) => Outcome::Drop(rule),
        };
        let verdict = Verdict { outcome, met: job.met };
        self.counters.count(arrival.from, &verdict);
        verdict
    }

    /// Prepare for packets that will be processed next, in a batch of at most [`Scrubber::BATCH`]. The state of their
    /// connections is fetched from memory for all of them together. The call changes how long processing takes, and
    /// nothing else.
    pub fn expect<'p>(&mut self, packets: impl IntoIterator<Item = (Arrival, &'p [u8])>) {
        self.connections.expect(packets);
    }

    /// The largest number of packets in one call of [`Scrubber::expect`].
    pub const BATCH: usize = BATCH;

    /// The next packet to send beside those that were processed: a fragment of one of them, or a packet that the
    /// scrubber made itself.
    pub fn poll_emitted(&mut self) -> Option<Emitted> {
        self.emitted.pop_front()
    }

    /// The time at which [`Scrubber::expire`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.connections.poll_timeout(), self.sessions.poll_timeout(), self.fragments.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Forget the fragments, sessions and connections whose time is over.
    pub fn expire(&mut self, now: Time) {
        let arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
        let mut context = Context { now, arrival, emitted: &mut self.emitted };
        self.fragments.expire(now, &self.config, &mut self.counters);
        self.sessions.expire(now);
        self.connections.expire(&self.config, &mut context);
    }

    /// The configuration of the scrubber.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters of what passed and what each rule did.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn restore_session(&mut self, now: Time, record: &SessionRecord) -> bool {
        self.sessions.restore(now, record)
    }

    pub(crate) fn restore_connection(&mut self, now: Time, record: &ConnectionRecord) -> bool {
        self.connections.restore(&self.config, now, record)
    }

    pub(crate) fn take_news(&mut self, now: Time) -> Option<RecordKind> {
        self.connections.take_news(&self.config, now)
    }

    pub(crate) fn begin_feed(&mut self, feed: Feed) {
        self.config.feed = feed;
        self.connections.begin_feed(&self.config);
    }

    pub(crate) fn all_is_news(&mut self) {
        self.connections.tell_all();
    }

    pub(crate) fn forget_connection(&mut self, outside: SocketAddr, inside: SocketAddr, realm: u32) {
        self.connections.forget(outside, inside, realm);
    }

    /// The connections that the scrubber knows.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }
}

struct Stages<'s> {
    fragments: &'s mut Fragments,
    connections: &'s mut Connections,
    sessions: &'s mut Sessions,
    numbers: &'s mut ip::Numbers,
    answers: &'s mut ip::Answers,
}

impl Stages<'_> {
    fn work(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        buf: &mut Buf,
        gso: &mut Gso,
    ) -> Result<Outcome, Stop> {
        let mut headers = ip::clean(job, buf, gso)?;
        let mut joined = false;
        if headers.fragment.is_some() {
            match self.fragments.take(job, context, buf, &headers)? {
                FragmentResult::Held => return Ok(Outcome::Hold),
                FragmentResult::Loose => {}
                FragmentResult::Whole => {
                    // What the last fragment's sender left to do is not of what all of them made.
                    *gso = Gso::default();
                    (headers, joined) = (ip::clean(job, buf, gso)?, true);
                }
                FragmentResult::Seen(whole) => return self.see(job, context, whole),
            }
        } else {
            ip::answer(job, context, self.answers, buf, &headers, gso)?;
        }
        // A fragment that nobody puts together has no transport that could be read.
        if headers.fragment.is_none() {
            let ttl = self.transport(job, context, buf, &mut headers, gso)?;
            ip::raise_ttl(job, buf, &mut headers, ttl);
        }
        ip::finish(job, self.numbers, buf, &headers, gso);
        ip::fit(job, context, self.numbers, buf, &headers, gso, joined)
    }

    /// Examine the packet that fragments would have made, where they go on as they are. It may still be refused with
    /// the last of them.
    fn see(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        whole: Option<Buf>,
    ) -> Result<Outcome, Stop> {
        if let Some(mut buf) = whole {
            let mut gso = Gso::default();
            let mut headers = ip::clean(job, &mut buf, &mut gso)?;
            self.transport(job, context, &mut buf, &mut headers, &gso)?;
        }
        Err(Stop::Pass)
    }

    /// Clean the transport part. Returns the highest time to live that the packet's flow has had.
    fn transport(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        buf: &mut Buf,
        headers: &mut Headers,
        gso: &Gso,
    ) -> Result<u8, Stop> {
        security::sanctioned(job, buf, headers)?;
        if !gso.fits(headers.header_len, headers.protocol) {
            // Whoever finishes it would write somewhere else, behind all that looks at it.
            return Err(Stop::Drop(match headers.protocol {
                protocol::TCP => Rule::TcpChecksum,
                protocol::UDP => Rule::UdpLength,
                _ => Rule::IcmpEcho,
            }));
        }
        if headers.protocol == protocol::AH && job.watches(Rule::AuthenticatedInside) {
            self.note(context, headers, (0, 0));
            return self.authenticated(job, context, buf, headers);
        }
        self.upper(job, context, buf, headers, gso)
    }

    /// Rule V.2: a reader past an authentication header sees the same connections as in packets without one. The
    /// content is examined like any other, but a packet that would have to be changed there is dropped.
    fn authenticated(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        buf: &mut Buf,
        headers: &mut Headers,
    ) -> Result<u8, Stop> {
        let Ok(mut inner) = ah::behind(buf.as_slice(), headers) else {
            job.refuse(Rule::AuthenticatedInside)?;
            return Ok(headers.ttl);
        };
        if matches!(inner.protocol, protocol::IPV4 | protocol::IPV6) {
            if !security::may_speak(job.config, headers) {
                job.refuse(Rule::AuthenticatedInside)?;
            }
            return Ok(headers.ttl);
        }
        if !job.config.protocols.contains(inner.protocol) {
            job.refuse(Rule::V4Protocol)?;
        }
        let before = headers.upper(buf.as_slice()).to_vec();
        let ttl = self.upper(job, context, buf, &mut inner, &Gso::default())?;
        headers.total_len = inner.total_len;
        if headers.upper(buf.as_slice()) != before {
            job.refuse(Rule::AuthenticatedInside)?;
        }
        Ok(ttl)
    }

    /// Clean the transport protocol of a packet, by which its flow is known.
    fn upper(
        &mut self,
        job: &mut Job<'_>,
        context: &mut Context<'_>,
        buf: &mut Buf,
        headers: &mut Headers,
        gso: &Gso,
    ) -> Result<u8, Stop> {
        match headers.protocol {
            protocol::TCP => self.connections.segment(job, context, buf, headers, gso),
            protocol::UDP => udp::clean(job, context, self.sessions, buf, headers, gso),
            protocol::ICMP | protocol::ICMPV6 => {
                icmp::clean(job, context, self.sessions, self.connections, buf, headers, gso)
            }
            protocol::SCTP => {
                let ports = sctp::clean(job, buf, headers)?;
                self.note(context, headers, ports);
                Ok(headers.ttl)
            }
            _ => {
                self.note(context, headers, (0, 0));
                Ok(headers.ttl)
            }
        }
    }

    /// Remember a packet's flow, so that errors about it are believed (rule I.2).
    fn note(&mut self, context: &Context<'_>, headers: &Headers, ports: (u16, u16)) {
        let (src, dst) = ((headers.src, ports.0), (headers.dst, ports.1));
        let talk =
            SessionEnds::of(context.arrival.from, headers.protocol, src, dst).in_realm(context.arrival.realm);
        self.sessions.note(context.now, &talk, context.arrival.from, headers.ttl);
    }
}
