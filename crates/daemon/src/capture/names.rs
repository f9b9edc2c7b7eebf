//! Names for what a data thread knows by number: applications, rules, suites. Asked of the control plane, and kept a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sadb::Spi;
use sadb::spd::RuleId;
use tokio::runtime::Handle;
use wire::AppId;

use super::{Facts, Way};
use crate::plane::Shared;
use crate::policy_store;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(1);
/// Answers that are kept.
const MOST: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    App(AppId),
    Rule(u32),
    Suite(Way, u32, IpAddr),
}

/// The names that one capture has met.
pub(super) struct Names {
    plane: Shared,
    /// Of the control plane's thread.
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
        let peer = facts.peer.filter(|_| facts.spi != 0)?;
        self.get(Key::Suite(facts.way, facts.spi, peer))
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

async fn ask(plane: Shared, key: Key) -> Option<String> {
    let plane = plane.get().await.ok()?;
    match key {
        Key::App(app) => Some(plane.policy.app_name(app)),
        Key::Rule(rule) => plane.rules.name_of(rule).or_else(|| {
            let position = policy_store::rule_position(&plane.policy.compiled, RuleId(rule))?;
            Some(format!("{}:{}", position.file, position.line))
        }),
        Key::Suite(Way::Out, spi, peer) => {
            let suite = move |half: &mut crate::datapath::OutboundHalf| {
                half.engine.sad().named(Spi(spi), peer).map(|sa| sa.config().suite.to_string())
            };
            plane.outbound.ask(suite).await.ok()?
        }
        Key::Suite(Way::In, spi, peer) => {
            let suite = move |half: &mut crate::datapath::InboundHalf| {
                let mut sas = half.engine.sad().list().filter(|sa| sa.spi() == Spi(spi));
                let first = sas.next()?;
                let named = std::iter::once(first).chain(sas).find(|sa| sa.config().endpoints.remote == peer);
                Some(named.unwrap_or(first).config().suite.to_string())
            };
            plane.inbound.ask(suite).await.ok()?
        }
    }
}
