//! A change of the graph of classes while packets wait: apply, perhaps on trial; confirm; back to the one before.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{MAX_CONFIRM_SECONDS, QosApplied, QosApply};
use netio::clock;
use qos::graph::house::Used;
use qos::graph::named;
use qos::graph::rules::Field;
use wire::AggregateId;

use super::{GraphInForce, Plane};
use crate::datapath::GraphExchange;
use crate::graph_store::GraphText;
use crate::graphs::{PreparedGraph, Surroundings};
use crate::reservations;
use crate::start::RunError;
use crate::trial::Exchanged;
use documents::api_error::{ApiError, Blame};

/// A file of the graph cannot be written.
fn unwritten(error: &std::io::Error, name: &str) -> ApiError {
    ApiError::new(Blame::Failed, format!("{name}: {error}")).remedy("try again when the file can be written")
}

impl Plane {
    fn graph_mut(&mut self) -> Result<&mut GraphInForce, ApiError> {
        self.graph.as_mut().ok_or_else(|| {
            ApiError::new(Blame::Conflict, "no graph of classes is in force, so none can take its place")
                .remedy("name one in [qos] of the configuration, then `ravelin run --take-over`")
        })
    }

    /// Put a graph in force: that of the request, else the one that `[qos]` names, as it is now. Without a trial its text is
    /// kept from now on; with one, when it is confirmed.
    ///
    /// # Errors
    /// The graph has faults, lacks a class that something names, or another one is on trial; nothing is changed then.
    pub(crate) async fn apply_graph(&mut self, asked: QosApply) -> Result<QosApplied, ApiError> {
        let graph = self.graph_mut()?;
        graph.not_on_trial()?;
        if asked.confirm_within_seconds.is_some_and(|seconds| !(1..=MAX_CONFIRM_SECONDS).contains(&seconds)) {
            let text = format!("a graph is on trial for 1 to {MAX_CONFIRM_SECONDS} seconds");
            return Err(ApiError::new(Blame::BadRequest, text));
        }
        let text = match asked.text {
            Some(text) => GraphText {
                source: asked.file.unwrap_or_else(|| "<request>".to_owned()),
                octets: text.into_bytes().into(),
            },
            None => graph.store.configured().map_err(|error| {
                ApiError::new(Blame::NotFound, format!("{}: {error}", graph.store.name()))
            })?,
        };
        if asked.confirm_within_seconds.is_some()
            && graph.store.in_force().is_some_and(|before| before.octets == text.octets)
        {
            let text = "this very text is in force already: there is nothing to put on trial";
            return Err(ApiError::new(Blame::Conflict, text));
        }
        let prepared = self.prepare_graph(&text).await?;
        let graph = self.graph_mut()?;
        let ending = graph.booking.would_end(&prepared.loaded);
        if !ending.is_empty() && !asked.end_reservations {
            let text = format!(
                "{} has no class, unit, uplink or room for reservations that are held: {}",
                text.source,
                reservations::listed(&ending)
            );
            return Err(ApiError::new(Blame::Conflict, text)
                .remedy("let them end first, or apply it with --end-reservations, which ends them"));
        }
        let previous = graph.store.previous().cloned();
        let name = graph.store.name();
        match asked.confirm_within_seconds {
            Some(seconds) => {
                let within = Duration::from_secs(seconds);
                if let Err(error) = graph.store.begin_trial(&text, within) {
                    graph.store.call_trial_off(previous);
                    return Err(unwritten(&error, &name));
                }
                let ended_reservations = match self.exchange_graph(text, prepared).await {
                    Ok(ended) => ended,
                    Err(refused) => {
                        self.graph_mut()?.store.call_trial_off(previous);
                        return Err(refused);
                    }
                };
                Ok(QosApplied { ended_reservations, ..self.graph_mut()?.applied(Exchanged::default()) })
            }
            None => {
                let before = graph.store.in_force().cloned();
                let ended_reservations = self.exchange_graph(text.clone(), prepared).await?;
                let graph = self.graph_mut()?;
                let done = graph.store.install(&text, before).map_err(|error| {
                    let text = format!("the graph is in force, but {name} does not have it: {error}");
                    ApiError::new(Blame::Failed, text).remedy("apply it again when the file can be written")
                })?;
                Ok(QosApplied { ended_reservations, ..graph.applied(done) })
            }
        }
    }

