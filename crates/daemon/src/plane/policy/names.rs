//! Host names in the policy. New addresses of a name make a generation of the policy that differs from the last one in
//! these addresses alone.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::{NameAddress, NameState, NamesState};
use policy::{Named, Source};
use wire::{AppId, Time};

use super::PolicyInForce;
use crate::monitor::Monitor;
use crate::names::{self, KnownAddress, ResolvedName};
use crate::plane::halves::{Halves, by_policy};
use crate::policy_store::{self, Candidate};
use documents::api_error::ApiError;

/// The most DNS answers to applications that are examined at once. Further ones are lost, and only the kernel half
/// counts them.
const AT_ONCE: usize = 256;
/// The time between two looks at all sockets.
const LOOK: Duration = Duration::from_secs(2);
fn hosts_of(named: &Named) -> Vec<String> {
    named.hosts().map(str::to_owned).collect()
}

/// The addresses with which applications have flows.
fn peers_in_use(monitor: &Monitor) -> Result<HashSet<(AppId, IpAddr)>, ApiError> {
    let monitor = monitor.get();
    let netns = monitor.netns();
    let sockets = monitor.sockets()?;
    let ours = sockets.iter().filter(|s| s.netns == netns && s.app != AppId::NONE && s.remote.port() != 0);
    Ok(ours.map(|socket| (socket.app, socket.remote.ip().to_canonical())).collect())
}

impl PolicyInForce {
    /// Follow the names of the policy in force. At the start of a daemon, `restored` says that an earlier daemon's
    /// addresses were taken over.
    pub(super) fn watch_names(&mut self, restored: bool, monitor: &Monitor) {
        let now = netio::clock::monotonic();
        let named = &self.store.compiled.named;
        let hosts = hosts_of(named);
        let observe = self.hosts.observe && !hosts.is_empty();
        match restored {
            true => self.hosts.book.restore(now, &named.names, hosts),
            false => self.hosts.book.watch(now, hosts),
        }
        if observe != self.hosts.observing {
            match monitor.get().set_observe(observe) {
                Ok(()) => self.hosts.observing = observe,
                Err(error) => tracing::warn!("answers that applications receive are not seen: {error}"),
            }
        }
    }

    /// Ask for the names whose time has come, and forget addresses that no source supports any more.
    pub(in crate::plane) async fn tend_names(
        &mut self,
        now: Time,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        let patience = self.hosts.asker.patience();
        for name in self.hosts.book.due(now, patience) {
            self.hosts.asker.ask(name);
        }
        if self.hosts.book.is_ending(now) && now.since(self.hosts.looked) >= LOOK {
            self.hosts.looked = now;
            let peers = peers_in_use(monitor)?;
            let named = &self.store.compiled.named.networks;
            self.hosts.book.sweep(now, |name, addr| {
                named.iter().any(|n| n.name == name && peers.contains(&(n.app, addr)))
            });
        }
        self.follow_names(now, halves, monitor).await
    }

    /// Take in an answer to a question of the daemon's own resolver.
    pub(in crate::plane) async fn hear_name(
        &mut self,
        heard: ResolvedName,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        let now = netio::clock::monotonic();
        self.hosts.book.answer(now, &heard.name, heard.v4, heard.v6);
        self.follow_names(now, halves, monitor).await
    }

    /// Take in the DNS answers that applications received.
    pub(in crate::plane) async fn observe_names(
        &mut self,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        let now = netio::clock::monotonic();
        let answers = monitor.get().dns_answers(AT_ONCE)?;
        let mut news = false;
        for answer in answers {
            self.hosts.observed.0 += 1;
            // A program of no policy may ask whom it likes, and hear what it likes.
            if answer.app == AppId::NONE && !self.hosts.trusted.contains(&answer.server) {
                continue;
            }
            let book = &mut self.hosts.book;
            let said = names::answer::observed(&answer.message, |name| book.has(name));
            if let Some((name, list)) = said
                && book.observe(now, &name, &list)
            {
                self.hosts.observed.1 += 1;
                news = true;
            }
        }
        if news { self.follow_names(now, halves, monitor).await } else { Ok(()) }
    }

    /// Put the addresses that count now in force, in the kernel half first. The kernel half decides what leaves in
    /// clear, so an engine that is told later lets nothing pass in clear that should not.
    ///
    /// # Errors
    /// A data thread does not answer. A kernel half that did not take the change is loaded as a whole later.
    async fn follow_names(&mut self, now: Time, halves: &Halves, monitor: &Monitor) -> Result<(), ApiError> {
        let names = self.hosts.book.names(now);
        if names == self.store.compiled.named.names {
            return Ok(());
        }
        let mut candidate = self.store.in_force();
        candidate.compiled.resolve(&names);
        candidate.follow(&[]);
        self.tell_names(&candidate);
        if self.store.compiled.spd == candidate.compiled.spd {
            self.store.adopt_names(candidate);
            return Ok(());
        }
        candidate.compiled.spd.generation += 1;
        candidate.compiled.spd.share(&self.store.compiled.spd);
        let orders = policy_store::orders(&candidate);
        let taken = monitor.get().change_networks(&candidate.compiled.spd, &orders);
        if let Err(error) = taken {
            tracing::warn!("{error}; the policy is loaded as a whole");
            self.unfinished = true;
        }
        let spd = Arc::new(candidate.compiled.spd.clone());
        // In force here whatever the threads answer: the kernel half has it.
        self.store.adopt_names(candidate);
        Ok(halves.insist(by_policy(&spd)).await?)
    }

