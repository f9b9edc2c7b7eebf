//! `/v1/counters`: what ended, by reason, and everything that is counted, by protocol.

use std::collections::BTreeMap;

use api::{Count, Counters};
use axum::extract::State;
use serde::Deserialize;
use wire::DropReason;

use crate::kernel_counters;
use crate::plane::Shared;
use crate::statistics::{self, Figures};
use control::answer::{Answer, Doc};
use control::extract::Query;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountersQuery {
    /// Whether counts of zero are answered too.
    #[serde(default)]
    all: bool,
}

pub(super) async fn counters(
    State(plane): State<Shared>,
    Query(CountersQuery { all }): Query<CountersQuery>,
) -> Answer<Counters> {
    let plane = plane.get().await?;
    let (outbound, inbound, overrun) = plane.halves().statistics().await?;
    let kernel = plane.kernel_counters()?;
    let workers = plane.associations().registry().workers();
    let workers: Vec<_> = workers.map(|(cipher, state)| (cipher, state.counts)).collect();
    let mut sections = statistics::sections(&Figures {
        outbound: &outbound,
        inbound: &inbound,
        overrun,
        rules: plane.rules().len() as u64,
        applications: plane.policy().compiled().applications.len() as u64,
        promised: plane.associations().promised() as u64,
        audit: plane.observers().audit_counts(),
        flows: plane.observers().flow_log_counts(),
        kernel: &kernel,
        workers: &workers,
    });
    if plane.policy().is_translated() {
        sections.push(crate::translation::section(&plane.translation().await?));
    }
    if !all {
        sections.iter_mut().for_each(|section| section.lines.retain(|line| line.count > 0));
        sections.retain(|section| !section.lines.is_empty());
    }
    let mut inbound = named(&inbound.drops);
    if overrun > 0 {
        let text = "A datagram ended in the kernel: the UDP socket's queue was full, or its checksum wrong."
            .to_owned();
        inbound.push(Count { reason: "socket_overrun".to_owned(), count: overrun, text: Some(text) });
    }
    Ok(Doc(Counters {
        outbound: named(&outbound.drops),
        inbound,
        kernel: kernel
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| Count {
                reason: reason.to_owned(),
                count,
                text: kernel_counters::text(reason).map(ToOwned::to_owned),
            })
            .collect(),
        sections,
    }))
}

fn named(drops: &BTreeMap<DropReason, u64>) -> Vec<Count> {
    let count = |(reason, count): (&DropReason, &u64)| Count {
        reason: reason.name().to_owned(),
        count: *count,
        text: Some(reason.text().to_owned()),
    };
    drops.iter().map(count).collect()
}
