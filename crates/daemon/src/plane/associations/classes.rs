//! The classes of inbound associations, as the kernel half knows them where outer packets are split among sockets
//! (docs/design/0042).
//!
//! An association is told of before it is used, and forgotten behind its end. Where the kernel half does not follow, its
//! packets wait where strangers do, and nothing else is changed by it.

use std::collections::HashMap;
use std::net::IpAddr;

use sadb::{InboundSa, Spi};
use sockmon::SaName;
use wire::AggregateId;

use super::sa_classes::{Classed, SaClasses, classed};
use super::{Associations, Context};
use crate::datapath::InboundHalf;
use documents::api_error::ApiError;

/// The names and classes of every inbound association of an engine.
fn all_of(half: &InboundHalf) -> Vec<Classed> {
    half.engine.sad().list().map(InboundSa::config).map(classed).collect()
}

impl Associations {
    /// The classes of the associations of an engine whose thread does not run yet.
    pub(crate) fn classes_of(half: &InboundHalf) -> HashMap<SaName, AggregateId> {
        SaClasses::of(all_of(half)).list()
    }

    /// Count the classes of the associations of an engine whose thread does not run yet. The kernel half knows them.
    pub(in crate::plane) fn put_first_classes(&mut self, half: &InboundHalf, context: Context<'_>) {
        if let Some(sockets) = context.sockets {
            self.classes = SaClasses::of(all_of(half));
            sockets.join(self.classes.is_mixed());
        }
    }

    /// An association is about to be used: tell the kernel half of its class.
    pub(super) fn begin_class(&mut self, (name, class): Classed, context: Context<'_>) {
        let Some(sockets) = context.sockets else { return };
        let was_mixed = self.classes.is_mixed();
        let class = self.classes.add(name, class);
        if !was_mixed && self.classes.is_mixed() {
            sockets.join(true);
        }
        if let Err(error) = context.monitor.get().set_sa_class(name, class) {
            tracing::warn!("packets of association {:#x} wait where strangers do: {error}", name.spi);
        }
    }

    /// An association has ended, or did not come to be.
    pub(super) fn end_class(&mut self, (name, class): Classed, context: Context<'_>) {
        let Some(sockets) = context.sockets else { return };
        let was_mixed = self.classes.is_mixed();
        self.classes.remove(name, class);
        if was_mixed && !self.classes.is_mixed() {
            sockets.join(false);
        }
        let told = match self.classes.class(name) {
            Some(class) => context.monitor.get().set_sa_class(name, class),
            None => context.monitor.get().forget_sa_class(name),
        };
        if let Err(error) = told {
            tracing::warn!("association {:#x} still has its place in the kernel: {error}", name.spi);
        }
    }

    /// The association that an event names has ended. Where it is not clear which one is meant, all are counted anew.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn end_class_of(
        &mut self,
        spi: Spi,
        remote: IpAddr,
        context: Context<'_>,
    ) -> Result<(), ApiError> {
        let names = [Some(remote), None].map(|source| SaName { spi: spi.0, source });
        let found = names.into_iter().find_map(|name| Some((name, self.classes.only(name)?)));
        match found {
            Some(classed) => self.end_class(classed, context),
            None => self.count_classes_anew(context).await?,
        }
        Ok(())
    }

    /// Count the classes of the associations anew, and tell the kernel half.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn count_classes_anew(&mut self, context: Context<'_>) -> Result<(), ApiError> {
        let Some(sockets) = context.sockets else { return Ok(()) };
        let all = context.halves.ask_inbound(|half| all_of(half)).await?;
        self.classes = SaClasses::of(all);
        sockets.join(self.classes.is_mixed());
        if let Err(error) = context.monitor.get().set_sa_classes(&self.classes.list()) {
            tracing::warn!("packets of some associations wait where strangers do: {error}");
        }
        Ok(())
    }
}
