//! Peers that inbound associations serve, as the kernel half knows them: *optional* is sticky for these.
//!
//! Counted as associations come and go, for walking all of them in the inbound thread would stop its packets. Where the count
//! does not tell, it is made anew.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use api::SaInfo;
use sadb::{InboundSa, Spi};
use wire::Prefix;

use super::{Plane, kernel};
use crate::refused::Refused;

/// An inbound association by what events say of it.
pub(crate) type LiveName = (Spi, IpAddr);

/// The peers, with how many associations serve each.
#[derive(Debug, Default)]
pub struct LivePeers {
    of: HashMap<LiveName, Vec<Prefix>>,
    counts: BTreeMap<Prefix, usize>,
}

/// What the end of an association means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// These peers have no association any more.
    Nobody(Prefix),
    /// Another association serves them.
    Others,
    /// It was not counted, or several may be meant.
    Unclear,
}

impl LivePeers {
    /// Of these associations.
    pub fn of(all: impl IntoIterator<Item = (LiveName, Prefix)>) -> LivePeers {
        let mut live = LivePeers::default();
        for (name, peers) in all {
            live.add(name, peers);
        }
        live
    }

    /// Every peer, each once.
    pub fn list(&self) -> Vec<Prefix> {
        self.counts.keys().copied().collect()
    }

    /// Whether nobody served these peers before.
    fn add(&mut self, name: LiveName, peers: Prefix) -> bool {
        self.of.entry(name).or_default().push(peers);
        let count = self.counts.entry(peers).or_default();
        *count += 1;
        *count == 1
    }

    fn remove(&mut self, name: LiveName) -> Left {
        let Some(&[peers]) = self.of.get(&name).map(Vec::as_slice) else { return Left::Unclear };
        self.of.remove(&name);
        match self.counts.get_mut(&peers) {
            Some(count) if *count > 1 => {
                *count -= 1;
                Left::Others
            }
            _ => {
                self.counts.remove(&peers);
                Left::Nobody(peers)
            }
        }
    }
}

/// What [`LivePeers`] wants to know of an association.
pub(crate) fn served(sa: &InboundSa) -> (LiveName, Prefix) {
    ((sa.spi(), sa.config().endpoints.remote), sa.config().effective_selectors().remote)
}

fn name_of(sa: &SaInfo) -> LiveName {
    (Spi(sa.spi.0), sa.remote)
}

impl Plane {
    /// An inbound association was added that serves these peers.
    ///
    /// # Errors
    /// If the kernel half does not take them.
    pub(super) fn begin_live(&mut self, sa: &SaInfo, peers: Prefix) -> Result<(), Refused> {
        let first = self.live.add(name_of(sa), peers);
        match &self.monitor {
            Some(monitor) if first => monitor.get().add_live_sa(peers).map_err(|error| kernel(&error)),
            _ => Ok(()),
        }
    }

    /// An inbound association has ended.
    ///
    /// # Errors
    /// If the kernel half does not follow, or the thread does not answer.
    pub(super) async fn end_live(&mut self, sa: &SaInfo) -> Result<(), Refused> {
        self.end_live_of(name_of(sa)).await
    }

    /// As [`Plane::end_live`], by what an event says.
    pub(crate) async fn end_live_of(&mut self, name: LiveName) -> Result<(), Refused> {
        match self.live.remove(name) {
            Left::Others => Ok(()),
            Left::Nobody(peers) => match &self.monitor {
                Some(monitor) => monitor.get().remove_live_sa(peers).map_err(|error| kernel(&error)),
                None => Ok(()),
            },
            Left::Unclear => self.refresh_live_sas().await,
        }
    }

    /// Count anew.
    pub(crate) async fn refresh_live_sas(&mut self) -> Result<(), Refused> {
        let all: Vec<_> = self.inbound.ask(|half| half.engine.sad().list().map(served).collect()).await?;
        self.set_live_sas(LivePeers::of(all))
    }

    /// Tell the kernel half which peers have inbound associations, and no others.
    ///
    /// # Errors
    /// If it does not take them all.
    pub fn set_live_sas(&mut self, live: LivePeers) -> Result<(), Refused> {
        self.live = live;
        match &self.monitor {
            Some(monitor) => monitor.get().set_live_sas(&self.live.list()).map_err(|error| kernel(&error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_live_as_long_as_one_association_serves_them() {
        let name = |spi, last| (Spi(spi), IpAddr::from([192, 0, 2, last]));
        let peers = |last| Prefix::host([10, 0, 0, last].into());
        let mut live = LivePeers::of([(name(1, 1), peers(1)), (name(2, 1), peers(1))]);
        assert!(!live.add(name(3, 1), peers(1)) && live.add(name(4, 2), peers(2)));
        assert_eq!(live.list(), [peers(1), peers(2)]);
        assert_eq!(live.remove(name(4, 2)), Left::Nobody(peers(2)));
        assert_eq!(live.remove(name(1, 1)), Left::Others);
        assert_eq!(live.remove(name(1, 1)), Left::Unclear);
        assert_eq!(live.remove(name(2, 1)), Left::Others);
        // Two of one name: an event does not say which has ended.
        live.add(name(3, 1), peers(3));
        assert_eq!(live.remove(name(3, 1)), Left::Unclear);
        assert_eq!(live.list(), [peers(1), peers(3)]);
    }
}
