//! `/v1/counters`: what ended, by reason.

use std::collections::BTreeMap;

use api::{Count, Counters};
use axum::extract::State;
use wire::DropReason;

use super::Answer;
use crate::kernel_counters;
use crate::plane::Shared;
use crate::refused::Refused;

pub(super) async fn counters(State(plane): State<Shared>) -> Answer<Counters> {
    Answer(collect(&plane).await)
}

async fn collect(plane: &Shared) -> Result<Counters, Refused> {
    let plane = plane.get().await?;
    let outbound = plane
        .outbound
        .ask(|half| half.engine.tally().drops().chain(half.losses.drops()).collect::<Vec<_>>())
        .await?;
    let (inbound, overrun) = plane
        .inbound
        .ask(|half| {
            let drops = half.engine.tally().drops().chain(half.losses.drops()).collect::<Vec<_>>();
            (drops, half.overrun)
        })
        .await?;
    let mut inbound = named(inbound);
    if overrun > 0 {
        let text = "A datagram arrived when the UDP socket's queue was full.".to_owned();
        inbound.push(Count { reason: "socket_overrun".to_owned(), count: overrun, text: Some(text) });
    }
    let kernel = plane.kernel_counters()?;
    Ok(Counters {
        outbound: named(outbound),
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
    })
}

/// Engine and device may both have met a reason.
fn named(drops: Vec<(DropReason, u64)>) -> Vec<Count> {
    let mut sums: BTreeMap<DropReason, u64> = BTreeMap::new();
    for (reason, count) in drops {
        *sums.entry(reason).or_default() += count;
    }
    let count = |(reason, count): (DropReason, u64)| Count {
        reason: reason.name().to_owned(),
        count,
        text: Some(reason.text().to_owned()),
    };
    sums.into_iter().map(count).collect()
}
