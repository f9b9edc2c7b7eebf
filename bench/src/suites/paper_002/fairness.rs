//! Fairness between users (paper 002 sections I.A and IV): eight users with an association each, every other one with another
//! cipher, on the row of the preset `fair`. One of them sends ten times its share of the processor.
//!
//! - `fairness.jain.cpu`: Jain's index of the processor's time of all users, where the other seven send half more than their share.
//!   The time of a packet is one by the capacity of the row with its suite.
//! - `fairness.jain.goodput`: Jain's index of what arrives of the other seven, where each of these sends the same, and within its
//!   share.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::rows::Site;
use crate::figure::{Figure, Report, Target};

/// A window in which shares are compared, and the number of windows.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOWS: usize = 10;
/// The time in which the graph learns what packets cost.
const SETTLE: Duration = Duration::from_secs(2);

/// A suite, and the packets a second that the row carries with it.
type Speed = (&'static str, f64);

/// Measure both indices of fairness.
///
/// # Errors
/// If a daemon refuses, or no packet arrives.
pub(super) fn run(site: &Site, speeds: [Speed; 2], report: &mut Report) -> anyhow::Result<()> {
    let (addresses, sources) = site.bed.users()?;
    let users: Vec<(Ipv4Addr, &'static str)> =
        addresses.into_iter().zip(speeds.iter().map(|(suite, _)| *suite).cycle()).collect();
    let cost: Vec<f64> = speeds.iter().map(|(_, speed)| 1.0 / speed).cycle().take(users.len()).collect();
    // A packet of a user takes its part of the processor's second.
    let share: Vec<f64> = cost.iter().map(|cost| 1.0 / (cost * users.len() as f64)).collect();
    site.install_each(&users)?;
    let windows = |rates: &[f64]| -> anyhow::Result<Vec<Vec<f64>>> {
        let rates: Vec<u64> = rates.iter().map(|rate| (*rate as u64).max(1)).collect();
        let flood = sources.flood_each(&rates)?;
        std::thread::sleep(SETTLE);
        let mut all = Vec::new();
        let (mut before, mut began) = (site.sealed(&users)?, Instant::now());
        for _ in 0..WINDOWS {
            std::thread::sleep(WINDOW);
            let (now, time) = (site.sealed(&users)?, Instant::now());
            let seconds = (time - began).as_secs_f64();
            all.push(now.iter().zip(&before).map(|(now, before)| (now - before) as f64 / seconds).collect());
            (before, began) = (now, time);
        }
        flood.end()?;
        Ok(all)
    };
    let greedy = |others: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..users.len()).map(|user| if user == 0 { 10.0 * share[0] } else { others(user) }).collect()
    };
    let mut indices = Vec::new();
    for rates in windows(&greedy(&|user| 1.5 * share[user]))? {
        let times: Vec<f64> = rates.iter().zip(&cost).map(|(rate, cost)| rate * cost).collect();
        indices.push(jain(&times).context("no packet arrives")?);
    }
    let anchor = "8 users, two suites, one sends 10x its share, windows of 1 s";
    let name = |part: &str| format!("paper-002.{}.fairness.{part}", site.row.name);
    report.push(Figure::new(name("jain.cpu"), "index", &indices, anchor, Target::AtLeast(0.99)));
    let least = share.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(least > 10.0, "a share of {least:.1} packets a second is too few to compare");
    let mut indices = Vec::new();
    for rates in windows(&greedy(&|_| 0.8 * least))? {
        indices.push(jain(&rates[1..]).context("no packet arrives")?);
    }
    report.push(Figure::new(name("jain.goodput"), "index", &indices, "the 7 others", Target::AtLeast(0.99)));
    Ok(())
}

/// Jain's index of fairness: 1 where all have the same; `None` where nobody has anything.
fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) =
        values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_where_all_have_the_same_and_a_part_where_one_has_all() {
        assert_eq!(jain(&[3.0; 8]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0; 4]), None);
    }
}
