//! The terms of a demand: the association that meets it, and the treatment of a flow that has none.

use sadb::spd::{Failure, Level, Negotiating, Terms};
use sadb::{OutboundSad, SaIndex};
use wire::{AppId, DropReason, Flow, Meta, Services};

use super::Decider;
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::outbound::route::Disposition;

impl Decider {
    /// The association that meets the demand for this flow of this application.
    pub(super) fn serving(
        app: AppId,
        flow: &Flow,
        services: Services,
        level: Level,
        terms: &Terms,
        sad: &OutboundSad,
    ) -> Result<SaIndex, DropReason> {
        let found = match terms.suite {
            None => sad.search(app, flow, services),
            // One of another suite does not serve: as if it were not there, so that one is asked for. In a bundle one of
            // the members has the suite, since compression may stand in front of the cipher.
            Some(suite) => sad.search_for(app, flow, |sa, follows| {
                let mut members = sad.bundle(sa).map(|member| member.config());
                match members.find(|config| config.suite == suite && config.keymat_len() > 0) {
                    Some(config) if !follows && config.services().satisfies(services) => Ok(()),
                    Some(_) if !follows => Err(DropReason::SaTooWeak),
                    _ => Err(DropReason::NoSa),
                }
            }),
        };
        match found {
            // Less than what was asked is still better than clear.
            Err(_) if level != Level::Mandatory => sad.search(app, flow, Services::NONE),
            found => found,
        }
    }

    /// Ask for an association that a packet needs and that does not exist, and let the packet go on as the terms say.
    #[cold]
    pub(super) fn negotiate(
        &mut self,
        meta: &Meta,
        flow: &Flow,
        terms: Terms,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Disposition, DropReason> {
        let failed = match self.announce(meta, flow, &terms, None, cx) {
            Some(Ok(asked)) => asked.failed,
            // No room to ask: not a failure of the peer's, so it goes on as while it is asked.
            Some(Err(_)) => false,
            // Nobody answers: there will be none.
            None => true,
        };
        match (failed, terms.negotiating, terms.failure) {
            (false, Negotiating::Hold, _) => Ok(Disposition::Hold),
            (false, Negotiating::Pass, _) | (true, _, Failure::Pass) => Ok(Disposition::Clear),
            (false, Negotiating::Drop, _) | (true, _, Failure::Drop) => Err(DropReason::NoSa),
        }
    }
}
