//! The answer of sealing and opening, and the name of a request for an association.

use crate::DropReason;

/// The number of a held packet's request for a security association (RFC 4301 section 4.4.1, paper 000 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AcquireId(pub u32);

/// The answer of code that seals and opens packets (`ipsec`): the packet in its next form, or why there is none. The
/// engine's own stages answer outcomes: a packet that waits or is answered has one too.
#[derive(Debug)]
pub enum Verdict<P> {
    /// The packet goes on, in the form that the stage proved.
    Pass(P),
    /// The packet ends here, for this reason.
    Drop(DropReason),
}

impl<P> Verdict<P> {
    /// The packet, if it goes on.
    pub fn pass(self) -> Option<P> {
        match self {
            Verdict::Pass(packet) => Some(packet),
            Verdict::Drop(_) => None,
        }
    }
}
