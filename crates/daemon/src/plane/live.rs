//! What inbound associations serve, as the kernel half knows it: *optional* is sticky for these flows.
//!
//! Counted as associations come and go, for walking all of them in the inbound thread would stop its packets. Where the count
//! does not tell, it is made anew.

use std::collections::HashMap;
use std::net::IpAddr;

use api::SaInfo;
use sadb::{InboundSa, Selectors, Spi};

use super::{Plane, kernel};
use crate::refused::Refused;

/// An inbound association by what events say of it.
pub(crate) type LiveName = (Spi, IpAddr);

/// The selectors, with how many associations have each.
#[derive(Debug, Default)]
pub struct Served {
    of: HashMap<LiveName, Vec<Selectors>>,
    counts: HashMap<Selectors, usize>,
}

/// What the end of an association means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// No association has these selectors any more.
    Nobody(Selectors),
    /// Another association has them.
    Others,
    /// It was not counted, or several may be meant.
    Unclear,
}

impl Served {
    /// Of these associations.
    pub fn of(all: impl IntoIterator<Item = (LiveName, Selectors)>) -> Served {
        let mut live = Served::default();
        for (name, served) in all {
            live.add(name, served);
        }
        live
    }

    /// All selectors, each once.
    pub fn list(&self) -> Vec<Selectors> {
        self.counts.keys().copied().collect()
    }

    /// Whether none had these selectors before.
    fn add(&mut self, name: LiveName, served: Selectors) -> bool {
        self.of.entry(name).or_default().push(served);
        let count = self.counts.entry(served).or_default();
        *count += 1;
        *count == 1
    }

    /// Take back an [`Served::add`].
    fn undo(&mut self, name: LiveName, served: Selectors) {
        if let Some(of) = self.of.get_mut(&name) {
            // The last one of these selectors is the one that was added.
            if let Some(at) = of.iter().rposition(|other| *other == served) {
                of.remove(at);
            }
            if of.is_empty() {
                self.of.remove(&name);
            }
        }
        self.release(served);
    }

    /// Whether nobody has these selectors any more.
    fn release(&mut self, served: Selectors) -> bool {
        let Some(count) = self.counts.get_mut(&served) else { return true };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(&served);
        }
        is_last
    }

    fn remove(&mut self, name: LiveName) -> Left {
        let Some(&[served]) = self.of.get(&name).map(Vec::as_slice) else { return Left::Unclear };
        self.of.remove(&name);
        if self.release(served) { Left::Nobody(served) } else { Left::Others }
    }
}

/// What [`Served`] wants to know of an association.
pub(crate) fn served(sa: &InboundSa) -> (LiveName, Selectors) {
    ((sa.spi(), sa.config().endpoints.remote), sa.config().effective_selectors())
}

fn warn_of_widened(served: Selectors) {
    tracing::warn!(
        peers = %served.remote,
        "more selectors of associations meet here than the kernel half tells apart: optional clear text of these peers is refused for \
         every flow; associations with wider selectors, or fewer of them, change this"
    );
}

fn name_of(sa: &SaInfo) -> LiveName {
    (Spi(sa.spi.0), sa.remote)
}

impl Plane {
    /// An inbound association was added that serves these flows.
    ///
    /// # Errors
    /// If the kernel half does not take them: the association is removed again, for clear text would still pass in its place.
    pub(super) async fn begin_live(&mut self, sa: &SaInfo, served: Selectors) -> Result<(), Refused> {
        let first = self.live.add(name_of(sa), served);
        let told = if first { self.tell_of_live(served) } else { Ok(()) };
        if told.is_err() {
            self.live.undo(name_of(sa), served);
            let name = super::changes::name_of(sa);
            // Its key stays burnt: the peer may have sealed with it already.
            let _ = self.inbound.ask(move |half| half.engine.remove_sa(name).map(drop)).await;
        }
        told
    }

    fn tell_of_live(&self, served: Selectors) -> Result<(), Refused> {
        let Some(monitor) = &self.monitor else { return Ok(()) };
        let mut kernel_half = monitor.get();
        let before = kernel_half.live_widened();
        kernel_half.add_live_sa(&served).map_err(|error| kernel(&error))?;
        if before == 0 && kernel_half.live_widened() > 0 {
            warn_of_widened(served);
        }
        Ok(())
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
            Left::Nobody(served) => match &self.monitor {
                Some(monitor) => monitor.get().remove_live_sa(&served).map_err(|error| kernel(&error)),
                None => Ok(()),
            },
            Left::Unclear => self.refresh_live_sas().await,
        }
    }

    /// Count anew.
    pub(crate) async fn refresh_live_sas(&mut self) -> Result<(), Refused> {
        let all: Vec<_> = self.inbound.ask(|half| half.engine.sad().list().map(served).collect()).await?;
        self.set_live_sas(Served::of(all))
    }

    /// Tell the kernel half which flows inbound associations serve, and no others.
    ///
    /// # Errors
    /// If it does not take them all.
    pub fn set_live_sas(&mut self, live: Served) -> Result<(), Refused> {
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
    use wire::Prefix;

    #[test]
    fn flows_are_served_as_long_as_one_association_does_it() {
        let name = |spi, last| (Spi(spi), IpAddr::from([192, 0, 2, last]));
        let peer = |last| Selectors { remote: Prefix::host([10, 0, 0, last].into()), ..Selectors::ANY };
        let has = |live: &Served, want: &[Selectors]| {
            let list = live.list();
            list.len() == want.len() && want.iter().all(|one| list.contains(one))
        };
        let mut live = Served::of([(name(1, 1), peer(1)), (name(2, 1), peer(1))]);
        assert!(!live.add(name(3, 1), peer(1)) && live.add(name(4, 2), peer(2)));
        assert!(has(&live, &[peer(1), peer(2)]));
        // The same peer by another protocol is something else.
        let tcp = Selectors { protocol: Some(6), ..peer(1) };
        assert!(live.add(name(5, 1), tcp) && has(&live, &[peer(1), peer(2), tcp]));
        assert_eq!(live.remove(name(5, 1)), Left::Nobody(tcp));
        assert_eq!(live.remove(name(4, 2)), Left::Nobody(peer(2)));
        assert_eq!(live.remove(name(1, 1)), Left::Others);
        assert_eq!(live.remove(name(1, 1)), Left::Unclear);
        assert_eq!(live.remove(name(2, 1)), Left::Others);
        // Two of one name: an event does not say which has ended.
        live.add(name(3, 1), peer(3));
        assert_eq!(live.remove(name(3, 1)), Left::Unclear);
        assert!(has(&live, &[peer(1), peer(3)]));
    }

    #[test]
    fn what_the_kernel_half_did_not_take_does_not_count() {
        let name = |spi| (Spi(spi), IpAddr::from([192, 0, 2, 1]));
        let flows = Selectors { remote: Prefix::host([10, 0, 0, 1].into()), ..Selectors::ANY };
        let mut live = Served::default();
        assert!(live.add(name(1), flows));
        live.undo(name(1), flows);
        assert_eq!(live.list(), []);
        // So the next one tells the kernel half again, and another of the same name is still known.
        assert!(live.add(name(1), flows));
        assert!(!live.add(name(1), flows));
        live.undo(name(1), flows);
        assert_eq!(live.remove(name(1)), Left::Nobody(flows));
    }
}
