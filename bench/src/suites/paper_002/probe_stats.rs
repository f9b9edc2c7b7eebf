//! What became of the probes of a way, in numbers.

use super::measure::Run;
use super::prober::Answers;

/// What became of the probes of a way in one run; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbeStats {
    /// Percent without an answer.
    pub(super) loss: f64,
    /// The mean of the round trips.
    pub(super) avg: f64,
    /// The median of the round trips.
    pub(super) p50: f64,
    /// The 99th percentile of the round trips.
    pub(super) p99: f64,
    /// The longest round trip.
    pub(super) max: f64,
}

impl ProbeStats {
    /// The way of this name; no number where nothing was probed or nothing came back.
    pub(super) fn of(run: &Run, name: &str) -> ProbeStats {
        ProbeStats::of_answers(&run.answers, name)
    }

    /// The way of this name among these answers; see [`ProbeStats::of`].
    pub(super) fn of_answers(answers: &[Answers], name: &str) -> ProbeStats {
        let answers = answers.iter().find(|answers| answers.name == name);
        let rtt = answers.map_or(&[][..], |answers| &answers.rtt);
        let mut times: Vec<f64> = rtt.iter().flatten().map(|time| *time as f64 / 1e3).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        ProbeStats {
            loss: 100.0 * (rtt.len() - times.len()) as f64 / rtt.len() as f64,
            avg: times.iter().sum::<f64>() / times.len() as f64,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
