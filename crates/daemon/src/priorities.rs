//! Whether the priorities that a graph gives its classes reach the queueing disciplines of the uplink on this host.

use api::{Check, CheckState};
use config::{Config, OuterIo};

/// The kernel's answer, where it takes no priority beside a packet.
const OLD_KERNEL: &str =
    "this kernel takes no priority beside a packet (SO_PRIORITY as a control message, Linux 6.14)";
/// The consequence of frames.
const FRAMES: &str = "packets leave as frames (`outer` in [io]), which go past the queueing disciplines";

/// The reason why priorities of classes do nothing; `None`: packets leave with them.
pub(crate) fn obstacle(config: &Config) -> Option<&'static str> {
    obstacle_of(config.outer, netio::udp::takes_priorities)
}

fn obstacle_of(outer: OuterIo, takes_priorities: impl FnOnce() -> bool) -> Option<&'static str> {
    if outer != OuterIo::Udp {
        return Some(FRAMES);
    }
    (!takes_priorities()).then_some(OLD_KERNEL)
}

/// The note about a graph that has priorities.
pub(crate) fn note(obstacle: &'static str) -> String {
    format!("`socket_priority` of classes does nothing here: {obstacle}")
}

/// The check of a host whose configuration names a graph; `None`: it names none.
pub(crate) fn check(config: &Config) -> Option<Check> {
    config.qos.as_ref()?;
    Some(check_of(obstacle(config)))
}

fn check_of(obstacle: Option<&'static str>) -> Check {
    let (state, found, remedy) = match obstacle {
        None => (CheckState::Ok, "a class may have one (`socket_priority`)".to_owned(), None),
        Some(why) => (
            CheckState::Warn,
            note(why),
            Some(
                "boot a kernel of 6.14 or later and use outer = \"udp\" in [io], or let qdiscs read the outer DSCP",
            ),
        ),
    };
    Check { name: "qdisc priorities".to_owned(), state, found, remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_and_frames_are_told_in_doctor_and_with_the_graph() {
        assert_eq!(obstacle_of(OuterIo::Udp, || true), None);
        let old = obstacle_of(OuterIo::Udp, || false).unwrap();
        assert!(old.contains("6.14") && note(old).contains("socket_priority"), "{old}");
        let frames = obstacle_of(OuterIo::Packet, || true).unwrap();
        assert!(frames.contains("frames"), "{frames}");
        assert_eq!(check_of(None).state, CheckState::Ok);
        let check = check_of(Some(old));
        assert!(check.state == CheckState::Warn && check.remedy.is_some() && check.found.contains("6.14"));
    }
}
