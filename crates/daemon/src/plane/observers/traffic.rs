//! What went from the kernel half to the engine, by the counts of both and of the TUN between them.

use api::HandedOver;

use super::Observers;
use crate::monitor::Monitor;
use crate::plane::Host;
use crate::plane::context::Context;
use documents::api_error::ApiError;

/// The kernel half's count of packets that it put into the TUN.
const HANDED: &str = "tun_recorded";

impl Observers {
    /// Count what is handed over from now on.
    ///
    /// # Errors
    /// If the kernel half does not say what it counted.
    pub(in crate::plane) fn begin_count(&mut self, monitor: &Monitor, host: &Host) -> Result<(), ApiError> {
        self.handed = handed(monitor, host)?;
        Ok(())
    }

    /// What was handed over since the start, by each count. The data path's count lies between the kernel half's before and after it,
    /// but for what waits in the TUN.
    ///
    /// # Errors
    /// If the kernel half or the data thread does not answer.
    pub(in crate::plane) async fn handed_over(&self, context: Context<'_>) -> Result<HandedOver, ApiError> {
        let Context { config, halves, monitor, host, .. } = context;
        let since =
            |now: (u64, u64)| (now.0.saturating_sub(self.handed.0), now.1.saturating_sub(self.handed.1));
        let (before, _) = since(handed(monitor, host)?);
        let engine = halves.ask_outbound(|half| half.losses.received).await?;
        let (after, dropped) = since(handed(monitor, host)?);
        let waiting = u64::from(config.tun.queue);
        let seen = engine.saturating_add(dropped);
        let agree = seen.saturating_add(waiting) >= before && seen <= after + waiting;
        Ok(HandedOver { kernel: after, engine, dropped, agree })
    }
}

/// Packets that the kernel half has handed over, and that the TUN had no room for.
fn handed(monitor: &Monitor, host: &Host) -> Result<(u64, u64), ApiError> {
    let all = monitor.get().counters()?;
    let handed = all.iter().find(|(name, _)| *name == HANDED).map_or(0, |(_, count)| *count);
    Ok((handed, queue_drops(&host.tun().name).unwrap_or(0)))
}

/// Packets that the kernel dropped since the TUN's queue was full: field 12 of its line in /proc/net/dev.
pub(crate) fn queue_drops(tun: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/net/dev").ok()?;
    let fields = text.lines().find_map(|line| line.trim_start().strip_prefix(tun)?.strip_prefix(':'))?;
    fields.split_ascii_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_device_are_read() {
        assert!(queue_drops("lo").is_some());
        assert_eq!(queue_drops("no-such-device"), None);
    }
}
