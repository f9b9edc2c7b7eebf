//! `/v1/traffic`: what each application's packets came to, by the kernel half's own count.

use std::collections::BTreeMap;

use api::{AppTraffic, AppTrafficList, LeftTraffic};
use axum::extract::State;
use wire::AppId;

use crate::flows::sums;
use crate::plane::Shared;
use control::answer::{Answer, Doc};

pub(super) async fn traffic(State(plane): State<Shared>) -> Answer<AppTrafficList> {
    let plane = &*plane.get().await?;
    let handed_over = plane.handed_over().await?;
    let left = plane.halves().left_by_app().await?;
    let amount = |traffic: engine::Traffic| api::Amount { packets: traffic.packets, bytes: traffic.bytes };
    let left = |id: &AppId| match left.get(id) {
        Some([authenticated, encrypted]) => {
            LeftTraffic { authenticated: amount(*authenticated), encrypted: amount(*encrypted) }
        }
        None => LeftTraffic::default(),
    };
    let traffic = plane.kernel_traffic()?;
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
    let counters = plane.kernel_counters()?;
    let count = |word: &str| counters.iter().find(|(name, _)| *name == word).map_or(0, |(_, count)| *count);
    let (lost, events_lost) = (count("traffic_lost"), count("events_lost"));
    Ok(Doc(AppTrafficList { applications, lost, events_lost, handed_over }))
}

fn words(reasons: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    reasons.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}
