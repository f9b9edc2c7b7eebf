//! Reservations in the graph of classes: made, refreshed, removed, and ended in time (docs/design/0044).
//!
//! What enters: requests, the passing of time, exchanges of graphs. What leaves: the flows that both data threads know,
//! and answers. A reservation is in the table before it is in a thread, and out of a thread before its place is given to
//! another one.

use std::sync::Arc;

use api::{QosReservationRemoved, QosReservations, QosReserve, QosReserved};
use crypto::SuiteId;
use netio::clock;
use qos::reservation::{Flow, FlowCounts, MOST, Reservation, ReservationId, Scope};
use wire::Time;

use super::halves::Change;
use super::{GraphInForce, Plane};
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::reservations::{examine, kernel_class, kernel_name, terms, words};
use control::asker::Asker;
use documents::api_error::{ApiError, Blame};

/// Flows that a data thread is asked for at a time.
const AT_A_TIME: usize = 256;

/// What a packet of a flow costs in a half that runs a graph: whether the flow has associations there, and the
/// nanoseconds with their suites, or with the costliest of all.
type Cost = Option<(bool, u64)>;

impl Plane {
    fn graph_to_reserve(&mut self) -> Result<&mut GraphInForce, ApiError> {
        self.graph.as_mut().ok_or_else(|| {
            ApiError::new(Blame::Conflict, "no graph of classes is in force, so nothing can be reserved")
                .remedy("name one in [qos] of the configuration, then `ravelin run --take-over`")
        })
    }

    /// The reservations, with what came of each and what all leave free.
    ///
    /// # Errors
    /// No graph is in force, or a data thread does not answer.
    pub(crate) async fn list_reservations(&mut self) -> Result<QosReservations, ApiError> {
        self.expire_reservations(clock::monotonic()).await;
        let flows = self.graph_to_reserve()?.booking.flows();
        let counts = self.reserved_counts(flows).await?;
        let GraphInForce { booking, loaded, .. } = self.graph_to_reserve()?;
        Ok(QosReservations {
            reservations: booking.documents(loaded, &counts, clock::monotonic()),
            most: MOST as u64,
            resources: booking.resources(),
        })
    }

    /// Reserve for a flow, or change or refresh what its holder has for it.
    ///
    /// # Errors
    /// The request names what the graph lacks or contradicts itself; too little is free; another holder has the flow; or a
    /// data thread has no time. Nothing is changed then.
    pub(crate) async fn reserve(
        &mut self,
        asker: Asker,
        asked: &QosReserve,
    ) -> Result<QosReserved, ApiError> {
        self.expire_reservations(clock::monotonic()).await;
        let sound = examine(&self.graph_to_reserve()?.loaded, asked)?;
        let ns = self.cost(sound.flow(), sound.least()).await?;
        let now = clock::monotonic();
        let GraphInForce { booking, .. } = self.graph_to_reserve()?;
        let table = booking.before(&sound);
        let (id, before) = booking.admit(sound, ns, now)?;
        let (key, most) = booking.room();
        let of = booking.held_by(id, &asked.holder)?.clone();
        if before.as_ref() != Some(&of) {
            if let Err(refused) = self.put_reserved(&of, before.as_ref(), key, most).await {
                let booking = &mut self.graph_to_reserve()?.booking;
                match table {
                    Some(table) => *booking = table,
                    None => drop(booking.release(id)),
                }
                return Err(refused);
            }
            self.audit(asker, "reservation_added", words(id, &of));
        }
        self.reserved(id).await
    }

    /// Let a reservation live on.
    ///
    /// # Errors
    /// No reservation has this number, or it is another holder's; or no graph is in force.
    pub(crate) async fn refresh_reservation(
        &mut self,
        id: u64,
        holder: &str,
    ) -> Result<QosReserved, ApiError> {
        let now = clock::monotonic();
        self.expire_reservations(now).await;
        let id = ReservationId(id);
        self.graph_to_reserve()?.booking.refresh(id, holder, now)?;
        self.reserved(id).await
    }

