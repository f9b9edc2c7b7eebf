//! What the book of health ([`crate::health`]) hears, from whom, and in `problem` what is said of it.

mod problem;

use std::collections::HashMap;
use std::net::IpAddr;

use engine::{Dropped, Outbound, Stats, Traffic};
use sadb::sa::Selectors;
use sadb::spd::{Action, Class, Spd};
use sadb::{Counters, Direction, OutboundSad, SaIndex, Spi};
use sockmon::{SocketInfo, SocketState};
use wire::{AppId, DropReason, Flow, Services, protocol};

use super::Observers;
use crate::health::{ASSOCIATIONS, Ended, Outlook, Progress, Question, Sample, TroubleOwner};
use crate::plane::Halves;
use crate::plane::context::Context;
use documents::api_error::ApiError;

/// Every so many looks, associations are compared.
const ROUND: u32 = 2;

/// Drops beyond the first `seen` that are still remembered, and how many there were.
fn news(tally: &Stats, seen: u64) -> (Vec<Dropped>, u64) {
    (tally.drops_since(seen).copied().collect(), tally.noted())
}

fn sample(direction: Direction, spi: Spi, peer: IpAddr, selectors: Selectors, counters: &Counters) -> Sample {
    let drops = |reasons: &[DropReason]| reasons.iter().map(|reason| counters.drops_for(*reason)).sum();
    Sample {
        direction,
        spi,
        peer,
        selectors,
        packets: counters.packets,
        replayed: drops(&[DropReason::Replayed, DropReason::ReplayTooOld]),
        forged: drops(&[DropReason::AuthFailed]),
    }
}

fn counted((app, of): (AppId, [Traffic; 2])) -> (AppId, u64) {
    (app, of.iter().map(|traffic| traffic.packets).sum())
}

/// The association that a packet passes last: the others have carried it before it is known whether it gets through.
fn last_of_chain(sad: &OutboundSad, index: SaIndex) -> Option<&sadb::OutboundSa> {
    sad.get(*sad.chain(index).ok()?.members().last()?)
}

/// Packets of programs that an outbound association has sealed. One is counted when it takes its number, whatever the
/// crypto unit makes of it then.
fn data_that_left(counters: &Counters) -> u64 {
    let failed = counters.drops_for(DropReason::UnitFailed);
    counters.packets.saturating_sub(counters.dummies).saturating_sub(failed)
}

/// Whether policy demands protection for it, and the association that gives it.
fn ahead(engine: &mut Outbound, spd: &Spd, left: &HashMap<AppId, u64>, question: &Question) -> Outlook {
    let Question { who, app, flow, by_class } = question;
    let (protect, index) = match who {
        TroubleOwner::App(app) => {
            let (decision, index) = engine.preview_asking(*app, flow, Services::NONE);
            let demanded = matches!(decision.action, Action::Protect { .. });
            (if *by_class { is_of_protected_network(spd, *app, flow.remote) } else { demanded }, index.ok())
        }
        TroubleOwner::Rule(number) => match engine.preview_rule(*number, *app, flow) {
            Some(index) => (true, index.ok()),
            None => (false, None),
        },
        TroubleOwner::Answers => (true, engine.preview_answer(*app, flow).ok()),
    };
    let sad = engine.sad();
    let sa = index.and_then(|index| sad.get(index));
    let last = index.and_then(|index| last_of_chain(sad, index));
    let progress = Progress {
        left: left.get(app).copied().unwrap_or(0),
        carried: last.map_or(0, |sa| data_that_left(&sa.counters)),
        by: last.map(sadb::OutboundSa::spi),
    };
    Outlook { protect, spi: sa.map(sadb::OutboundSa::spi), progress, ..Outlook::default() }
}

/// Whether the application's policy protects the network of this peer, by whichever ports.
fn is_of_protected_network(spd: &Spd, app: AppId, peer: IpAddr) -> bool {
    let network = spd.get(app).and_then(|policy| policy.network(peer));
    network.is_some_and(|network| matches!(network.class, Class::Protected(_)))
}

