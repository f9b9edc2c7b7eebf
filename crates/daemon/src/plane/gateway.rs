//! The spans by which forwarded packets pass without the engine ([`crate::gateway`]), as the kernel half is to know them.

use super::Plane;
use crate::gateway::spans;
use crate::refused::Refused;
use crate::rules::RuleBook;

impl Plane {
    /// Before rules change: what they would not let pass does not pass any more.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn narrow_spans(&self, book: &RuleBook) -> Result<(), Refused> {
        if self.config.gateway.is_none() {
            return Ok(());
        }
        self.monitor.get().narrow_spans(&spans(&book.in_order())).map_err(Refused::from)
    }

    /// After rules changed: what they let pass, passes.
    ///
    /// # Errors
    /// If the kernel half does not take it; the engine decides about the rest.
    pub(crate) fn set_spans(&self) -> Result<(), Refused> {
        if self.config.gateway.is_none() {
            return Ok(());
        }
        let spans = spans(&self.rules.in_order());
        self.monitor.get().set_spans(&spans).map_err(Refused::from)
    }

    /// Both, for rules that the engine has already.
    ///
    /// # Errors
    /// If the kernel half may let more pass than they do.
    pub(crate) fn put_first_spans(&self) -> Result<(), Refused> {
        self.narrow_spans(&self.rules)?;
        if let Err(refused) = self.set_spans() {
            tracing::warn!("what the rules bypass by address alone goes through the engine: {refused}");
        }
        Ok(())
    }
}
