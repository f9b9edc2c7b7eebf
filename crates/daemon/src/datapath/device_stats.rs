//! What a thread counts beside its engine: packets in, and those that a device refused.

use netio::tun::DeliveryResult;
use netio::udp::SendResult;
use wire::{Burst, DropReason, stage};

/// Counters of one thread's devices.
#[derive(Clone, Debug)]
pub struct DeviceStats {
    /// Packets taken from the device or the sockets.
    pub received: u64,
    /// What the device last answered, if that was an error.
    pub fault: Option<String>,
    drops: [u64; DropReason::ALL.len()],
}

impl DeviceStats {
    pub(super) fn new() -> DeviceStats {
        DeviceStats { received: 0, fault: None, drops: [0; DropReason::ALL.len()] }
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

    /// Count the datagrams of a burst that a socket did not take.
    pub(super) fn burst(&mut self, burst: &Burst<stage::Outer>, sent: &SendResult) {
        if let Some(reason) = sent.dropped {
            self.count(reason, burst.count().saturating_sub(sent.datagrams) as u64);
        }
    }

    /// Count the packets of a coalesced packet that the device did not take.
    pub(super) fn count_delivery(&mut self, delivered: &DeliveryResult) {
        if let Some((packets, reason)) = delivered.dropped {
            self.count(reason, packets as u64);
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
    use wire::{Buf, OuterHeader};

    /// Evidence of every step, for packets that a test puts at some stage.
    struct Placed;
    impl<From, To> wire::Evidence<From, To> for Placed {}

    #[test]
    fn the_rest_of_a_burst_is_counted() {
        let header = OuterHeader {
            src: [192, 0, 2, 1].into(),
            dst: [192, 0, 2, 2].into(),
            src_port: 4500,
            dst_port: 4500,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        let mut burst = Burst::begin(&Placed, Buf::with_capacity(100, 0), header, 10).unwrap();
        for _ in 0..5 {
            assert!(burst.commit(10));
        }
        let burst = burst.advance(&Placed);
        let mut losses = DeviceStats::new();
        losses.burst(&burst, &SendResult { datagrams: 5, dropped: None, whole: true });
        assert_eq!(losses.drops().count(), 0);
        losses.burst(
            &burst,
            &SendResult { datagrams: 3, dropped: Some(DropReason::Backpressure), whole: false },
        );
        assert_eq!(losses.drops().collect::<Vec<_>>(), [(DropReason::Backpressure, 2)]);
    }

    #[test]
    fn a_refusal_is_counted_by_reason() {
        let mut losses = DeviceStats::new();
        losses.refused(Ok(()));
        losses.refused(Err(DropReason::Backpressure));
        losses.count(DropReason::Truncated, 3);
        losses.count_delivery(&DeliveryResult { packets: 2, dropped: Some((4, DropReason::BadHeader)) });
        losses.count_delivery(&DeliveryResult { packets: 2, dropped: None });
        let seen: Vec<_> = losses.drops().collect();
        let want = [(DropReason::Truncated, 3), (DropReason::BadHeader, 4), (DropReason::Backpressure, 1)];
        assert_eq!(seen.len(), want.len());
        assert!(want.iter().all(|one| seen.contains(one)), "{seen:?}");
    }
}
