//! The owner of a TUN, and what follows if that is not root (docs/design/0002, 0041).

use crate::link::{Link, TunOwner};

/// The fault of a TUN's owner, if there is one: user and group must be root.
///
/// Where neither owner nor group is set, any user may attach to a device that no process holds, and to one of several queues at
/// any time: read what is redirected to it in clear, and write packets that carry proof.
pub fn owner_fault(link: &Link) -> Option<String> {
    let name = &link.name;
    let Some(owner) = link.tun_owner else {
        return Some(format!("{name} is no TUN"));
    };
    match owner {
        TunOwner { user: Some(0), group: Some(0), .. } => None,
        TunOwner { user: None, group: None, several_queues, .. } => Some(format!(
            "the TUN {name} belongs to nobody: {} any user may attach, read protected traffic in clear and forge packets",
            when(several_queues)
        )),
        TunOwner { user, group, several_queues, .. } => {
            let word = |id: Option<u32>| id.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
            Some(format!(
                "the TUN {name} belongs to user {} and group {}, not to root: {} they may attach",
                word(user),
                word(group),
                when(several_queues)
            ))
        }
    }
}

/// The time at which a stranger may attach to a device that is not root's.
fn when(several_queues: bool) -> &'static str {
    if several_queues { "at any time" } else { "when no daemon holds it" }
}
