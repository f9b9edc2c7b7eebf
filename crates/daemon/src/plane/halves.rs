//! The two data threads, as the control plane holds them.
//!
//! What enters: functions that a thread runs between two packets. What leaves: their answers. What both threads must have alike is a
//! [`Change`], which is made in both or in neither ([`Halves::change`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{InboundGraph, OpenWork, OutboundGraph, SealWork, Stats, Ticket};
use qos::behaviour::foreign::{OnFault, Report};
use qos::graph::Description;
use sadb::InboundSa;
use sadb::rules::Snapshot;
use sadb::spd::{Action, Spd, Terms};
use wire::{AppId, DropReason, Flow, Services};

use crate::datapath::{DeviceStats, GraphExchange, InboundHalf, OutboundHalf, ThreadsOfUnits, unit_threads};
use crate::statistics::Half;
use control::channel::{AskError, Handle};
use documents::associations::SaView;

/// The handles of the two data threads.
pub struct Halves {
    outbound: Handle<OutboundHalf>,
    inbound: Handle<InboundHalf>,
}

/// What each thread does for a change of both. It can be done more than once, so that it can be undone by its counterpart.
pub(super) struct Change<O, I> {
    outbound: O,
    inbound: I,
}

impl<O, I> Change<O, I>
where
    O: Fn(&mut OutboundHalf) + Clone + Send + 'static,
    I: Fn(&mut InboundHalf) + Clone + Send + 'static,
{
    /// A change of these two parts.
    pub(super) fn new(outbound: O, inbound: I) -> Change<O, I> {
        Change { outbound, inbound }
    }
}

/// What the outbound half says of a flow that was not sent: the action and its terms, and the association or why there is none.
pub(crate) type Preview = (Action, Terms, Result<SaView, DropReason>);

/// What a data thread says of itself.
#[derive(Debug)]
pub(crate) struct ThreadState {
    /// Packets that came and what became of them.
    pub(crate) traffic: api::Traffic,
    /// The number of its associations.
    pub(crate) sas: usize,
    /// What is wrong with its devices, if anything.
    pub(crate) fault: Option<String>,
    /// The components from outside in its graph that are not called any more, with the reasons.
    pub(crate) detached: Vec<String>,
}

/// A sentence for each component from outside that is not called any more.
pub(super) fn detached(graph: &qos::graph::Graph<Ticket>) -> Vec<String> {
    let sentence = |(hook, report): (qos::graph::description::HookPoint, Report)| {
        let Report { library, detached: Some(why), on_fault, .. } = report else { return None };
        let hook = hook.name();
        let direction = match graph.direction() {
            qos::Direction::Outbound => "outbound",
            qos::Direction::Inbound => "inbound",
        };
        let now = match on_fault {
            OnFault::Pass => "its packets pass as if it were not there",
            OnFault::Drop => "its packets are dropped (component_refused)",
        };
        Some(format!("the component `{library}` at hook {hook}, {direction}, is detached: {why}; {now}"))
    };
    graph.foreign().filter_map(sentence).collect()
}

impl ThreadState {
    fn of(
        tally: &Stats,
        losses: &DeviceStats,
        sas: usize,
        graph: Option<&qos::graph::Graph<Ticket>>,
    ) -> ThreadState {
        // What waits for the rest of its packet has not ended.
        let ended = |(reason, _): &(DropReason, u64)| *reason != DropReason::FragmentHeld;
        let traffic = api::Traffic {
            received: losses.received,
            protected: tally.protected.packets,
            clear: tally.clear.packets,
            dropped: tally.drops().chain(losses.drops()).filter(ended).map(|(_, count)| count).sum(),
        };
        let detached = graph.map(detached).unwrap_or_default();
        ThreadState { traffic, sas, fault: losses.fault.clone(), detached }
    }
}

impl Halves {
    /// The data threads behind these handles.
    pub fn new(outbound: Handle<OutboundHalf>, inbound: Handle<InboundHalf>) -> Halves {
        Halves { outbound, inbound }
    }

