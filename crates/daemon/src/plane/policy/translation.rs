//! The paper's own translation of policy, socket by socket ([`crate::translation`]): its start, its comparison with the
//! open sockets, and its report.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{SpdEntries, SpdEntry, TranslationState};
use netio::clock;
use sadb::spd::{Action, PortRange, RuleId};
use sadb::{Entry, SocketEvent};
use wire::Time;

use super::PolicyInForce;
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::monitor::Monitor;
use crate::plane::halves::Halves;
use crate::translation::Translator;
use documents::api_error::{ApiError, Blame};

/// The interval of the comparison of open sockets with known ones. An event that was lost may have been a close.
const ROUND: Duration = Duration::from_secs(60);

impl PolicyInForce {
    /// Begin to translate what sockets do, starting with the calls that open sockets have made already.
    ///
    /// # Errors
    /// The kernel half does not report the calls, or no thread can be started.
    pub(in crate::plane) fn translate_first(
        &mut self,
        (out, into): (&mut OutboundHalf, &mut InboundHalf),
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        let (calls, events) = {
            let monitor = monitor.get();
            let calls = monitor.socket_calls(clock::monotonic())?;
            (calls, monitor.socket_events()?)
        };
        out.engine.socket_events(&calls);
        into.engine.socket_events(&calls);
        let failed = |error: netio::Error| ApiError::new(Blame::Failed, error.to_string());
        let (outbound, inbound) = halves.handles().map_err(failed)?;
        self.translator = Some(Translator::start(events, outbound, inbound).map_err(failed)?);
        Ok(())
    }

    /// Compare the open sockets with those that have entries, if events were lost, if the policy is a new one, or if
    /// the last comparison is long ago.
    ///
    /// # Errors
    /// The kernel half or a data thread does not answer.
    pub(in crate::plane) async fn follow_sockets(
        &mut self,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<(), ApiError> {
        let Some(translator) = &mut self.translator else { return Ok(()) };
        let now = clock::monotonic();
        let (lost, generation, calls) = {
            let monitor = monitor.get();
            let lost = lost(&monitor.counters()?);
            let generation = monitor.generation()?;
            let same = lost == translator.lost && generation == translator.generation;
            if same && now.since(translator.looked) < ROUND {
                return Ok(());
            }
            (lost, generation, monitor.socket_calls(now)?)
        };
        if lost > translator.lost {
            tracing::warn!(
                "{} events of sockets were lost; packets of theirs may have been refused",
                lost - translator.lost
            );
        }
        let calls: Arc<[SocketEvent]> = calls.into();
        let also = Arc::clone(&calls);
        halves
            .ask_outbound(move |half| {
                half.engine.socket_events(&calls);
                half.engine.retain_sockets(clock::monotonic(), now, |socket| is_among(&calls, socket));
            })
            .await?;
        halves
            .ask_inbound(move |half| {
                half.engine.socket_events(&also);
                half.engine.retain_sockets(clock::monotonic(), now, |socket| is_among(&also, socket));
            })
            .await?;
        // Both threads have compared: one that had no time compares at the next look.
        (translator.looked, translator.lost, translator.generation) = (now, lost, generation);
        Ok(())
    }

    /// The state and the cost of the translation; of a daemon that compiles policy, only the mode.
    pub(in crate::plane) async fn translation(
        &self,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<TranslationState, ApiError> {
        let Some(translator) = &self.translator else {
            return Ok(TranslationState { mode: "compiled".to_owned(), ..TranslationState::default() });
        };
        let asked = halves.ask_outbound(|half| {
            let table = half.engine.entries();
            let (waiting, caught_up) = half.engine.held_for_entries();
            table.map(|table| (table.stats(), table.len(), table.sockets(), waiting, caught_up))
        });
        let (stats, entries, sockets, waiting, caught_up) = asked.await?.unwrap_or_default();
        let meters = &translator.meters;
        Ok(TranslationState {
            mode: "per-socket".to_owned(),
            entries,
            sockets,
            events: stats.events,
            lost: lost(&monitor.get().counters()?),
            added: stats.added,
            deleted: stats.deleted,
            expired: stats.expired,
            refused: stats.refused,
            waiting,
            caught_up,
            nanoseconds: meters.nanoseconds.load(Ordering::Relaxed),
            latency_nanoseconds: meters.latency.load(Ordering::Relaxed),
            latency_max_nanoseconds: meters.latency_max.load(Ordering::Relaxed),
        })
    }

    /// Every entry of the outbound half, which has those of both directions.
    pub(in crate::plane) async fn entries(
        &self,
        halves: &Halves,
        monitor: &Monitor,
    ) -> Result<SpdEntries, ApiError> {
        if self.translator.is_none() {
            return Err(ApiError::new(
                Blame::Conflict,
                "policy is compiled here, so sockets have no entries",
            )
            .remedy(
                "set translation = \"per-socket\" in the configuration to have them made as paper 000 does",
            ));
        }
        let translation = self.translation(halves, monitor).await?;
        let listed = |half: &mut OutboundHalf| {
            half.engine.entries().map(|table| table.list().copied().collect::<Vec<_>>()).unwrap_or_default()
        };
        let now = clock::monotonic();
        let entries = halves.ask_outbound(listed).await?;
        let entries = entries.iter().filter(|entry| entry.expires.is_none_or(|at| at > now));
        Ok(SpdEntries { translation, entries: entries.map(|entry| self.in_words_of(entry, now)).collect() })
    }

    fn in_words_of(&self, entry: &Entry, now: Time) -> SpdEntry {
        let selector = &entry.selector;
        let rule = entry.decision.rule();
        SpdEntry {
            application: self.app_name(entry.app),
            socket: entry.socket,
            direction: entry.direction.name().to_owned(),
            protocol: selector.protocol,
            local: selector.local,
            local_port: selector.local_port,
            remote: selector.remote.to_string(),
            remote_port: match selector.remote_port {
                PortRange::ANY => "any".to_owned(),
                PortRange { first, last } if first == last => first.to_string(),
                PortRange { first, last } => format!("{first}-{last}"),
            },
            action: match entry.decision.action {
                Action::Bypass => "bypass".to_owned(),
                Action::Discard => "discard".to_owned(),
                Action::Protect { services, level } => {
                    let encrypts = services.encrypts();
                    let service = if encrypts { "encryption" } else { "authentication" };
                    format!("{service} {}", policy::ast::level_word(level))
                }
            },
            rule: (rule != RuleId::NONE).then(|| self.rule_position(rule)).flatten(),
            expires_ms: entry.expires.map(|at| u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX)),
            closing: entry.closing,
        }
    }

    /// The fault of the translation in words; `None` if there is none.
    pub(crate) fn translation_fault(&self) -> Option<String> {
        let broken = self.translator.as_ref().is_some_and(|t| t.meters.broken.load(Ordering::Relaxed));
        broken.then(|| "the thread that translates what sockets do has ended".to_owned())
    }
}

fn lost(counters: &[(&'static str, u64)]) -> u64 {
    counters.iter().find(|(word, _)| *word == "socket_events_lost").map_or(0, |(_, count)| *count)
}

fn is_among(calls: &[SocketEvent], socket: u64) -> bool {
    calls.iter().any(|call| call.socket == socket)
}
