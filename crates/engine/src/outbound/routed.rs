//! Packets with a source route (RFC 791 section 3.1, RFC 8200 section 4.4). The association must protect them to their
//! end, and policy is also asked about the stops on the way there.

use sadb::Mode;
use sadb::spd::{Action, Level};
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{DropReason, Flow, Packet};

use super::Outbound;
use super::course::Course;
use super::origin::asked;
use super::rule_cache::{RuleCourse, key_of};

/// The largest number of stops of one route that policy is asked about. Only routing headers have more than nine, and
/// each stop takes a search.
const MOST_STOPS: usize = 16;

impl Outbound {
    /// Check that a source-routed packet may go on by way of its stops: no stop may be refused, none may want
    /// protection where the packet goes in clear, and a tunnel must take the packet for the next stop.
    ///
    /// # Errors
    /// The reason why it may not.
    #[cold]
    pub(super) fn by_way_of(
        &self,
        course: Course,
        packet: &Packet<Inner>,
        headers: &Headers,
        flow: &Flow,
    ) -> Result<Course, DropReason> {
        let mut stops = ip::stops_between(packet.bytes(), headers);
        // Options without a route: nothing to ask, and nothing was allocated.
        if stops.is_empty() && headers.dst == flow.remote {
            return Ok(course);
        }
        let is_clear = matches!(course, Course::Clear);
        let mut wants_protection = false;
        stops.push(headers.dst);
        stops.sort_unstable();
        stops.dedup();
        if stops.len() > MOST_STOPS {
            return Err(DropReason::SelectorMismatch);
        }
        for remote in stops.into_iter().filter(|stop| *stop != flow.remote) {
            wants_protection |= self.stop(is_clear, packet, headers, &Flow { remote, ..*flow })?;
        }
        let tunnel = match course {
            Course::Protect(sa) => self.sad.get(sa).filter(|sa| sa.config().mode == Mode::Tunnel),
            _ => None,
        };
        let outside = tunnel.is_some_and(|sa| !sa.selectors().remote.contains(headers.dst));
        if is_clear && wants_protection || outside { Err(DropReason::SelectorMismatch) } else { Ok(course) }
    }

    /// Whether packets to a stop want protection.
    ///
    /// # Errors
    /// The reason, if packets to the stop are refused.
    fn stop(
        &self,
        is_clear: bool,
        packet: &Packet<Inner>,
        headers: &Headers,
        stop: &Flow,
    ) -> Result<bool, DropReason> {
        let app = packet.meta.app;
        if !self.is_ruled(packet) {
            let route = self.consider(app, stop, asked(packet.meta.mark));
            return match route.decision.action {
                Action::Discard => Err(DropReason::PolicyDiscard),
                Action::Protect { level, .. } => Ok(level == Level::Mandatory || route.sa.is_ok()),
                Action::Bypass => Ok(false),
            };
        }
        let key = key_of(packet, headers).towards(stop.remote);
        match self.consider_rules(&key, app, stop).map(|ruled| ruled.course) {
            Some(RuleCourse::Refuse(reason)) => Err(reason),
            Some(RuleCourse::Protect(_)) => Ok(true),
            Some(RuleCourse::Missing(level)) => Ok(level == Level::Mandatory),
            Some(RuleCourse::Clear) => Ok(false),
            None if is_clear => Err(DropReason::NoSpdEntry),
            None => Ok(false),
        }
    }
}