impl Observers {
    /// Look whether what must be protected gets through; once a second.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(in crate::plane) async fn look_after_health(&mut self, context: Context<'_>) -> Result<(), ApiError> {
        self.hear_drops(context.halves).await?;
        let now = netio::clock::monotonic();
        let questions = self.health.questions();
        if !questions.is_empty() {
            let outlooks = self.outlooks(questions, context).await?;
            self.health.judge(&outlooks, now);
        }
        self.health.ticks = self.health.ticks.wrapping_add(1);
        if self.health.ticks.is_multiple_of(ROUND) {
            let samples = samples(context.halves).await?;
            self.health.compare(samples, now);
            if self.health.wants_sockets(now) {
                let monitor = context.monitor.get();
                let (sockets, netns) = (monitor.sockets()?, monitor.netns());
                drop(monitor);
                let in_state = |state| sockets.iter().filter(move |socket| socket.state == state);
                let waiting: Vec<(AppId, Flow)> = in_state(SocketState::SynSent)
                    .filter_map(|socket| Some((socket.app, socket.flow()?)))
                    .collect();
                self.health.waiting(&waiting, now);
                let is_here =
                    |socket: &&SocketInfo| socket.protocol == protocol::TCP && socket.netns == netns;
                let ports = in_state(SocketState::Listen).filter(is_here).map(|socket| socket.local.port());
                let open: Vec<Flow> = sockets.iter().filter(is_here).filter_map(SocketInfo::flow).collect();
                self.health.listening(&ports.collect(), &open);
            }
        }
        Ok(())
    }

    /// The engine's latest ends of packets.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(in crate::plane) async fn hear_drops(&mut self, halves: &Halves) -> Result<(), ApiError> {
        let [out, into] = self.health.seen;
        let ahead = halves.ask_outbound(move |half| {
            let sad = half.engine.sad();
            half.unsent.keep(|(peer, spi)| sad.named(spi, peer).is_some());
            (news(half.engine.stats(), out), half.unsent.clone())
        });
        let ((outbound, out), unsent) = ahead.await?;
        self.health.unsent = unsent;
        let (inbound, into) = halves.ask_inbound(move |half| news(half.engine.stats(), into)).await?;
        self.health.seen = [out, into];
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let all = outbound.into_iter().map(|one| (Direction::Outbound, one));
        for (direction, dropped) in all.chain(inbound.into_iter().map(|one| (Direction::Inbound, one))) {
            let at = wall.saturating_sub(now.since(dropped.at));
            let ended = Ended { id: self.denials.next_id(), at, direction, dropped };
            self.health.note(ended, now);
        }
        Ok(())
    }

    async fn outlooks(
        &self,
        questions: Vec<Question>,
        context: Context<'_>,
    ) -> Result<Vec<Outlook>, ApiError> {
        let spd = context.policy.spd().clone();
        let (out, into) = (questions.clone(), questions.clone());
        let ahead = context.halves.ask_outbound(move |half| {
            let left: HashMap<AppId, u64> = half.engine.stats().left_by_app().map(counted).collect();
            out.iter().map(|question| ahead(&mut half.engine, &spd, &left, question)).collect::<Vec<_>>()
        });
        let ahead = ahead.await?;
        let answered = context.halves.ask_inbound(move |half| {
            let all: Vec<Selectors> =
                half.engine.sad().list().map(|sa| sa.config().effective_selectors()).collect();
            let is_served = |Question { app, flow, .. }: &Question| {
                all.iter().any(|selectors| selectors.covers(flow) && selectors.serves(*app))
            };
            into.iter().map(is_served).collect::<Vec<_>>()
        });
        let answered = answered.await?;
        let by_uplink = context.host.by_uplink(self.health.refused_at_devices());
        let outlook = |((ahead, answered), question): ((Outlook, bool), &Question)| {
            let by_uplink = by_uplink.contains(&question.flow.remote);
            Outlook { answered, by_uplink, ..ahead }
        };
        Ok(ahead.into_iter().zip(answered).zip(&questions).map(outlook).collect())
    }
}

/// What is known of the first associations of each direction.
async fn samples(halves: &Halves) -> Result<Vec<Sample>, ApiError> {
    let outbound = halves.ask_outbound(|half| {
        let of = |sa: &sadb::OutboundSa| {
            let config = sa.config();
            let selectors = config.effective_selectors();
            sample(Direction::Outbound, sa.spi(), config.endpoints.remote, selectors, &sa.counters)
        };
        half.engine.sad().list().take(ASSOCIATIONS).map(|(_, sa)| of(sa)).collect::<Vec<_>>()
    });
    let mut samples = outbound.await?;
    let inbound = halves.ask_inbound(|half| {
        let of = |sa: &sadb::InboundSa| {
            let config = sa.config();
            let selectors = config.effective_selectors();
            sample(Direction::Inbound, sa.spi(), config.endpoints.remote, selectors, &sa.counters)
        };
        half.engine.sad().list().take(ASSOCIATIONS).map(of).collect::<Vec<_>>()
    });
    samples.extend(inbound.await?);
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_whose_unit_failed_have_not_left() {
        let mut counters = Counters::default();
        (0..7).for_each(|_| counters.carried(wire::Time(1), 100));
        (0..2).for_each(|_| counters.dropped(DropReason::UnitFailed));
        counters.dropped(DropReason::SaExpired);
        counters.dummies = 1;
        assert_eq!(data_that_left(&counters), 4);
    }

    #[test]
    fn a_network_is_protected_whichever_ports_its_items_choose() {
        let text = "application app {\n  network 192.0.2.2 protected P;\n  network 192.0.2.3 trusted;\n  \
                    protection P { localport=7000 remoteport=any encryption mandatory; }\n}\n";
        let compiled = policy::compile(&policy::parse("p", text), &mut policy::AppTable::new(), 1);
        let app = compiled.applications[0].id;
        let is_protected = |peer: [u8; 4]| is_of_protected_network(&compiled.spd, app, peer.into());
        assert_eq!([2, 3, 4].map(|last| is_protected([192, 0, 2, last])), [true, false, false]);
    }
}
