//! Packets with a source route (RFC 791 section 3.1, RFC 8200 section 4.4): what protects them must do so to their end, and the stop that comes
//! next is asked about as well. Stops between the two are not looked at.

use sadb::Mode;
use sadb::spd::{Action, Level};
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{DropReason, Flow, Packet};

use super::ruled::{RuledCourse, key_of};
use super::{Course, Outbound, asked};

/// The flow of a packet that leaves; with a source route, that to its end.
pub(super) fn to_its_end(bytes: &[u8], headers: &Headers) -> Flow {
    let flow = ip::flow(bytes, headers, true);
    Flow { remote: ip::final_destination(bytes, headers).unwrap_or(flow.remote), ..flow }
}

impl Outbound {
    /// Whether a source-routed packet may go on by way of its next stop: not where that is refused, not in clear where that wants
    /// protection, and not in a tunnel whose other end would not take it.
    ///
    /// # Errors
    /// Why not.
    #[cold]
    pub(super) fn by_way_of(
        &self,
        course: Course,
        packet: &Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
    ) -> Result<Course, DropReason> {
        let stop = Flow { remote: headers.dst, ..*flow };
        let (app, is_clear) = (packet.meta.app, matches!(course, Course::Clear));
        let wants_protection = if self.is_ruled(packet) {
            let key = key_of(packet, headers).towards(stop.remote);
            match self.consider_rules(&key, app, &stop).map(|ruled| ruled.course) {
                Some(RuledCourse::Refuse(reason)) => return Err(reason),
                Some(RuledCourse::Protect(_)) => true,
                Some(RuledCourse::Missing(level)) => level == Level::Mandatory,
                Some(RuledCourse::Clear) => false,
                None if is_clear => return Err(DropReason::NoSpdEntry),
                None => false,
            }
        } else {
            let route = self.consider(app, &stop, asked(packet.meta.mark));
            match route.decision.action {
                Action::Discard => return Err(DropReason::PolicyDiscard),
                Action::Protect { level, .. } => level == Level::Mandatory || route.sa.is_ok(),
                Action::Bypass => false,
            }
        };
        let tunnel = match course {
            Course::Protect(sa) => self.sad.get(sa).filter(|sa| sa.config().mode == Mode::Tunnel),
            _ => None,
        };
        let outside = tunnel.is_some_and(|sa| !sa.selectors().remote.contains(stop.remote));
        if is_clear && wants_protection || outside { Err(DropReason::SelectorMismatch) } else { Ok(course) }
    }
}
