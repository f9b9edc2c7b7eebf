//! Whether what must be protected gets through: flows that try and get nothing through, and the latest ends of packets
//! in the engine.
//!
//! What enters, once a second: the engine's latest drops, the associations by which this host's kernel sends nothing, and
//! every few seconds the counters of associations and, where something is suspicious, the sockets that wait for a
//! connection or listen.
//! What leaves: problems for `status`, `/v1/health` and `doctor`, and ends of packets for `explain --drop`. Nothing is
//! added to a packet's way: flows that end are noted by the engine anyway.

mod cause;
mod problem;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use engine::{Dropped, SPD_RULE};
use sadb::sa::Selectors;
use sadb::{Direction, Spi};
use wire::{AppId, DropReason, Flow, Time, protocol, record};

use crate::datapath::{GIVEN_UP, PATIENCE, Unsent};
use documents::associations::groups_of;

pub use cause::Cause;
pub(crate) use problem::TroubleReport;

/// What the kernel half refuses counts for at least so long after the last refusal. It is shorter than the ten
/// seconds within which `status` must say that all is well again.
const REFUSAL_QUIET: Duration = Duration::from_secs(8);
/// Troubles that are kept, and those of one application: a program that tries everybody hides nobody else's.
const TROUBLES: usize = 256;
const TROUBLES_EACH: usize = 32;
/// Ends of packets that are kept.
const DROPS: usize = 1024;
/// Associations that are looked at.
pub(crate) const ASSOCIATIONS: usize = 4096;
/// What is seen only while it goes on is believed for so long.
const EVIDENCE: Duration = Duration::from_secs(15);

/// Whether selectors speak of multicast groups and nothing else.
fn is_to_groups(selectors: &Selectors) -> bool {
    groups_of(*selectors).any(|groups| groups.remote == selectors.remote)
}

/// The owner of traffic: an application, or the SPD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleOwner {
    /// Traffic of an application, by its own policy.
    App(AppId),
    /// Traffic that this rule of the SPD speaks for, by the number that its packets carry.
    Rule(u32),
    /// Answers that this host's kernel makes without a socket to protected packets.
    Answers,
}

impl TroubleOwner {
    /// The owner of a packet; `None`: a socket without policy that asked for protection itself (docs/socket-api.md).
    /// Any user may ask for what no association gives, so that is no trouble of this host's.
    fn of(dropped: &Dropped) -> Option<TroubleOwner> {
        match dropped.app {
            _ if dropped.rule & SPD_RULE != 0 => Some(TroubleOwner::Rule(dropped.rule)),
            AppId::NONE => (dropped.mark & record::PROOF != 0).then_some(TroubleOwner::Answers),
            app => Some(TroubleOwner::App(app)),
        }
    }
}

/// Traffic that does not get through to a peer.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The cause for which the traffic does not get through.
    pub cause: Cause,
    /// The time since which it does not get through.
    pub since: Time,
    /// The time of the last attempt to send it.
    pub last: Time,
    /// A flow of this traffic.
    pub flow: Flow,
    /// The association that it would have left by, zero if none.
    pub spi: u32,
    /// The application that sent it, if any.
    app: AppId,
    /// The host's routes were seen to lead by another device than an uplink since then; only for [`Cause::NoUplink`].
    elsewhere: bool,
    /// What had got through at the first look, where that alone tells whether something does.
    progress: Option<Progress>,
}

impl Trouble {
    fn new(cause: Cause, app: AppId, flow: Flow, now: Time) -> Trouble {
        Trouble { cause, since: now, last: now, flow, spi: 0, app, elsewhere: false, progress: None }
    }
}

/// What had left of somebody's packets at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Packets of the application that left protected, to whomever.
    pub left: u64,
    /// Packets of whomever that the association carried, or the last one of its chain; dummies do not count.
    pub carried: u64,
    /// The SPI of that association.
    pub by: Option<Spi>,
}

impl Progress {
    /// Whether packets of the application may have got through by the association since `before`.
    fn has_moved(&self, before: &Progress) -> bool {
        // Another association has carried nothing before.
        let carried = if self.by == before.by { before.carried } else { 0 };
        self.left > before.left && self.carried > carried
    }
}

/// A flow whose outlook is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub who: TroubleOwner,
    pub app: AppId,
    pub flow: Flow,
    /// The kernel half refused it, which tells no local port: the class of the peer's network decides.
    pub by_class: bool,
}