    /// Remove a reservation of this holder.
    ///
    /// # Errors
    /// No reservation has this number, or it is another holder's; no graph is in force; or a data thread has ended.
    pub(crate) async fn remove_reservation(
        &mut self,
        asker: Asker,
        id: u64,
        holder: &str,
    ) -> Result<QosReservationRemoved, ApiError> {
        self.expire_reservations(clock::monotonic()).await;
        let id = ReservationId(id);
        self.graph_to_reserve()?.booking.held_by(id, holder)?;
        let reservation = self.reserved(id).await?.reservation;
        let of = self.graph_to_reserve()?.booking.release(id);
        if let Some(of) = of {
            self.end_reserved(vec![of.flow]).await?;
            self.audit(asker, "reservation_removed", words(id, &of));
        }
        Ok(QosReservationRemoved { reservation, resources: self.graph_to_reserve()?.booking.resources() })
    }

    /// End what was not refreshed in time.
    pub(crate) async fn expire_reservations(&mut self, now: Time) {
        let Some(graph) = &mut self.graph else { return };
        let ended = graph.booking.expire(now);
        self.tell_of_ended(ended, "it was not refreshed in time").await;
    }

    /// Reservations have ended: the data threads are told, and whoever reads logs. The answer has a sentence for each.
    pub(super) async fn tell_of_ended(
        &mut self,
        ended: Vec<(ReservationId, Reservation)>,
        why: &str,
    ) -> Vec<String> {
        if ended.is_empty() {
            return Vec::new();
        }
        let flows = ended.iter().map(|(_, of)| of.flow).collect();
        if let Err(refused) = self.end_reserved(flows).await {
            tracing::error!("data threads do not hear of reservations that have ended: {refused}");
        }
        let mut sentences = Vec::new();
        for (id, of) in &ended {
            let text = format!("{}: {why}", words(*id, of));
            tracing::info!("ended: {text}");
            self.audit(Asker::myself(), "reservation_ended", text.clone());
            sentences.push(text);
        }
        sentences
    }

    /// A reservation as a document, with what is left beside it.
    async fn reserved(&mut self, id: ReservationId) -> Result<QosReserved, ApiError> {
        let gone = || ApiError::new(Blame::NotFound, format!("reservation {} has ended", id.0));
        let flow = self.graph_to_reserve()?.booking.flow(id).ok_or_else(gone)?;
        let counts = self.reserved_counts(vec![flow]).await?.first().copied().unwrap_or_default();
        let GraphInForce { booking, loaded, .. } = self.graph_to_reserve()?;
        let reservation = booking.one(loaded, id, counts, clock::monotonic()).ok_or_else(gone)?;
        Ok(QosReserved { reservation, resources: booking.resources() })
    }

    /// The packets that came of flows, in both directions together. The data threads are asked for a few at a time, so
    /// that no packet waits for a long list.
    async fn reserved_counts(&self, flows: Vec<Flow>) -> Result<Vec<FlowCounts>, ApiError> {
        let mut counts = Vec::with_capacity(flows.len());
        for some in flows.chunks(AT_A_TIME) {
            let some: Arc<[Flow]> = some.into();
            let also = Arc::clone(&some);
            let out =
                move |half: &mut OutboundHalf| half.engine.graph().map(|graph| graph.reserved_counts(&some));
            let back =
                move |half: &mut InboundHalf| half.engine.graph().map(|graph| graph.reserved_counts(&also));
            let out = self.halves.ask_outbound(out).await?.unwrap_or_default();
            let back = self.halves.ask_inbound(back).await?.unwrap_or_default();
            let sum = |(out, back): (FlowCounts, FlowCounts)| FlowCounts {
                within: out.within + back.within,
                beyond: out.beyond + back.beyond,
            };
            counts.extend(out.into_iter().zip(back).map(sum));
        }
        Ok(counts)
    }