    /// The graph on trial stays.
    ///
    /// # Errors
    /// None is, or the file cannot be written: the trial then goes on.
    pub(crate) fn confirm_graph(&mut self) -> Result<QosApplied, ApiError> {
        let graph = self.graph_mut()?;
        if graph.store.trial().is_none() {
            let remedy = match graph.store.origin().rejected {
                Some(file) => format!("it is taken back already: its text is {file} now; apply that again"),
                None => "`ravelin qos show` says what is in force; it is taken back already, or was never on trial"
                    .to_owned(),
            };
            return Err(ApiError::new(Blame::NotFound, "no graph waits for a confirmation").remedy(remedy));
        }
        let name = graph.store.name();
        let done = graph.store.confirm().map_err(|error| unwritten(&error, &name))?;
        Ok(graph.applied(done))
    }

    /// The graph before is in force again, and its text is kept.
    ///
    /// # Errors
    /// There is none, or it cannot be put in force; the one in force then stays.
    pub(crate) async fn roll_back_graph(&mut self) -> Result<QosApplied, ApiError> {
        let used = self.used_classes().await?;
        self.go_back(used).await
    }

    /// Go back to the graph before, which must have the classes that are used.
    async fn go_back(&mut self, used: Vec<Used>) -> Result<QosApplied, ApiError> {
        let graph = self.graph_mut()?;
        let Some(text) = graph.store.previous().cloned() else {
            return Err(ApiError::new(Blame::NotFound, "there is no graph before this one")
                .remedy("write the graph that you want and `ravelin qos apply` it"));
        };
        let prepared = self.prepare_with(&text, used)?;
        let ended_reservations = self.exchange_graph(text.clone(), prepared).await?;
        let graph = self.graph_mut()?;
        let name = graph.store.name();
        let done = graph.store.went_back(&text).map_err(|error| {
            let text = format!("the graph before is in force again, but {name} has another text: {error}");
            ApiError::new(Blame::Failed, text).remedy("put the text right before the daemon starts again")
        })?;
        Ok(QosApplied { ended_reservations, ..graph.applied(done) })
    }

    /// Take back a graph that was not confirmed in time; what went wrong, if it did not succeed.
    pub(crate) async fn end_graph_trial(&mut self) -> Option<String> {
        let source = self.graph.as_ref()?.store.overdue(clock::monotonic())?.to_owned();
        // A class that only the graph on trial has may be named meanwhile; its packets are classified by the rules then.
        match self.go_back(Vec::new()).await {
            Ok(applied) => {
                let kept = applied.kept_as.map(|file| format!("; the text of {source} is {file} now"));
                let kept = kept.unwrap_or_default();
                let detail =
                    format!("{source} was not confirmed in time: the graph before is in force again{kept}");
                tracing::warn!("{detail}");
                self.audit(control::asker::Asker::myself(), "graph_rolled_back", detail);
                None
            }
            Err(refused) => Some(format!("a graph that was not confirmed cannot be taken back: {refused}")),
        }
    }

    /// The policy is another one: rules of the graph that name its applications mean the new ones from now on.
    pub(super) async fn refresh_graph(&mut self) {
        let Some(graph) = &self.graph else { return };
        if named(&graph.loaded.description, Field::Application).is_empty() {
            return;
        }
        let Some(text) = graph.store.in_force().cloned() else { return };
        let refreshed = match self.prepare_graph(&text).await {
            Ok(prepared) => self.exchange_graph(text, prepared).await.map(drop),
            Err(refused) => Err(refused),
        };
        if let Err(refused) = refreshed {
            tracing::error!("rules of the graph mean the applications of the policy before: {refused}");
        }
    }