/// What the data threads say of a flow now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlook {
    /// Whether policy demands protection for the flow.
    pub protect: bool,
    /// The SPI of the outbound association that serves the flow, if one does.
    pub spi: Option<Spi>,
    /// Whether an inbound association serves the flow.
    pub answered: bool,
    /// The host's routes lead to the peer by an uplink. It is asked for those of [`HealthBook::refused_at_devices`]
    /// alone.
    pub by_uplink: bool,
    /// What has got through by now.
    pub progress: Progress,
}

/// Packets of an association, at two times.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub direction: Direction,
    pub spi: Spi,
    pub peer: IpAddr,
    pub selectors: Selectors,
    pub packets: u64,
    pub replayed: u64,
    pub forged: u64,
}

/// An association by which something goes wrong.
#[derive(Clone, Debug)]
struct Suspicion {
    cause: Cause,
    selectors: Selectors,
    since: Time,
    last: Time,
    /// Who is known to wait for an answer, and when that was seen; only for [`Cause::Unanswered`].
    waits: Option<(AppId, Time)>,
}

/// The end of a packet in the engine.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The number of this end. Refusals of the kernel half have theirs from the same count.
    pub id: u64,
    /// The time of the end, since 1970.
    pub at: Duration,
    /// The direction in which the packet went.
    pub direction: Direction,
    /// What the engine noted.
    pub dropped: Dropped,
}

/// The key of a trouble: whose it is, the peer's address and this host's, since associations may serve one address and
/// not another.
type Ends = (TroubleOwner, IpAddr, IpAddr);

fn is_of_rule_over_tcp(ends: &Ends, trouble: &Trouble) -> bool {
    matches!(ends.0, TroubleOwner::Rule(_)) && trouble.flow.protocol == protocol::TCP
}

/// All that is known of traffic that does not get through.
#[derive(Debug, Default)]
pub struct HealthBook {
    troubles: BTreeMap<Ends, Trouble>,
    suspicions: HashMap<(Direction, IpAddr, Spi), Suspicion>,
    samples: HashMap<(Direction, IpAddr, Spi), Sample>,
    drops: VecDeque<Ended>,
    /// The number of ends that are kept of each application and reason.
    kinds: BTreeMap<(AppId, DropReason), usize>,
    /// Peers whose association has ended at a hard limit, and when.
    ended: BTreeMap<IpAddr, Time>,
    /// Drops that the engine's halves had noted at the last look.
    pub(crate) seen: [u64; 2],
    /// Associations by which the kernel sends nothing, at the last look.
    pub(crate) unsent: Unsent,
    pub(crate) ticks: u32,
}

impl HealthBook {
    /// An outbound association has ended at a hard limit.
    pub fn reached_limit(&mut self, peer: IpAddr, now: Time) {
        self.ended.insert(peer, now);
        while self.ended.len() > TROUBLES {
            self.ended.pop_first();
        }
    }

    /// Ends of packets, the newest first.
    pub fn drops(&self) -> impl Iterator<Item = &Ended> {
        self.drops.iter().rev()
    }

    pub(crate) fn note(&mut self, ended: Ended, now: Time) {
        let dropped = ended.dropped;
        if ended.direction == Direction::Outbound
            && let (Some(cause), Some(flow)) = (Cause::of(dropped.reason), dropped.flow)
            && let Some(who) = TroubleOwner::of(&dropped)
        {
            let (spi, since) = (dropped.spi, dropped.at.min(now));
            self.tried(who, Trouble { spi, since, ..Trouble::new(cause, dropped.app, flow, now) });
        }
        self.remember(ended);
    }

    /// Remember an end in the place of the oldest one of the kind that has most places: whoever sends packets that end
    /// for many reasons pushes out those, and nobody else's.
    fn remember(&mut self, ended: Ended) {
        let kind = |ended: &Ended| (ended.dropped.app, ended.dropped.reason);
        *self.kinds.entry(kind(&ended)).or_default() += 1;
        self.drops.push_back(ended);
        if self.drops.len() <= DROPS {
            return;
        }
        let Some(largest) = self.kinds.iter().max_by_key(|(_, count)| **count).map(|(kind, _)| *kind) else {
            return;
        };
        if let Some(at) = self.drops.iter().position(|ended| kind(ended) == largest) {
            self.drops.remove(at);
        }
        if let Some(count) = self.kinds.get_mut(&largest) {
            *count -= 1;
        }
        self.kinds.retain(|_, count| *count > 0);
    }

