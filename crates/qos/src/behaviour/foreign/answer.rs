//! What a component from outside says of a packet, and what of it means something.

use std::fmt;

use crate::component::{Cause, Entry, Verdict};
use crate::meta::{AggregateId, Colour};

/// The verdict of a component on one packet, as the C header's `struct ravelin_qos_verdict` lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of the packet: 0 it passes, 1 it passes with a mark of congestion, 2 it ends, 3 it goes on in the
    /// class of a port.
    pub action: u32,
    /// The reason of the end, or the number of the port; else 0.
    pub value: u32,
    /// The fields that are changed, one bit each: 1 the colour, 2 the outer DSCP.
    pub changes: u32,
    /// The new colour: 0 green, 1 yellow, 2 red; 0 if it is not changed.
    pub colour: u8,
    /// The new DSCP of the outer header, 0 to 63; 0 if it is not changed.
    pub dscp: u8,
    /// The reserved field, which is 0.
    pub reserved: u16,
}

/// The reasons for which a component may end a packet, by their numbers.
const REASONS: [Cause; 4] = [Cause::Component, Cause::Policed, Cause::EarlyDrop, Cause::NotAdmitted];
const COLOURS: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];
const CHANGES_COLOUR: u32 = 1;
const CHANGES_DSCP: u32 = 2;
/// A DSCP has six bits (RFC 2474 section 3).
const MOST_DSCP: u8 = 63;

/// What becomes of a packet by a verdict that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet goes on.
    Pass,
    /// The packet goes on, marked as having met congestion.
    Mark,
    /// The packet ends for this cause.
    Drop(Cause),
    /// The packet goes on in the class of this port.
    To(usize),
}

/// A verdict that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What becomes of the packet.
    pub action: Action,
    /// The new colour of the packet.
    pub colour: Option<Colour>,
    /// The new DSCP of the outer header.
    pub dscp: Option<u8>,
}

/// The rule that a verdict breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// The component wrote no verdict.
    Unwritten,
    /// No action has this number.
    Action(u32),
    /// The component may not end a packet for a reason of this number.
    Reason(u32),
    /// The graph gives the component no port of this number.
    Port {
        /// The number that the verdict has.
        port: u32,
        /// The number of ports that there are.
        ports: usize,
    },
    /// A value goes with no action but the end and the port.
    Value(u32),
    /// No field has this bit.
    Changes(u32),
    /// No colour has this number.
    Colour(u8),
    /// A DSCP has six bits.
    Dscp(u8),
    /// The reserved field is not 0.
    Reserved(u16),
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenRule::Unwritten => f.write_str("it left one unwritten"),
            BrokenRule::Action(action) => write!(f, "there is no action {action}"),
            BrokenRule::Reason(reason) => write!(f, "it may not drop for a reason {reason}"),
            BrokenRule::Port { port, ports } => {
                write!(f, "there is no port {port}; the graph gives it {ports}")
            }
            BrokenRule::Value(value) => write!(f, "a value of {value} goes with a drop or a port alone"),
            BrokenRule::Changes(changes) => write!(f, "no field to be changed has the bits {changes:#x}"),
            BrokenRule::Colour(colour) => write!(f, "there is no colour {colour}"),
            BrokenRule::Dscp(dscp) => write!(f, "a DSCP is 0 to 63, not {dscp}"),
            BrokenRule::Reserved(reserved) => write!(f, "the reserved field is {reserved}, not 0"),
        }
    }
}

impl Answer {
    /// The verdict that stands in an array before a call: it means nothing, so that one which is not written is noticed.
    pub const NONE: Answer =
        Answer { action: u32::MAX, value: 0, changes: 0, colour: 0, dscp: 0, reserved: 0 };

    /// What the verdict means, where the graph gives the component so many ports.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn judged(&self, ports: usize) -> Result<Judged, BrokenRule> {
        let Answer { action, value, changes, colour, dscp, reserved } = *self;
        if *self == Answer::NONE {
            return Err(BrokenRule::Unwritten);
        }
        let place = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let action = match action {
            0 | 1 if value != 0 => return Err(BrokenRule::Value(value)),
            0 => Action::Pass,
            1 => Action::Mark,
            2 => Action::Drop(REASONS.get(place(value)).copied().ok_or(BrokenRule::Reason(value))?),
            3 if place(value) < ports => Action::To(place(value)),
            3 => return Err(BrokenRule::Port { port: value, ports }),
            other => return Err(BrokenRule::Action(other)),
        };
        if changes & !(CHANGES_COLOUR | CHANGES_DSCP) != 0 {
            return Err(BrokenRule::Changes(changes));
        }
        let its_colour = COLOURS.get(usize::from(colour)).copied().ok_or(BrokenRule::Colour(colour))?;
        if dscp > MOST_DSCP {
            return Err(BrokenRule::Dscp(dscp));
        }
        if reserved != 0 {
            return Err(BrokenRule::Reserved(reserved));
        }
        Ok(Judged {
            action,
            colour: (changes & CHANGES_COLOUR != 0).then_some(its_colour),
            dscp: (changes & CHANGES_DSCP != 0).then_some(dscp),
        })
    }
}

impl Judged {
    /// Do to a packet what the verdict says. The ports are those that the verdict was judged with.
    pub(super) fn carry_out(&self, ports: &[AggregateId], entry: &mut Entry) {
        if let Some(colour) = self.colour {
            entry.meta.colour = colour;
        }
        if let Some(dscp) = self.dscp {
            (entry.meta.dscp[0], entry.meta.is_marked) = (dscp, true);
        }
        match self.action {
            Action::Pass => {}
            Action::Mark => entry.verdict = Verdict::Mark,
            Action::Drop(cause) => entry.verdict = Verdict::Drop(cause),
            Action::To(port) => {
                if let Some(class) = ports.get(port) {
                    entry.meta.aggregate = *class;
                }
            }
        }
    }
}
