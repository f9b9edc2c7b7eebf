//! What a start puts in force, before the data threads run ([`crate::start`]).

use super::Plane;
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::gateway::Mtus;
use crate::policy_store::Candidate;
use documents::api_error::ApiError;
use documents::rules::SpdRules;

impl Plane {
    /// Tell the kernel half which flows the associations of both engines serve, whose threads do not run yet.
    ///
    /// # Errors
    /// If it does not take them all.
    pub(crate) fn put_first_live(&mut self, out: &OutboundHalf, into: &InboundHalf) -> Result<(), ApiError> {
        let (associations, context) = self.associations_in_context();
        associations.put_first_classes(into, context);
        associations.put_first_live(out, into, context)
    }

    /// The policy of an engine that was made with this policy and whose threads do not run yet; `instead` is why it is not what the
    /// policy file says, if it is not.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn put_first_in_force(
        &mut self,
        mut candidate: Candidate,
        instead: Option<String>,
    ) -> Result<(), ApiError> {
        let executables = self.policy.prepare(&mut candidate, &self.monitor)?;
        let unfinished = self.policy.load(&candidate, &self.monitor)?;
        self.policy.adopt(candidate, executables, unfinished, &self.monitor);
        if let Some(text) = instead {
            self.policy.note_error(text);
        }
        Ok(())
    }

    /// The rules of engines whose threads do not run yet.
    ///
    /// # Errors
    /// If the kernel half does not have their users, or may let more pass than they do.
    pub(crate) fn put_first_rules_in_force(&mut self, book: SpdRules) -> Result<(), ApiError> {
        self.rules.put_first_in_force(book, &self.monitor)
    }

    /// Begin to translate what sockets do, if that is asked for: first the calls that those which are open have made.
    ///
    /// # Errors
    /// If the kernel half does not say them, or there is no thread.
    pub(crate) fn translate_first(
        &mut self,
        out: &mut OutboundHalf,
        into: &mut InboundHalf,
    ) -> Result<(), ApiError> {
        if crate::translation::limits(self.config.translation).is_none() {
            return Ok(());
        }
        self.policy.translate_first((out, into), &self.halves, &self.monitor)
    }

    /// The sizes that the outbound thread begins with.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub(crate) fn first_mtus(&mut self) -> netio::Result<Mtus> {
        self.host.first_mtus()
    }

    /// Count what the kernel half hands over to the engine from now on.
    ///
    /// # Errors
    /// If the kernel half does not say what it counted.
    pub(crate) fn begin_count(&mut self) -> Result<(), ApiError> {
        self.observers.begin_count(&self.monitor, &self.host)
    }
}