    fn tried(&mut self, who: TroubleOwner, mut fresh: Trouble) {
        if fresh.cause == Cause::NoAssociation && self.ended.contains_key(&fresh.flow.remote) {
            fresh.cause = Cause::LimitReached;
        }
        let ends = (who, fresh.flow.remote, fresh.flow.local);
        if let Some(known) = self.troubles.get_mut(&ends) {
            let Trouble { since, elsewhere, progress, .. } = *known;
            *known = Trouble { since, elsewhere, progress, ..fresh };
        } else if self.troubles.len() < TROUBLES && self.troubles_of(who) < TROUBLES_EACH {
            self.troubles.insert(ends, fresh);
        }
    }

    fn troubles_of(&self, who: TroubleOwner) -> usize {
        self.troubles.keys().filter(|ends| ends.0 == who).count()
    }

    /// The kernel half has refused a packet to `peer`: to a multicast group, since no association takes it there, or by
    /// a device that is no uplink.
    pub(crate) fn refused(&mut self, app: AppId, peer: SocketAddr, protocol: u8, cause: Cause, now: Time) {
        if app == AppId::NONE {
            return;
        }
        let local = match peer.ip() {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let flow = Flow {
            local,
            remote: peer.ip(),
            local_port: 0,
            remote_port: peer.port(),
            protocol,
            opaque: false,
        };
        self.tried(TroubleOwner::App(app), Trouble::new(cause, app, flow, now));
    }

    /// The flows whose outlook is to be asked for.
    pub(crate) fn questions(&self) -> Vec<Question> {
        let question = |((who, ..), trouble): (&Ends, &Trouble)| Question {
            who: *who,
            app: trouble.app,
            flow: trouble.flow,
            by_class: trouble.cause.is_of_the_kernel_half(),
        };
        self.troubles.iter().map(question).collect()
    }

    /// The peers whose packets are refused at devices: it is to be asked which device leads there.
    pub(crate) fn refused_at_devices(&self) -> BTreeSet<IpAddr> {
        let refused = self.troubles.iter().filter(|(_, trouble)| trouble.cause == Cause::NoUplink);
        refused.map(|((_, peer, _), _)| *peer).collect()
    }

    /// What the data threads and the host's routes say of them, in the same order.
    pub(crate) fn judge(&mut self, outlooks: &[Outlook], now: Time) {
        let mut outlooks = outlooks.iter();
        self.troubles.retain(|_, trouble| {
            let Some(outlook) = outlooks.next() else { return true };
            if !outlook.protect || now.since(trouble.last) > GIVEN_UP {
                return false;
            }
            let is_quiet = now.since(trouble.last) > REFUSAL_QUIET;
            // Nobody answers for a group, and which association served it is not known: it is well when nothing is
            // refused any more.
            if trouble.cause == Cause::NoGroup {
                return !is_quiet;
            }
            // That nothing is refused says little: the next attempt of a TCP connection can be two minutes away. It
            // is well when the routes lead by an uplink and have led elsewhere before. Where they have not, the
            // program sends by a device of its own choice (SO_BINDTODEVICE, a mark), so the routes say nothing of it,
            // and the trouble stays until it has not tried for long.
            if trouble.cause == Cause::NoUplink {
                trouble.elsewhere |= !outlook.by_uplink;
                return !(is_quiet && outlook.by_uplink && trouble.elsewhere);
            }
            // An association serves the flow and could not protect the packet, for a member of its chain is gone, say:
            // only what gets through tells.
            if trouble.cause.is_of_the_packet() {
                let before = trouble.progress.get_or_insert(outlook.progress);
                return !outlook.progress.has_moved(before);
            }
            match (outlook.spi, trouble.cause) {
                (None, _) => true,
                // The association that came to its end is there still.
                (Some(spi), Cause::LimitReached) if spi.0 == trouble.spi => true,
                (Some(_), _) if outlook.answered => false,
                (Some(_), _) => {
                    trouble.cause = Cause::OneDirection;
                    true
                }
            }
        });
        self.ended.retain(|_, at| now.since(*at) < GIVEN_UP);
    }

    /// Counters of all associations, compared with those of the last time.
    pub(crate) fn compare(&mut self, samples: Vec<Sample>, now: Time) {
        let before = std::mem::take(&mut self.samples);
        let key = |sample: &Sample| (sample.direction, sample.peer, sample.spi);
        let grown = |sample: &Sample, count: &dyn Fn(&Sample) -> u64| {
            count(sample) > before.get(&key(sample)).map_or(0, count)
        };
        let inbound: Vec<&Sample> = samples.iter().filter(|s| s.direction == Direction::Inbound).collect();
        let mut now_suspicious = Vec::new();
        let mut innocent = Vec::new();
        for sample in &samples {
            let carried = grown(sample, &|s| s.packets);
            let cause = match sample.direction {
                Direction::Inbound if carried => None,
                Direction::Inbound if grown(sample, &|s| s.replayed) => Some(Cause::Replayed),
                Direction::Inbound if grown(sample, &|s| s.forged) => Some(Cause::NotAuthentic),
                Direction::Inbound => continue,
                // A group answers nobody.
                Direction::Outbound if is_to_groups(&sample.selectors) => None,
                Direction::Outbound => {
                    let any = |selectors: Selectors| Selectors { app: None, ..selectors };
                    let mine = any(sample.selectors);
                    let serving = inbound.iter().filter(|s| any(s.selectors).meets(&mine));
                    let serving: Vec<_> = serving.collect();
                    match (serving.is_empty(), serving.iter().any(|s| grown(s, &|s| s.packets))) {
                        (true, _) if carried => Some(Cause::OneDirection),
                        (false, false) if carried => Some(Cause::Unanswered),
                        (true, _) | (false, false) => continue,
                        (false, true) => None,
                    }
                }
            };
            match cause {
                Some(cause) => now_suspicious.push((key(sample), cause, sample.selectors)),
                None => innocent.push(key(sample)),
            }
        }
        for key in innocent {
            self.suspicions.remove(&key);
        }
        for (key, cause, selectors) in now_suspicious {
            if self.suspicions.len() >= TROUBLES && !self.suspicions.contains_key(&key) {
                continue;
            }
            let fresh = Suspicion { cause, selectors, since: now, last: now, waits: None };
            let known = self.suspicions.entry(key).or_insert_with(|| fresh.clone());
            known.last = now;
            // The answers have an association by now, or none any more: what was wrong is another thing.
            if known.cause != cause {
                *known = fresh;
            }
        }
        self.samples = samples.into_iter().map(|sample| (key(&sample), sample)).collect();
        // An association that is gone, and one by which nobody tries any more.
        let there = &self.samples;
        let believed = |one: &Suspicion| if one.cause.is_of_arrivals() { EVIDENCE } else { GIVEN_UP };
        self.suspicions.retain(|key, one| there.contains_key(key) && now.since(one.last) < believed(one));
    }

    /// Whether it matters who waits for an answer, or who listens.
    pub(crate) fn wants_sockets(&self, now: Time) -> bool {
        let is_late = |since: Time| now.since(since) >= PATIENCE / 2;
        self.suspicions
            .values()
            .any(|one| matches!(one.cause, Cause::Unanswered | Cause::OneDirection) && is_late(one.since))
            || self.troubles.iter().any(|(ends, one)| is_of_rule_over_tcp(ends, one) && is_late(one.since))
    }

    /// The ports on which this host listens, and the flows of its other sockets. A rule of the SPD may take a
    /// connection in clear and protect the answer, so anybody who asks for one makes an answer that no association
    /// serves: that is no trouble of this host's as long as there is no socket of the connection.
    pub(crate) fn listening(&mut self, ports: &BTreeSet<u16>, open: &[Flow]) {
        self.troubles.retain(|ends, one| {
            let Flow { local_port, .. } = one.flow;
            !is_of_rule_over_tcp(ends, one) || !ports.contains(&local_port) || open.contains(&one.flow)
        });
    }

    /// Connections of applications that wait for their first answer.
    pub(crate) fn waiting(&mut self, waiting: &[(AppId, Flow)], now: Time) {
        for one in self.suspicions.values_mut() {
            let found = waiting.iter().find(|(app, flow)| {
                one.selectors.covers(flow) && one.selectors.serves(*app) && *app != AppId::NONE
            });
            if let Some((app, _)) = found {
                one.waits = Some((*app, now));
            }
        }
    }
}

#[cfg(test)]
mod tests;
