//! From a file of associations and rules to an engine that has them.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::net::IpAddr;

use api::{Direction, SaAdd, SaType};
use crypto::Registry;
use sadb::sa::{Encapsulation, OutboundState, Padding};
use sadb::{InboundSa, OutboundSa};
use zeroize::Zeroizing;

use super::Replay;
use super::error::ReplayError;
use config::without_keys;
use documents::api_error::{ApiError, Blame};
use documents::associations::{self, Defaults};
use documents::import::{self, Ends, Entry, ImportItem};

impl Replay {
    pub(super) fn add_file(
        &mut self,
        name: &str,
        file: &mut dyn Read,
        local: &[IpAddr],
        path_mtu: Option<u16>,
        registry: &Registry,
    ) -> Result<(), ReplayError> {
        let mut text = Zeroizing::new(String::with_capacity(64 << 10));
        let read = file.take(import::MAX_FILE).read_to_string(&mut text);
        read.map_err(|error| ReplayError::BadInput(format!("{name}: {error}")))?;
        let ends = if local.is_empty() { Ends::Both } else { Ends::Local(local) };
        let read = import::read(&text, ends, registry.suites());
        let mut entries = read.map_err(|error| ReplayError::BadInput(format!("{name}:{error}")))?;
        widen(&mut entries);
        let mut lines = HashMap::new();
        let mut nexts = Vec::new();
        for entry in entries {
            // Long digits that the text quotes could be a key in a wrong place.
            let at = |text: String| {
                ReplayError::BadInput(format!("{name}:{}: {}", entry.line, without_keys(&text)))
            };
            let mut taken = None;
            let added = match entry.what {
                ImportItem::Sa(request) => {
                    nexts.extend(request.next.map(|next| (entry.line, next)));
                    taken = lines.insert((request.direction, request.spi.to_string()), entry.line);
                    self.add_sa(*request, path_mtu, registry)
                }
                ImportItem::Rule(request) => self.rules.add(&request).map(drop),
                // There is nothing yet.
                ImportItem::FlushSas | ImportItem::FlushRules => Ok(()),
            };
            added.map_err(|refused| at(in_words(&refused, taken)))?;
        }
        let there: HashSet<_> = self.outbound.sad().list().map(|(_, sa)| sa.spi().0).collect();
        match nexts.iter().find(|(_, next)| !there.contains(&next.0)) {
            None => Ok(()),
            Some((line, next)) => Err(ReplayError::BadInput(format!(
                "{name}:{line}: \"next\" is {next}, and no outbound association of this file has that SPI; add it, or leave \
                 \"next\" out"
            ))),
        }
    }

    /// No book of used keys: what is replayed reaches no wire, and one key at both ends is what a file for both hosts has.
    fn add_sa(&mut self, request: SaAdd, path_mtu: Option<u16>, registry: &Registry) -> Result<(), ApiError> {
        let spi = associations::requested_spi(&request)?.ok_or_else(|| {
            ApiError::new(Blame::BadRequest, "\"auto\" is no SPI here")
                .remedy("give the one that the capture has")
        })?;
        let policy = &self.policy;
        let app = |name: &str| policy.find(name).map(|found| found.id);
        let sequence = request.sequence;
        // As other implementations pad, so that packets can be compared.
        let padding = Padding::Least;
        let (suites, classes) = (registry.suites(), self.rules.classes());
        let keepalive = config::KEEPALIVE;
        let defaults = Defaults { suites, classes, path_mtu, keepalive, app: &app, random: 0, padding };
        let config = associations::configuration(request, spi, &defaults)?;
        match config.direction {
            sadb::Direction::Inbound => {
                if config.options.encapsulation == Encapsulation::Udp {
                    self.arrive_at(config.endpoints.local_port)?;
                }
                let mut sa = InboundSa::new(config, registry)?;
                if let Some(top) = sequence.filter(|top| *top > 0) {
                    let _ = sa.replay.commit(top);
                }
                self.inbound.add_sa(sa)?;
            }
            sadb::Direction::Outbound => {
                let mut sa = OutboundSa::new(config, registry)?;
                if let Some(next_sequence) = sequence {
                    let state = OutboundState { next_sequence, ..sa.export() };
                    sa = OutboundSa::import(state, registry)?;
                }
                self.outbound.add_sa(sa)?;
            }
        }
        Ok(())
    }

    /// ESP in UDP arrives at one port: the configuration's, or without one that of the file's inbound associations.
    fn arrive_at(&mut self, port: u16) -> Result<(), ApiError> {
        let said = *self.port_said.get_or_insert(port);
        if said != port {
            let text = format!("\"local_port\" is {port}, and ESP in UDP arrives at {said} here");
            return Err(
                ApiError::new(Blame::BadRequest, text).remedy("replay what arrives at each port by itself")
            );
        }
        self.esp_port = port;
        self.inbound.set_port(port);
        Ok(())
    }
}

/// Associations of different peers or hosts may have one SPI. Where a file has such, each is found by its addresses too.
fn widen(entries: &mut [Entry]) {
    let place = |what: &ImportItem| match what {
        ImportItem::Sa(sa)
            if sa.direction == Direction::In
                && sa.match_word().is_none()
                && !sa.follow_peer
                && sa.kind != SaType::Ipip =>
        {
            Some((sa.spi.to_string(), (sa.local, sa.remote)))
        }
        _ => None,
    };
    let mut places: HashMap<String, HashSet<_>> = HashMap::new();
    for (spi, ends) in entries.iter().filter_map(|entry| place(&entry.what)) {
        places.entry(spi).or_default().insert(ends);
    }
    for entry in entries {
        let shared =
            place(&entry.what).is_some_and(|(spi, _)| places.get(&spi).is_some_and(|at| at.len() > 1));
        if let (true, ImportItem::Sa(sa)) = (shared, &mut entry.what) {
            sa.found_by = Some("spi+dst+src".to_owned());
        }
    }
}

/// A refusal as a line. `taken`: the line that has the same direction and SPI.
fn in_words(refused: &ApiError, taken: Option<usize>) -> String {
    let ApiError { fault, message, remedy } = refused;
    match (fault, taken, remedy) {
        (Blame::Conflict, Some(line), _) => format!(
            "{message}: line {line} has it between the same hosts; give another (ESP and AH share one space of SPIs here)"
        ),
        // The configuration is not what a replay needs for it.
        (_, _, Some(remedy)) if remedy.contains("`legacy = true`") => {
            format!("{message}; give --legacy to allow it in this replay, or {remedy}")
        }
        (_, _, _) => refused.in_a_line(),
    }
}
