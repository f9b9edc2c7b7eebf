//! Checks of one protection's items: whether there are any and not too many, which never decide, and what they leave
//! open.

use sadb::spd::PortRange;

use crate::MAX_ITEMS;
use crate::ast::{Protection, port_text, protocol_text};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::ports::{Rectangle, examine};

/// Whether a protection is fit to be used. If it is not `sound` so far, consequences of an earlier error are not
/// reported. `used` says that some network names it.
pub(super) fn items(protection: &Protection, sink: &mut Sink, sound: bool, used: bool) -> bool {
    let name = show(&protection.name.text);
    let at = protection.name.span;
    if protection.items.is_empty() {
        if sound {
            sink.push(
                Diagnostic::new(Code::EmptyProtection, at, format!("protection `{name}` has no items"))
                    .label("nothing would pass")
                    .help("write `localport=any remoteport=any encryption mandatory;`, or use `untrusted`"),
            );
        }
        return false;
    }
    let mut count = 0usize;
    let mut counts = protection.items.iter().map(|item| {
        count = count.saturating_add(item.count());
        count
    });
    if let Some(place) = counts.position(|count| count > MAX_ITEMS) {
        let count: usize = protection.items.iter().map(|item| item.count()).fold(0, usize::saturating_add);
        let message = format!("protection `{name}` has {count} items; at most {MAX_ITEMS} are possible");
        sink.push(
            Diagnostic::new(Code::TooManyItems, protection.items[place].span, message)
                .label("the first one too many")
                .help("merge items with port ranges (`localport=6000-6063`), or divide the networks"),
        );
        return false;
    }
    if !sound {
        return true;
    }
    if !used {
        sink.push(
            Diagnostic::new(Code::UnusedProtection, at, format!("no network uses protection `{name}`"))
                .label("never used")
                .help(format!("write `network RANGE protected {name};`, or remove it")),
        );
    }
    let rectangles: Vec<Vec<Rectangle>> = protection
        .items
        .iter()
        .map(|item| {
            let of = |(local, remote)| Rectangle { protocol: item.protocol, local, remote };
            item.pairs().map(of).collect()
        })
        .collect();
    let (hidden, open) = examine(&rectangles);
    for (item, _) in protection.items.iter().zip(hidden).filter(|(_, hidden)| *hidden) {
        sink.push(
            Diagnostic::new(Code::ShadowedItem, item.span, "items above it match all that this item matches")
                .label("never decides: the first match does")
                .help("move it up, or remove it"),
        );
    }
    if let Some(open) = open.filter(|_| used) {
        let (what, help) = match open.protocol {
            None if open.is_whole => (
                "leave other protocols open".to_string(),
                "end it with an item without `protocol=`, unless refusing is meant",
            ),
            Some(number) if open.is_whole => (
                format!("leave protocol `{}` open", protocol_text(number)),
                "add an item for it, or end with one without `protocol=`, unless refusing is meant",
            ),
            protocol => {
                let of = protocol.map_or(String::new(), |number| format!(" of {}", protocol_text(number)));
                let (local, remote) = (port(open.local), port(open.remote));
                (
                    format!("leave ports open, such as local {local} to remote {remote}{of}"),
                    "end it with `localport=any remoteport=any TYPE LEVEL;`, unless refusing is meant",
                )
            }
        };
        let message = format!("the items of protection `{name}` {what}: such traffic is refused");
        sink.push(
            Diagnostic::new(Code::PortsNotCovered, at, message).label("not every port is covered").help(help),
        );
    }
    true
}

fn port(first: u16) -> String {
    port_text(PortRange::one(first))
}
