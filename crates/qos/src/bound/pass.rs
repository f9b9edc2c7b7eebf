//! The way of a class through its queues: what it pays at each of them, and what only once.

use super::arrival::Arrival;
use super::service::Service;

/// The passing of a class through one queue of one tree.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The number of the tree, in the order in which packets meet them.
    pub tree: usize,
    /// The service that the queue gets, behind the committed work.
    pub service: Service,
    /// The committed work in front of it, in nanoseconds, which is part of the latency.
    pub committed: u64,
    /// The most work that may wait in the queue, infinite if there is no limit in time or packets.
    pub limit: f64,
    /// Whether packets leave the queue in the order of their coming.
    pub in_order: bool,
    /// What the other classes of the same queue ask for; `None` if one of them is not policed.
    pub beside: Option<Arrival>,
}

/// The own burst, the latency and the rate of a class over all trees. The worst queue of each tree counts.
pub(super) fn delay(passes: &[Pass], arrival: Option<Arrival>) -> (Option<f64>, f64, f64) {
    let trees = passes.iter().map(|pass| pass.tree).max().map_or(0, |last| last + 1);
    let worst = |of: &dyn Fn(&Pass) -> f64, tree: usize| {
        passes.iter().filter(|pass| pass.tree == tree).map(of).fold(0.0, f64::max)
    };
    let latency: f64 = (0..trees).map(|tree| worst(&|pass| pass.service.latency, tree)).sum();
    let rate = passes.iter().map(|pass| pass.service.rate).fold(1.0, f64::min);
    let limits: f64 = (0..trees)
        .map(|tree| {
            let limited = |pass: &Pass| {
                if pass.in_order {
                    pass.service.limited(pass.limit) - pass.service.latency
                } else {
                    f64::INFINITY
                }
            };
            worst(&limited, tree)
        })
        .sum();
    let policed = arrival.and_then(|arrival| policed(passes, trees, arrival, rate));
    let own = match policed {
        Some(policed) => policed.min(limits),
        None => limits,
    };
    (Some(own).filter(|ns| ns.is_finite()), latency, rate)
}

/// The longest time that a policed class waits at one tree, whose passes these are.
pub(super) fn at_tree(passes: &[Pass], arrival: Arrival) -> f64 {
    let waits = |pass: &Pass| {
        let limited = if pass.in_order { pass.service.limited(pass.limit) } else { f64::INFINITY };
        let Some(beside) = pass.beside else { return limited };
        let (all, Service { rate, latency }) = (arrival.plus(beside), pass.service);
        let policed = if all.rate > rate {
            f64::INFINITY
        } else if pass.in_order {
            all.burst / rate + latency
        } else {
            (all.burst + rate * latency) / (rate - all.rate)
        };
        policed.min(limited)
    };
    passes.iter().map(waits).fold(0.0, f64::max)
}

/// The own burst of a policed class: paid once where every queue keeps the order, else at each tree.
fn policed(passes: &[Pass], trees: usize, arrival: Arrival, rate: f64) -> Option<f64> {
    let mut all = arrival;
    for pass in passes {
        all = all.plus(pass.beside?);
    }
    if all.rate > rate {
        return None;
    }
    if passes.iter().all(|pass| pass.in_order) {
        return Some(all.burst / rate);
    }
    let mut own = 0.0;
    for tree in 0..trees {
        let mut worst: f64 = 0.0;
        for pass in passes.iter().filter(|pass| pass.tree == tree) {
            let Service { rate, latency } = pass.service;
            let busy = (all.burst + rate * latency) / (rate - all.rate) - latency;
            worst = worst.max(if pass.in_order { all.burst / rate } else { busy });
        }
        // What leaves a tree is burstier by what came while it waited.
        all.burst += all.rate * worst;
        own += worst;
    }
    Some(own).filter(|own| own.is_finite())
}