    /// Have both data threads know of a reservation, or neither, with what was before in its place.
    async fn put_reserved(
        &self,
        of: &Reservation,
        before: Option<&Reservation>,
        key: [u8; 16],
        most: usize,
    ) -> Result<(), ApiError> {
        let change = |of: Option<&Reservation>, flow: Flow| {
            let terms = of.map(terms);
            Change::new(
                move |half: &mut OutboundHalf| match terms {
                    Some(terms) => drop(half.engine.reserve(key, most, &flow, terms)),
                    None => half.engine.end_reservation(&flow),
                },
                move |half: &mut InboundHalf| match terms {
                    Some(terms) => drop(half.engine.reserve(key, most, &flow, terms)),
                    None => half.engine.end_reservation(&flow),
                },
            )
        };
        self.halves.change(change(Some(of), of.flow), change(before, of.flow)).await?;
        // The threads know it first: what the kernel half puts into the queue of the class is of the class there.
        let told = match kernel_name(&of.flow) {
            Some(name) => self.monitor.get().set_reserved(&name, Some(&kernel_class(of))),
            None => Ok(()),
        };
        if let Err(error) = told {
            self.halves.insist(change(before, of.flow)).await?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Have both data threads and the kernel half reserve for these flows no more.
    async fn end_reserved(&self, flows: Vec<Flow>) -> Result<(), ApiError> {
        for name in flows.iter().filter_map(kernel_name) {
            if let Err(error) = self.monitor.get().set_reserved(&name, None) {
                // It is a hint about the place where packets wait, and no right.
                tracing::error!(
                    "packets of a flow without a reservation wait in the queue of its class: {error}"
                );
            }
        }
        let flows: Arc<[Flow]> = flows.into();
        let also = Arc::clone(&flows);
        let change = Change::new(
            move |half: &mut OutboundHalf| flows.iter().for_each(|flow| half.engine.end_reservation(flow)),
            move |half: &mut InboundHalf| also.iter().for_each(|flow| half.engine.end_reservation(flow)),
        );
        Ok(self.halves.insist(change).await?)
    }

    /// The nanoseconds that a packet of a flow with so many octets is expected to cost, as the data threads have learned
    /// it: with the suite of its association; where none is there, with the costliest.
    async fn cost(&self, flow: Flow, octets: u64) -> Result<u64, ApiError> {
        let outbound = self.halves.ask_outbound(move |half| -> Cost {
            let list = half.engine.sad().list().map(|(_, sa)| sa);
            let is_it = |spi: u32, remote| match flow.scope {
                Scope::Spi { spi: named, .. } => named == spi && flow.destination == remote,
                Scope::Ports { .. } => true,
            };
            let its = list.filter(|sa| is_it(sa.spi().0, sa.config().endpoints.remote));
            let suites: Vec<SuiteId> = its.map(|sa| sa.config().suite).collect();
            Some((!suites.is_empty(), half.engine.graph()?.costliest(&suites, octets)))
        });
        let inbound = self.halves.ask_inbound(move |half| -> Cost {
            let graph = half.engine.graph()?;
            let Scope::Spi { spi, .. } = flow.scope else { return Some((false, 0)) };
            let its = half.engine.sad().list().filter(|sa| sa.spi().0 == spi);
            let its = its.filter(|sa| sa.config().endpoints.local == flow.destination);
            let suites: Vec<SuiteId> = its.map(|sa| sa.config().suite).collect();
            Some((!suites.is_empty(), graph.costliest(&suites, octets)))
        });
        let (Some(outbound), Some(inbound)) = (outbound.await?, inbound.await?) else {
            let text = "the data threads do not run the graph yet";
            return Err(ApiError::new(Blame::Busy, text).remedy("try again in a moment"));
        };
        let costs = [outbound, inbound];
        let known = costs.iter().filter(|(is_known, _)| *is_known).map(|(_, ns)| *ns).max();
        Ok(known.unwrap_or_else(|| outbound.1.max(inbound.1)))
    }
}
