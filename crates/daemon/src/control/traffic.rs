//! `/v1/traffic`: what each application's packets came to, by the kernel half's own count.

use std::collections::BTreeMap;

use api::{AppTraffic, AppTrafficList, HandedOver, Left};
use axum::extract::State;
use wire::AppId;

use crate::answer::Answer;
use crate::flows::sums;
use crate::plane::traffic::{baseline, counter};
use crate::plane::{Plane, Shared};
use crate::refused::Refused;

pub(super) async fn traffic(State(plane): State<Shared>) -> Answer<AppTrafficList> {
    Answer(collect(&plane).await)
}

async fn collect(plane: &Shared) -> Result<AppTrafficList, Refused> {
    let plane = &*plane.get().await?;
    let handed_over = compare(plane).await?;
    let left = plane.halves().left_by_app().await?;
    let amount = |traffic: engine::Traffic| api::Amount { packets: traffic.packets, bytes: traffic.bytes };
    let left = |id: &AppId| match left.get(id) {
        Some([authenticated, encrypted]) => {
            Left { authenticated: amount(*authenticated), encrypted: amount(*encrypted) }
        }
        None => Left::default(),
    };
    let traffic = plane.monitor.get().traffic()?;
    let mut applications: Vec<AppTraffic> = traffic
        .iter()
        .map(|(id, traffic)| {
            let (outbound, inbound) = sums(traffic);
            AppTraffic {
                application: if *id == AppId::NONE { String::new() } else { plane.policy().app_name(*id) },
                id: id.0,
                outbound,
                left: left(id),
                inbound,
                refused_because: words(&traffic.reasons),
                would_be_refused_because: words(&traffic.would_reasons),
            }
        })
        .collect();
    applications.sort_by(|a, b| a.application.cmp(&b.application));
    let (lost, events_lost) = (counter(plane, "traffic_lost")?, counter(plane, "events_lost")?);
    Ok(AppTrafficList { applications, lost, events_lost, handed_over })
}

fn words(reasons: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    reasons.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

/// The data path's count lies between the kernel half's before and after it, but for what waits in the TUN.
async fn compare(plane: &Plane) -> Result<HandedOver, Refused> {
    let since =
        |now: (u64, u64)| (now.0.saturating_sub(plane.handed.0), now.1.saturating_sub(plane.handed.1));
    let (before, _) = since(baseline(plane)?);
    let engine = plane.halves.ask_outbound(|half| half.losses.received).await?;
    let (after, dropped) = since(baseline(plane)?);
    let waiting = u64::from(plane.config.tun.queue);
    let seen = engine.saturating_add(dropped);
    let agree = seen.saturating_add(waiting) >= before && seen <= after + waiting;
    Ok(HandedOver { kernel: after, engine, dropped, agree })
}