    /// Let the outbound thread run `f` and wait for its answer.
    ///
    /// # Errors
    /// [`AskError`]: the thread has ended, or has too much to do.
    pub(crate) async fn ask_outbound<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut OutboundHalf) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.outbound.ask(f).await
    }

    /// Let the inbound thread run `f` and wait for its answer.
    ///
    /// # Errors
    /// [`AskError`]: the thread has ended, or has too much to do.
    pub(crate) async fn ask_inbound<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut InboundHalf) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        self.inbound.ask(f).await
    }

    /// Make a change in both threads, or in neither; `old` is what they have.
    ///
    /// # Errors
    /// [`AskError`]: a thread has no time, and both have what they had; or one has ended, and the daemon ends with it.
    pub(super) async fn change<O, I>(&self, new: Change<O, I>, old: Change<O, I>) -> Result<(), AskError>
    where
        O: Fn(&mut OutboundHalf) + Clone + Send + 'static,
        I: Fn(&mut InboundHalf) + Clone + Send + 'static,
    {
        // The thread that is asked first may have no time: then nothing has changed.
        self.outbound.ask(new.outbound).await?;
        if let Err(unanswered) = self.inbound.ask(new.inbound).await {
            self.outbound.insist(old.outbound).await?;
            return Err(unanswered);
        }
        Ok(())
    }

    /// Make a change in both threads, and wait until they have time for it: for what must not be left half done.
    ///
    /// # Errors
    /// [`AskError::Stopped`]: a thread has ended.
    pub(super) async fn insist<O, I>(&self, change: Change<O, I>) -> Result<(), AskError>
    where
        O: Fn(&mut OutboundHalf) + Clone + Send + 'static,
        I: Fn(&mut InboundHalf) + Clone + Send + 'static,
    {
        let outbound = self.outbound.insist(change.outbound).await;
        self.inbound.insist(change.inbound).await?;
        outbound
    }

    /// Start the threads that the units of a graph need: those of the outbound half, and those of the inbound one.
    ///
    /// # Errors
    /// If the system has no thread or descriptor to give.
    pub(super) fn unit_threads(&self, description: &Description) -> netio::Result<ThreadsOfUnits> {
        unit_threads(description, || self.outbound.waker(), || self.inbound.waker())
    }

    /// Let both threads go on with another graph, or neither.
    ///
    /// # Errors
    /// [`AskError`]: the outbound thread has no time, and nothing has changed; or a thread has ended, and the daemon ends
    /// with it.
    pub(super) async fn exchange_graphs(
        &self,
        outbound: GraphExchange<OutboundGraph, SealWork>,
        inbound: GraphExchange<InboundGraph, OpenWork>,
    ) -> Result<(), AskError> {
        self.ask_outbound(move |half| half.exchange = Some(outbound)).await?;
        // A graph is one thing, and the request may have to be made again: whoever carries it out takes it.
        let parcel = Arc::new(Mutex::new(Some(inbound)));
        let take = move |half: &mut InboundHalf| {
            if let Some(graph) = parcel.lock().unwrap_or_else(PoisonError::into_inner).take() {
                half.exchange = Some(graph);
            }
        };
        self.inbound.insist(take).await
    }

    /// Further handles of the same threads, for a thread of their own.
    ///
    /// # Errors
    /// If there is no descriptor to be had.
    pub(super) fn handles(&self) -> netio::Result<(Handle<OutboundHalf>, Handle<InboundHalf>)> {
        Ok((self.outbound.try_clone()?, self.inbound.try_clone()?))
    }

    /// Let both threads end after what they are doing. Both are told, whatever becomes of the other.
    ///
    /// # Errors
    /// If a thread does not hear of it.
    pub(super) fn stop(&self) -> Result<(), AskError> {
        let outbound = self.outbound.stop();
        self.inbound.stop()?;
        outbound
    }

    /// What each thread says of itself, outbound first.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn states(&self) -> Result<[ThreadState; 2], AskError> {
        let outbound = self.ask_outbound(|half| {
            let graph = half.engine.graph().map(engine::OutboundGraph::graph);
            ThreadState::of(half.engine.stats(), &half.losses, half.engine.sad().len(), graph)
        });
        let inbound = self.ask_inbound(|half| {
            let graph = half.engine.graph().map(engine::InboundGraph::graph);
            ThreadState::of(half.engine.stats(), &half.losses, half.engine.sad().len(), graph)
        });
        Ok([outbound.await?, inbound.await?])
    }

    /// What each half counts, outbound first; behind them, the datagrams for which the UDP sockets had no room.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn statistics(&self) -> Result<(Half, Half, u64), AskError> {
        let outbound = self.ask_outbound(|half| Half::outbound(half)).await?;
        let (inbound, overrun) = self.ask_inbound(|half| (Half::inbound(half), half.overrun)).await?;
        Ok((outbound, inbound, overrun))
    }

    /// What left for each application: authenticated, and encrypted.
    ///
    /// # Errors
    /// If the data thread does not answer.
    pub(crate) async fn left_by_app(&self) -> Result<BTreeMap<AppId, [engine::Traffic; 2]>, AskError> {
        self.ask_outbound(|half| half.engine.stats().left_by_app().collect()).await
    }

    /// What becomes of a flow of this application, whose socket asks for these services.
    ///
    /// # Errors
    /// If the data thread does not answer.
    pub(crate) async fn preview(&self, app: AppId, flow: Flow, asked: Services) -> Result<Preview, AskError> {
        self.ask_outbound(move |half| {
            let (decision, index) = half.engine.preview_asking(app, &flow, asked);
            let sad = half.engine.sad();
            let view = |sa| SaView::outbound(sa, netio::clock::monotonic());
            let view = index.and_then(|i| sad.get(i).map(view).ok_or(DropReason::NoSa));
            (decision.action, decision.terms, view)
        })
        .await
    }

    /// The inbound associations by which packets of this flow may come for this application.
    ///
    /// # Errors
    /// If the data thread does not answer.
    pub(crate) async fn serving(&self, app: AppId, flow: Flow) -> Result<Vec<SaView>, AskError> {
        self.ask_inbound(move |half| {
            let serves = |sa: &&InboundSa| {
                let selectors = sa.config().effective_selectors();
                selectors.covers(&flow) && selectors.serves(app)
            };
            half.engine.sad().list().filter(serves).map(SaView::inbound).collect()
        })
        .await
    }

    /// What the scrubber of outer packets counted; `None`: there is none.
    ///
    /// # Errors
    /// If the data thread does not answer.
    pub(crate) async fn outer_scrubber(&self) -> Result<Option<scrub::Counters>, AskError> {
        self.ask_inbound(|half| half.engine.outer_scrubber().map(|scrubber| scrubber.counters().clone()))
            .await
    }
}

