//! Lives of associations in a capture's time: when they begin, and what is left of those that ended.
//!
//! The engine forgets an association behind a hard limit, since a daemon's policy says what happens next. Where associations
//! are all the policy there is, forgetting one would send its traffic in clear: so its selectors stay, as a refusal.

use std::net::IpAddr;

use engine::{Event, Inbound, Outbound};
use sadb::sa::{Life, LifeState};
use sadb::{Direction, SaName, Selectors, Spi};
use wire::{Flow, Time};

/// What is remembered of every association.
#[derive(Debug, Default)]
pub(super) struct Lives {
    began: bool,
    outbound: Vec<KnownLives>,
    inbound: Vec<(SaName, bool)>,
}

#[derive(Debug)]
struct KnownLives {
    spi: Spi,
    remote: IpAddr,
    selectors: Selectors,
    dead: bool,
}

impl Lives {
    /// The first frame is here: what was added before begins its life with it.
    pub fn begin(&mut self, now: Time, outbound: &mut Outbound, inbound: &mut Inbound) {
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        self.outbound = outbound
            .sad()
            .list()
            .map(|(_, sa)| KnownLives {
                spi: sa.spi(),
                remote: sa.config().endpoints.remote,
                selectors: *sa.selectors(),
                dead: false,
            })
            .collect();
        self.inbound = inbound.sad().list().map(|sa| (sa.name(), false)).collect();
        for known in &self.outbound {
            if let Some(sa) = outbound.sa_mut(known.spi, known.remote) {
                sa.life = Life::new(sa.config().options.lifetime, now);
            }
        }
        for (name, _) in &self.inbound {
            if let Some(sa) = inbound.sa_mut(*name) {
                sa.life = Life::new(sa.config().options.lifetime, now);
            }
        }
    }

    /// The engine has let time pass: bury what it removed.
    pub fn mourn(&mut self, outbound: &mut Outbound, inbound: &mut Inbound) {
        let dead = |event: Event| match event {
            Event::Expire(expire) if expire.state == LifeState::Dead => Some(expire.direction),
            _ => None,
        };
        let mut some = [false; 2];
        for event in std::iter::from_fn(|| outbound.poll_event()) {
            some[0] |= dead(event) == Some(Direction::Outbound);
        }
        while let Some(event) = inbound.poll_event() {
            if let Event::PeerMoved(moved) = &event {
                outbound.follow(moved);
                inbound.followed(moved);
                let there = |known: &KnownLives, remote| outbound.sad().named(known.spi, remote).is_some();
                for known in self.outbound.iter_mut().filter(|known| known.remote == moved.old.0) {
                    if !there(known, known.remote) && there(known, moved.new.0) {
                        known.remote = moved.new.0;
                    }
                }
            }
            some[1] |= dead(event) == Some(Direction::Inbound);
        }
        if some[0] || outbound.take_lost_events() > 0 {
            for known in &mut self.outbound {
                known.dead = outbound.sad().named(known.spi, known.remote).is_none();
            }
        }
        if some[1] || inbound.take_lost_events() > 0 {
            for (name, dead) in &mut self.inbound {
                *dead = inbound.sad().get(*name).is_none();
            }
        }
    }

    /// The dead outbound association that would have carried this flow; of several the one that was added last.
    pub fn dead_for(&self, flow: &Flow) -> Option<Spi> {
        let mut covering = self.outbound.iter().rev().filter(|known| known.dead);
        covering.find(|known| known.selectors.covers(flow)).map(|known| known.spi)
    }

    /// Whether the inbound association that a packet with this SPI from `source` to `destination` was for is dead.
    pub fn is_dead(&self, spi: Spi, source: IpAddr, destination: IpAddr) -> bool {
        let names = |name: &SaName| {
            name.spi == spi
                && name.destination.is_none_or(|address| address == destination)
                && name.source.is_none_or(|address| address == source)
        };
        self.inbound.iter().any(|(name, dead)| *dead && names(name))
    }
}
