//! What goes to the daemon that takes over ([`crate::handover`]), and how much that is.

use sadb::handover::HandOver;

use super::Plane;
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::refused::Refused;

impl Plane {
    /// At most so many octets a hand-over of all that must not be left out takes.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn octets_to_hand_over(&self) -> Result<usize, Refused> {
        let octets_of = sadb::handover::octets_of;
        let inbound = move |half: &mut InboundHalf| {
            half.engine.sad().list().map(|sa| octets_of(sa.config())).sum::<usize>()
        };
        let outbound = move |half: &mut OutboundHalf| {
            half.engine.sad().list().map(|(_, sa)| octets_of(sa.config())).sum::<usize>()
        };
        let associations =
            self.halves.ask_inbound(inbound).await? + self.halves.ask_outbound(outbound).await?;
        let beside = HandOver::octets_beside(self.keys.used(), self.rules.handed().len());
        Ok(associations + beside)
    }

    /// The rules, as they go to the next daemon.
    pub(crate) fn handed_rules(&self) -> Vec<u8> {
        self.rules.handed()
    }
}
