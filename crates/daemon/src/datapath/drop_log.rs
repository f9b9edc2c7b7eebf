//! What a data thread says at level `debug`: once a second the reasons for which packets ended since.

use wire::DropReason;

/// The drops that were said.
#[derive(Debug, Default)]
pub struct DropLog {
    /// The sums at the last call; `None`: nobody listened then.
    said: Option<Vec<(DropReason, u64)>>,
}

impl DropLog {
    /// Say how the sums have grown since the last call, if anybody listens. Call about once a second.
    pub fn say(&mut self, way: &'static str, drops: impl Iterator<Item = (DropReason, u64)>) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            self.said = None;
            return;
        }
        let now: Vec<_> = drops.collect();
        // Who begins to listen hears of what comes, not of all that was.
        for (reason, count) in self.said.as_deref().map(|said| grown(said, &now)).unwrap_or_default() {
            tracing::debug!(way, %reason, count, "packets ended");
        }
        self.said = Some(now);
    }
}

/// Engine and device may both have a sum for a reason; each grows by itself.
fn grown(before: &[(DropReason, u64)], now: &[(DropReason, u64)]) -> Vec<(DropReason, u64)> {
    let sum = |list: &[(DropReason, u64)], reason| {
        list.iter().filter(|(r, _)| *r == reason).map(|(_, count)| count).sum::<u64>()
    };
    let mut out = Vec::new();
    for reason in DropReason::ALL {
        let more = sum(now, *reason).saturating_sub(sum(before, *reason));
        if more > 0 {
            out.push((*reason, more));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_is_said() {
        let (no_sa, full) = (DropReason::NoSa, DropReason::Backpressure);
        let before = [(no_sa, 7), (full, 1)];
        assert_eq!(grown(&before, &[(no_sa, 9), (full, 1), (full, 2)]), [(no_sa, 2), (full, 2)]);
        assert_eq!(grown(&before, &before), []);
    }
}
