//! What a thread counts beside its engine: packets in, and those that a device refused.

use wire::DropReason;

/// Counters of one thread's devices.
#[derive(Clone, Debug)]
pub struct Losses {
    /// Packets taken from the device or the sockets.
    pub received: u64,
    /// What the device last answered, if that was an error.
    pub fault: Option<String>,
    drops: [u64; DropReason::ALL.len()],
}

impl Losses {
    pub(super) fn new() -> Losses {
        Losses { received: 0, fault: None, drops: [0; DropReason::ALL.len()] }
    }

    pub(super) fn count(&mut self, reason: DropReason, packets: u64) {
        if let Some(count) = self.drops.get_mut(reason as usize) {
            *count += packets;
        }
    }

    /// Count a packet that a device did not take.
    pub(super) fn refused(&mut self, answer: Result<(), DropReason>) {
        if let Err(reason) = answer {
            self.count(reason, 1);
        }
    }

    /// A device answered with an error; said once in the log.
    pub(super) fn broke(&mut self, device: &str, error: &std::io::Error) {
        let text = format!("{device}: {error}");
        if self.fault.as_ref() != Some(&text) {
            tracing::error!("{text}; packets wait or are dropped until it works again");
            self.fault = Some(text);
        }
    }

    /// A device works (again).
    pub(super) fn works(&mut self, device: &str) {
        if self.fault.take().is_some() {
            tracing::info!("{device} works again");
        }
    }

    /// Every reason for which packets ended at a device, and how many did.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_counted_by_reason() {
        let mut losses = Losses::new();
        losses.refused(Ok(()));
        losses.refused(Err(DropReason::Backpressure));
        losses.count(DropReason::Truncated, 3);
        let seen: Vec<_> = losses.drops().collect();
        assert_eq!(seen, [(DropReason::Truncated, 3), (DropReason::Backpressure, 1)]);
    }
}
