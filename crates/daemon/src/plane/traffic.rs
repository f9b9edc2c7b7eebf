//! What went from the kernel half to the engine, by the counts of both and of the TUN between them.

use super::Plane;
use crate::refused::Refused;

/// The kernel half's count of packets that it put into the TUN.
const HANDED: &str = "tun_recorded";

/// What the kernel half has handed over and what the TUN had no room for; at the start, to count from.
pub(crate) fn baseline(plane: &Plane) -> Result<(u64, u64), Refused> {
    Ok((counter(plane, HANDED)?, queue_drops(&plane.host.tun().name).unwrap_or(0)))
}

pub(crate) fn counter(plane: &Plane, word: &str) -> Result<u64, Refused> {
    let all = plane.kernel_counters()?;
    Ok(all.iter().find(|(name, _)| *name == word).map_or(0, |(_, count)| *count))
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