    /// Log what changes, and store it for a daemon after this one.
    fn tell_names(&self, candidate: &Candidate) {
        let (old, new) = (&self.store.compiled.named, &candidate.compiled.named);
        for host in new.hosts() {
            for (addr, source) in new.names.of(host) {
                if old.names.source(host, addr) != Some(source) {
                    tracing::info!(name = host, %addr, source = source.word(), "an address of a name");
                }
            }
            for (addr, _) in old.names.of(host).filter(|(addr, _)| new.names.source(host, *addr).is_none()) {
                tracing::info!(name = host, %addr, "no address of the name any more");
            }
        }
        for contested in new.resolution.contested.iter().filter(|c| !old.resolution.contested.contains(c)) {
            let line = |rule| self.store.rule(rule).map_or_else(String::new, |at| at.to_string());
            tracing::warn!(
                addr = %contested.addr,
                application = self.store.app_name(contested.app),
                "refused: {} and {} both speak of it and do not compare",
                line(contested.rules[0]),
                line(contested.rules[1])
            );
        }
        if let Some(run_dir) = self.store.run_dir()
            && let Err(error) = names::write(run_dir, &new.names, new.hosts())
        {
            tracing::warn!("the addresses of names are not written down: {error}");
        }
    }

    /// The state of every name.
    pub(in crate::plane) fn names(&self, monitor: &Monitor) -> Result<Vec<NameState>, ApiError> {
        let now = netio::clock::monotonic();
        let named = &self.store.compiled.named;
        let peers = peers_in_use(monitor)?;
        let state = |(name, entry): (&String, &names::Entry)| {
            let settings: Vec<_> = named.networks.iter().filter(|n| n.name == *name).collect();
            let flows = |addr: IpAddr| settings.iter().filter(|n| peers.contains(&(n.app, addr))).count();
            let address = |(addr, known): (&IpAddr, &KnownAddress)| NameAddress {
                address: *addr,
                source: named.names.source(name, *addr).unwrap_or(Source::Kept).word().to_owned(),
                listed: known.listed,
                said_seconds_ago: now.since(known.said).as_secs(),
                ttl_seconds: known.until.since(now).as_secs(),
                applications_with_flows: flows(*addr),
            };
            NameState {
                name: name.clone(),
                settings: settings.iter().filter_map(|n| self.store.rule(n.rule)).collect(),
                addresses: entry.addresses.iter().map(address).collect(),
                answered_seconds_ago: entry.answered.map(|at| now.since(at).as_secs()),
                failures: entry.failures,
                last_error: entry.last_error.clone(),
                refused_addresses: entry.refused,
            }
        };
        Ok(self.hosts.book.entries().iter().map(state).collect())
    }

    /// A summary of the names in numbers; `None` if the policy has none.
    pub(crate) fn names_state(&self) -> Option<NamesState> {
        let entries = self.hosts.book.entries();
        if entries.is_empty() {
            return None;
        }
        let resolution = &self.store.compiled.named.resolution;
        Some(NamesState {
            names: entries.len(),
            unresolved: entries.values().filter(|e| e.addresses.is_empty()).count(),
            failing: entries.values().filter(|e| e.failures > 0).count(),
            addresses: entries.values().map(|e| e.addresses.len()).sum(),
            observed: entries.values().flat_map(|e| e.addresses.values()).filter(|k| k.observed).count(),
            contested: resolution.contested.len(),
            withheld: resolution.withheld,
            left_out: resolution.left_out,
            refused_addresses: entries.values().map(|e| e.refused).sum(),
            answers_seen: self.hosts.observed.0,
            answers_used: self.hosts.observed.1,
        })
    }

    /// The faults of names, each in one line.
    pub(crate) fn name_faults(&self) -> Vec<String> {
        let fault = |(name, entry): (&String, &names::Entry)| {
            let error = entry.last_error.as_deref().unwrap_or("no answer yet");
            match (entry.addresses.is_empty(), entry.failures) {
                (true, failures) if failures > 0 => {
                    Some(format!("no address of {name} is known ({error}): the next shorter network decides"))
                }
                (false, failures) if failures > 2 => Some(format!(
                    "{name}: {failures} questions came to nothing ({error}): its last addresses are kept, and none of them in clear"
                )),
                _ => None,
            }
        };
        self.hosts.book.entries().iter().filter_map(fault).collect()
    }
}
