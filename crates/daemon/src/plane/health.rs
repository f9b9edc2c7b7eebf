//! What the book of health ([`crate::health`]) hears, from whom, and in `problem` what is said of it.

mod problem;

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::{Dropped, Tally};
use netio::link::Links;
use sadb::sa::Selectors;
use sadb::{Counters, Direction, Spi};
use sockmon::SocketState;
use wire::{AppId, DropReason, Flow, Services};

use super::Plane;
use crate::health::{ASSOCIATIONS, Ended, Outlook, Sample};
use crate::refused::Refused;

/// Every so many looks, associations are compared.
const ROUND: u32 = 2;

/// Drops beyond the first `seen` that are still remembered, and how many there were.
fn news(tally: &Tally, seen: u64) -> (Vec<Dropped>, u64) {
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

impl Plane {
    /// Look whether what must be protected gets through; once a second.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub async fn look_after_health(&mut self) -> Result<(), Refused> {
        self.hear_drops().await?;
        let now = netio::clock::monotonic();
        let questions = self.health.questions();
        if !questions.is_empty() {
            let outlooks = self.outlooks(questions).await?;
            self.health.judge(&outlooks, now);
        }
        self.health.ticks = self.health.ticks.wrapping_add(1);
        if self.health.ticks.is_multiple_of(ROUND) {
            let samples = self.samples().await?;
            self.health.compare(samples, now);
            if self.health.wants_sockets(now)
                && let Some(monitor) = &self.monitor
            {
                let sockets = monitor.get().sockets()?;
                let waits = |state| matches!(state, SocketState::SynSent);
                let waiting: Vec<(AppId, Flow)> = sockets
                    .iter()
                    .filter(|socket| waits(socket.state))
                    .filter_map(|socket| Some((socket.app, socket.flow()?)))
                    .collect();
                self.health.waiting(&waiting, now);
            }
        }
        Ok(())
    }

    /// The engine's latest ends of packets.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub async fn hear_drops(&mut self) -> Result<(), Refused> {
        let [out, into] = self.health.seen;
        let (outbound, out) = self.outbound.ask(move |half| news(half.engine.tally(), out)).await?;
        let (inbound, into) = self.inbound.ask(move |half| news(half.engine.tally(), into)).await?;
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

    async fn outlooks(&self, questions: Vec<(AppId, Flow)>) -> Result<Vec<Outlook>, Refused> {
        let asked = questions.clone();
        let peers: Vec<IpAddr> = questions.iter().map(|(_, flow)| flow.remote).collect();
        let outbound = self.outbound.ask(move |half| {
            let look = |(app, flow): &(AppId, Flow)| {
                let (decision, index) = half.engine.preview_asking(*app, flow, Services::NONE);
                let protect = matches!(decision.action, sadb::spd::Action::Protect { .. });
                let sad = half.engine.sad();
                (protect, index.ok().and_then(|index| sad.get(index)).map(|sa| sa.spi()))
            };
            asked.iter().map(look).collect::<Vec<_>>()
        });
        let outbound = outbound.await?;
        let inbound = self.inbound.ask(move |half| {
            let all: Vec<Selectors> =
                half.engine.sad().list().map(|sa| sa.config().effective_selectors()).collect();
            let is_served = |(app, flow): &(AppId, Flow)| {
                all.iter().any(|selectors| selectors.covers(flow) && selectors.serves(*app))
            };
            questions.iter().map(is_served).collect::<Vec<_>>()
        });
        let inbound = inbound.await?;
        let by_uplink = self.by_uplink(self.health.refused_at_devices());
        let outlook = |(((protect, spi), answered), peer)| {
            let by_uplink = by_uplink.contains(&peer);
            Outlook { protect, spi, answered, by_uplink }
        };
        Ok(outbound.into_iter().zip(inbound).zip(peers).map(outlook).collect())
    }

    /// Those of the peers that an ordinary packet of this host reaches by an uplink.
    fn by_uplink(&self, peers: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        if peers.is_empty() {
            return peers;
        }
        let Ok(mut links) = Links::open() else { return BTreeSet::new() };
        let is_uplink = |index: u32| self.uplinks.iter().any(|uplink| uplink.index == index);
        let leads = |peer: &IpAddr| links.route_to(*peer).is_ok_and(|route| is_uplink(route.index));
        peers.into_iter().filter(leads).collect()
    }

    async fn samples(&self) -> Result<Vec<Sample>, Refused> {
        let outbound = self.outbound.ask(|half| {
            let of = |sa: &sadb::OutboundSa| {
                let config = sa.config();
                let selectors = config.effective_selectors();
                sample(Direction::Outbound, sa.spi(), config.endpoints.remote, selectors, &sa.counters)
            };
            half.engine.sad().list().take(ASSOCIATIONS).map(|(_, sa)| of(sa)).collect::<Vec<_>>()
        });
        let mut samples = outbound.await?;
        let inbound = self.inbound.ask(|half| {
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
}
