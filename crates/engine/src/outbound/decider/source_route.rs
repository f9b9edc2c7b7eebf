//! Packets with a source route (RFC 791 section 3.1, RFC 8200 section 4.4). The association must protect them to their
//! end, and policy is also asked about the stops on the way there.

use sadb::spd::{Action, Level};
use sadb::{Mode, OutboundSad};
use wire::ip::{self, Headers};
use wire::{DropReason, Flow, Packet};

use super::Decider;
use super::rule_cache::{RuleDisposition, key_of};
use crate::outbound::origin::asked;
use crate::outbound::route::Disposition;

/// The largest number of stops of one route that policy is asked about. Only routing headers have more than nine, and
/// each stop takes a search.
const MOST_STOPS: usize = 16;

impl Decider {
    /// Check that a source-routed packet may go on by way of its stops: no stop may be refused, none may want
    /// protection where the packet goes in clear, and a tunnel must take the packet for the next stop.
    ///
    /// # Errors
    /// The reason why it may not.
    #[cold]
    pub(super) fn check_source_route<S>(
        &self,
        disposition: Disposition,
        packet: &Packet<S>,
        headers: &Headers,
        flow: &Flow,
        sad: &OutboundSad,
    ) -> Result<Disposition, DropReason> {
        let mut stops = ip::stops_between(packet.bytes(), headers);
        // Options without a route: nothing to ask, and nothing was allocated.
        if stops.is_empty() && headers.dst == flow.remote {
            return Ok(disposition);
        }
        let is_clear = matches!(disposition, Disposition::Clear);
        let mut wants_protection = false;
        stops.push(headers.dst);
        stops.sort_unstable();
        stops.dedup();
        if stops.len() > MOST_STOPS {
            return Err(DropReason::SelectorMismatch);
        }
        for remote in stops.into_iter().filter(|stop| *stop != flow.remote) {
            wants_protection |= self.check_stop(is_clear, packet, headers, &Flow { remote, ..*flow }, sad)?;
        }
        let tunnel = match disposition {
            Disposition::Protect(sa) => sad.get(sa).filter(|sa| sa.config().mode == Mode::Tunnel),
            _ => None,
        };
        let outside = tunnel.is_some_and(|sa| !sa.selectors().remote.contains(headers.dst));
        if is_clear && wants_protection || outside {
            Err(DropReason::SelectorMismatch)
        } else {
            Ok(disposition)
        }
    }

    /// Whether packets to a stop want protection.
    ///
    /// # Errors
    /// The reason, if packets to the stop are refused.
    fn check_stop<S>(
        &self,
        is_clear: bool,
        packet: &Packet<S>,
        headers: &Headers,
        stop: &Flow,
        sad: &OutboundSad,
    ) -> Result<bool, DropReason> {
        let app = packet.meta.app;
        if !self.is_ruled(packet) {
            let route = self.consider(app, stop, asked(packet.meta.mark), sad);
            return match route.decision.action {
                Action::Discard => Err(DropReason::PolicyDiscard),
                Action::Protect { level, .. } => Ok(level == Level::Mandatory || route.sa.is_ok()),
                Action::Bypass => Ok(false),
            };
        }
        let key = key_of(packet, headers).towards(stop.remote);
        match self.consider_rules(&key, app, stop, sad).map(|ruled| ruled.disposition) {
            Some(RuleDisposition::Refuse(reason)) => Err(reason),
            Some(RuleDisposition::Protect(_)) => Ok(true),
            Some(RuleDisposition::Missing(level)) => Ok(level == Level::Mandatory),
            Some(RuleDisposition::Clear) => Ok(false),
            None if is_clear => Err(DropReason::NoSpdEntry),
            None => Ok(false),
        }
    }
}
