//! What associations serve, counted: which selectors have how many associations.

use std::collections::HashMap;
use std::net::IpAddr;

use sadb::{Direction, Selectors, Spi};

/// An association by what events say of it.
pub(super) type LiveName = (Direction, Spi, IpAddr);

/// The selectors, with how many associations have each.
#[derive(Debug, Default)]
pub(super) struct Served {
    of: HashMap<LiveName, Vec<Selectors>>,
    counts: HashMap<Selectors, usize>,
}

/// What the end of an association means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingService {
    /// No association has these selectors any more.
    Nobody(Selectors),
    /// Another association has them.
    Others,
    /// It was not counted, or several may be meant.
    Unclear,
}

impl Served {
    /// The count of what these associations serve.
    pub(super) fn of(all: impl IntoIterator<Item = (LiveName, Selectors)>) -> Served {
        let mut live = Served::default();
        for (name, served) in all {
            live.add(name, served);
        }
        live
    }

    /// All selectors, each once.
    pub(super) fn list(&self) -> Vec<Selectors> {
        self.counts.keys().copied().collect()
    }

    /// Whether none had these selectors before.
    pub(super) fn add(&mut self, name: LiveName, served: Selectors) -> bool {
        self.of.entry(name).or_default().push(served);
        let count = self.counts.entry(served).or_default();
        *count += 1;
        *count == 1
    }

    /// Take back an [`Served::add`].
    pub(super) fn undo(&mut self, name: LiveName, served: Selectors) {
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
    pub(super) fn release(&mut self, served: Selectors) -> bool {
        let Some(count) = self.counts.get_mut(&served) else { return true };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(&served);
        }
        is_last
    }

    /// Whether an association of this name is counted.
    pub(super) fn has(&self, name: LiveName) -> bool {
        self.of.contains_key(&name)
    }

    pub(super) fn remove(&mut self, name: LiveName) -> RemainingService {
        let Some(&[served]) = self.of.get(&name).map(Vec::as_slice) else { return RemainingService::Unclear };
        self.of.remove(&name);
        if self.release(served) { RemainingService::Nobody(served) } else { RemainingService::Others }
    }
}