    /// Look for components from outside that were detached since the last look, and tell of them.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn follow_components(&mut self) -> Result<(), ApiError> {
        let Some(graph) = &self.graph else { return Ok(()) };
        if !graph.loaded.description.has_foreign() {
            return Ok(());
        }
        let [outbound, inbound] = self.halves.states().await?;
        let detached = [outbound.detached, inbound.detached].concat();
        let graph = self.graph_mut()?;
        let fresh: Vec<String> =
            detached.iter().filter(|one| !graph.detached.contains(one)).cloned().collect();
        graph.detached = detached;
        for one in fresh {
            self.audit(control::asker::Asker::myself(), "component_detached", one);
        }
        Ok(())
    }

    /// Compile a text for what this gateway has and names.
    async fn prepare_graph(&mut self, text: &GraphText) -> Result<PreparedGraph, ApiError> {
        let used = self.used_classes().await?;
        self.prepare_with(text, used)
    }

    fn prepare_with(&mut self, text: &GraphText, used: Vec<Used>) -> Result<PreparedGraph, ApiError> {
        let around = Surroundings { used, ..Surroundings::of_policy(self.policy.compiled()) };
        let graph = self.graph_mut()?;
        graph.maker.make(text, &graph.loaded.aggregates, around).map_err(|error| match error {
            RunError::Graph(error) => ApiError::new(Blame::BadRequest, error.to_string())
                .remedy("the graph in force stays; correct the text and apply it again"),
            error => ApiError::new(Blame::Failed, error.to_string()),
        })
    }

    /// Let both data threads go on with another graph, and the kernel half split packets for it. The answer has a sentence
    /// for each reservation that it ends.
    async fn exchange_graph(
        &mut self,
        text: GraphText,
        prepared: PreparedGraph,
    ) -> Result<Vec<String>, ApiError> {
        let PreparedGraph { loaded, outbound, inbound, queues: planned, sockets: wanted, notes } = prepared;
        let failed = |error: netio::Error| ApiError::new(Blame::Failed, error.to_string());
        let (seal, open) = self.halves.unit_threads(&loaded.description).map_err(failed)?;
        let outbound = GraphExchange { graph: outbound, classes: planned.classes(), threads: seal };
        let inbound = GraphExchange { graph: inbound, classes: wanted.classes(), threads: open };
        self.halves.exchange_graphs(outbound, inbound).await?;
        let classes = loaded.classes();
        let graph = self.graph_mut()?;
        let ended = graph.booking.exchange(&loaded);
        (graph.loaded, graph.notes) = (loaded, notes);
        graph.detached.clear();
        graph.store.adopt(text);
        let mut queues = graph.queues.take();
        if let Some(queues) = &mut queues
            && let Err(error) = queues.change(&self.monitor, &planned)
        {
            tracing::error!("packets wait in the kernel queues of the classes before: {error}");
            let note = "packets wait in the kernel queues of the classes of the graph before; apply it again";
            self.graph_mut()?.notes.push(note.to_owned());
        }
        let graph = self.graph_mut()?;
        graph.queues = queues;
        let mut sockets = graph.sockets.take();
        if let Some(sockets) = &mut sockets
            && let Err(error) = sockets.change(&self.monitor, &wanted)
        {
            tracing::error!("outer packets wait in the sockets of the classes before: {error}");
            let note = "outer packets wait in the sockets of the classes of the graph before; apply it again";
            self.graph_mut()?.notes.push(note.to_owned());
        }
        self.graph_mut()?.sockets = sockets;
        self.classes.set(classes);
        tracing::info!("graph {} is in force", self.graph_mut()?.loaded.source);
        let why = "the graph in force has no class, unit, uplink or room for it";
        Ok(self.tell_of_ended(ended, why).await)
    }

    /// The classes that policy, rules and associations name, each with one that does.
    async fn used_classes(&self) -> Result<Vec<Used>, ApiError> {
        let outbound = self.halves.ask_outbound(|half| {
            let list = half.engine.sad().list();
            list.map(|(_, sa)| (sa.config().options.aggregate, sa.spi().0)).collect::<Vec<_>>()
        });
        let inbound = self.halves.ask_inbound(|half| {
            let list = half.engine.sad().list();
            list.map(|sa| (sa.config().options.aggregate, sa.spi().0)).collect::<Vec<_>>()
        });
        let associations = [outbound.await?, inbound.await?].concat();
        let names = self.classes.get();
        let mut used: BTreeMap<String, String> = self.rules.classes_used().collect();
        used.values_mut().for_each(|rule| *rule = format!("the rule {rule}"));
        let mut add = |class: AggregateId, by: &dyn Fn() -> String| {
            if class != AggregateId::DEFAULT
                && let Some(name) = names.name(class)
            {
                used.entry(name.to_owned()).or_insert_with(by);
            }
        };
        let compiled = self.policy.compiled();
        for application in &compiled.applications {
            let Some(policy) = compiled.spd.shared(application.id) else { continue };
            for item in policy.protections().iter().flatten() {
                add(item.terms.class, &|| format!("the policy of {}", application.name));
            }
        }
        for (class, spi) in associations {
            add(class, &|| format!("the association {spi:#x}"));
        }
        Ok(used.into_iter().map(|(name, by)| Used { name, by }).collect())
    }
}
