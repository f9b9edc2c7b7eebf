//! What a stage answers.

use crate::{DropReason, Packet, stage};

/// Names a held packet's request for a security association (RFC 4301 section 4.4.1, paper 000 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AcquireId(pub u32);

/// The answer of every stage: the packet in its next form, or why there is none.
#[derive(Debug)]
pub enum Verdict<P> {
    /// The packet goes on, in the form the stage proved.
    Pass(P),
    /// The packet ends here, for this reason.
    Drop(DropReason),
    /// The packet waits for a security association.
    Hold(AcquireId),
    /// The packet ends here and this one goes back to its sender (an ICMP error).
    Reply(Packet<stage::Admitted>, DropReason),
}

impl<P> Verdict<P> {
    /// The packet, if it goes on.
    pub fn pass(self) -> Option<P> {
        match self {
            Verdict::Pass(packet) => Some(packet),
            Verdict::Drop(_) | Verdict::Hold(_) | Verdict::Reply(..) => None,
        }
    }
}
