//! The priorities that packets of classes have for queueing disciplines of the uplink (`SO_PRIORITY`, `skb->priority`).
//!
//! A priority is a number, or a class of a queueing discipline as tc(8) writes it: `"1:10"`, major and minor number in
//! hexadecimal digits, which stand for the number `0x0001_0010`. HTB takes that for the number of its class.

use super::aggregates::MOST;
use crate::AggregateId;

/// The priority of each class that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities([Option<u32>; MOST]);

impl Priorities {
    /// The table of these classes; `None` if there is none among them, so that packets cost nothing for it.
    pub(super) fn of(classes: impl Iterator<Item = (AggregateId, u32)>) -> Option<Box<Priorities>> {
        let mut table: Option<Box<Priorities>> = None;
        for (class, priority) in classes {
            let table = table.get_or_insert_with(|| Box::new(Priorities([None; MOST])));
            if let Some(place) = table.0.get_mut(usize::from(class.0)) {
                *place = Some(priority);
            }
        }
        table
    }

    /// The priority of a class; `None`: the kernel chooses.
    #[inline]
    pub fn of_class(&self, class: AggregateId) -> Option<u32> {
        self.0.get(usize::from(class.0)).copied().flatten()
    }
}

/// The reason why a text is no class of a queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandleFault {
    /// It has not the form `MAJOR:MINOR`, of hexadecimal digits.
    Form,
    /// A number is zero, or more than has room.
    Range,
}

/// The number of a class of a queueing discipline, such as `1:10`.
pub(super) fn handle(text: &str) -> Result<u32, HandleFault> {
    let (major, minor) = text.split_once(':').ok_or(HandleFault::Form)?;
    let number = |digits: &str| {
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(HandleFault::Form);
        }
        match u16::from_str_radix(digits, 16) {
            Ok(0) | Err(_) => Err(HandleFault::Range),
            Ok(number) => Ok(u32::from(number)),
        }
    };
    let (major, minor) = (number(major), number(minor));
    // What has not the form at all is said first.
    let worst = [major, minor].into_iter().find(|number| *number == Err(HandleFault::Form));
    worst.transpose()?;
    Ok(major? << 16 | minor?)
}

/// A priority as it is written in a graph.
pub(super) fn show_priority(priority: u32) -> String {
    match (priority >> 16, priority & 0xffff) {
        (0, _) | (_, 0) => priority.to_string(),
        (major, minor) => format!("\"{major:x}:{minor:x}\""),
    }
}