/// Both halves decide by this policy.
pub(super) fn by_policy(
    spd: &Arc<Spd>,
) -> Change<
    impl Fn(&mut OutboundHalf) + Clone + Send + 'static + use<>,
    impl Fn(&mut InboundHalf) + Clone + Send + 'static + use<>,
> {
    let (ahead, back) = (Arc::clone(spd), Arc::clone(spd));
    Change::new(
        move |half: &mut OutboundHalf| half.engine.set_policy(Arc::clone(&ahead)),
        move |half: &mut InboundHalf| {
            half.engine.set_scrub_policy(Arc::clone(&back));
            half.engine.set_entry_policy(Arc::clone(&back));
        },
    )
}

/// Both halves decide by these rules; `None`: there is no SPD.
pub(super) fn by_rules(
    rules: Option<Arc<Snapshot>>,
) -> Change<
    impl Fn(&mut OutboundHalf) + Clone + Send + 'static + use<>,
    impl Fn(&mut InboundHalf) + Clone + Send + 'static + use<>,
> {
    let also = rules.clone();
    Change::new(
        move |half: &mut OutboundHalf| half.engine.set_rules(rules.clone()),
        move |half: &mut InboundHalf| half.engine.set_rules(also.clone()),
    )
}

#[cfg(test)]
pub(super) mod tests;
