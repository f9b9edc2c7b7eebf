//! Names for what a data thread knows by number: applications, rules, suites. Asked of the control plane, and kept a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sadb::Spi;
use sadb::spd::RuleId;
use tokio::runtime::Handle;
use wire::{AppId, DropReason};

use crate::capture::{Direction, Facts, Fate};
use crate::plane::Shared;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(1);
/// Answers that are kept.
const MOST: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    App(AppId),
    Rule(u32),
    /// Outbound, of this SPI to this peer.
    Sealed(u32, IpAddr),
    /// Inbound, of this SPI from this peer to this address.
    Opened(u32, IpAddr, IpAddr),
}

/// The names that one capture has met.
pub(super) struct Names {
    plane: Shared,
    /// The runtime of the control plane's thread, by which names are asked for.
    runtime: Handle,
    known: HashMap<Key, (Instant, Option<String>)>,
}

impl Names {
    pub(super) fn new(plane: Shared, runtime: Handle) -> Names {
        Names { plane, runtime, known: HashMap::new() }
    }

    /// The application; `None`: none.
    pub(super) fn app(&mut self, app: AppId) -> Option<String> {
        (app != AppId::NONE).then(|| self.get(Key::App(app)))?
    }

    /// The rule that decided, as `FILE:LINE` or by its name in the SPD.
    pub(super) fn rule(&mut self, rule: u32) -> Option<String> {
        (rule != 0).then(|| self.get(Key::Rule(rule)))?
    }

    /// The suite of the packet's association.
    pub(super) fn suite(&mut self, facts: &Facts) -> Option<String> {
        self.get(suite_key(facts)?)
    }

    fn get(&mut self, key: Key) -> Option<String> {
        let now = Instant::now();
        if let Some((asked, name)) = self.known.get(&key)
            && now.duration_since(*asked) < FRESH
        {
            return name.clone();
        }
        let plane = self.plane.clone();
        let answer = self.runtime.block_on(ask(plane, key));
        if self.known.len() >= MOST {
            self.known.clear();
        }
        // What is gone keeps its name: packets of it may still be on their way here.
        let name = answer.or_else(|| self.known.get(&key).and_then(|(_, name)| name.clone()));
        self.known.insert(key, (now, name.clone()));
        name
    }
}

/// What names the packet's association; `None`: it has none. That what a stranger sends has none is known already: asking would
/// let him keep the data thread busy with answers.
fn suite_key(facts: &Facts) -> Option<Key> {
    if facts.spi == 0 || matches!(facts.fate, Fate::Dropped(DropReason::UnknownSpi)) {
        return None;
    }
    Some(match facts.way {
        Direction::Out => Key::Sealed(facts.spi, facts.peer?),
        Direction::In => Key::Opened(facts.spi, facts.peer?, facts.local?),
    })
}

async fn ask(plane: Shared, key: Key) -> Option<String> {
    let plane = plane.get().await.ok()?;
    match key {
        Key::App(app) => Some(plane.policy().app_name(app)),
        Key::Rule(rule) => plane.rules().name_of(rule).or_else(|| {
            let position = plane.policy().rule_position(RuleId(rule))?;
            Some(format!("{}:{}", position.file, position.line))
        }),
        Key::Sealed(spi, peer) => {
            let suite = move |half: &mut crate::datapath::OutboundHalf| {
                half.engine.sad().named(Spi(spi), peer).map(|sa| sa.config().suite.to_string())
            };
            let suite = plane.halves.ask_outbound(suite).await.ok()?;
            suite.map(|suite| with_isolation(suite, &plane.config().crypto.ciphers))
        }
        Key::Opened(spi, peer, local) => {
            let suite = move |half: &mut crate::datapath::InboundHalf| {
                half.engine.sad().find(Spi(spi), peer, local).map(|sa| sa.config().suite.to_string())
            };
            let suite = plane.halves.ask_inbound(suite).await.ok()?;
            suite.map(|suite| with_isolation(suite, &plane.config().crypto.ciphers))
        }
    }
}

/// A suite with the place where the code of a cipher of one's own runs.
fn with_isolation(suite: String, ciphers: &config::CiphersConfig) -> String {
    match documents::ciphers::isolation_of(ciphers, &suite) {
        Some(isolation) => format!("{suite} ({isolation})"),
        None => suite,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_about_a_stranger() {
        let (peer, local): (IpAddr, IpAddr) = ([192, 0, 2, 2].into(), [192, 0, 2, 1].into());
        let facts = |way, spi, fate| Facts {
            way,
            outer: true,
            gso: wire::Gso::default(),
            app: AppId::NONE,
            rule: 0,
            spi,
            sequence: 0,
            peer: Some(peer),
            local: (way == Direction::In).then_some(local),
            flow: None,
            fate,
        };
        let key = |way, spi, fate| suite_key(&facts(way, spi, fate));
        assert!(key(Direction::In, 7, Fate::Protected) == Some(Key::Opened(7, peer, local)));
        assert!(
            key(Direction::In, 7, Fate::Dropped(DropReason::AuthFailed)) == Some(Key::Opened(7, peer, local))
        );
        assert!(key(Direction::Out, 7, Fate::Protected) == Some(Key::Sealed(7, peer)));
        assert!(key(Direction::In, 7, Fate::Dropped(DropReason::UnknownSpi)).is_none());
        assert!(key(Direction::In, 0, Fate::Protected).is_none());
    }
}
