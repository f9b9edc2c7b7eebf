//! Deficit round robin with a list of new and a list of old entries (RFC 8290 sections 4.1 and 4.2), for flows and for
//! users alike. The entries are links of the lists, and stand in a table of their owner.

use super::NONE;

/// The most that a quantum and a cost can be, so that no sum of some of them overflows.
pub(super) const LARGEST: i64 = i64::MAX / 4;

/// The list that an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Nowhere,
    New,
    Old,
}

/// The part of an entry that its turns need: what it may give still, and its neighbours in the list.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) deficit: i64,
    pub(super) listed: Listed,
    ahead: u32,
    behind: u32,
}

impl Link {
    pub(super) const IDLE: Link = Link { deficit: 0, listed: Listed::Nowhere, ahead: NONE, behind: NONE };

    /// Take the cost of a packet, and answer what there was before.
    pub(super) fn pay(&mut self, cost: i64) -> Paid {
        let paid = Paid { deficit: self.deficit, listed: self.listed, cost };
        self.deficit -= cost;
        paid
    }
}

/// An entry before it paid for the last packet, for the case that the packet comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paid {
    deficit: i64,
    listed: Listed,
    cost: i64,
}

/// An entry of a table.
pub(super) trait Entry {
    fn link(&self) -> &Link;
    fn link_mut(&mut self) -> &mut Link;
    /// What it may give in a round, at least 1.
    fn quantum(&self, one: i64) -> i64;
    /// Whether it has something to give.
    fn waits(&self) -> bool;
}

/// The first and the last entry of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The lists of new and of old entries.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    lists: [Ends; 2],
    /// The number of entries that are in one of them.
    count: u32,
}

impl Turns {
    pub(super) const EMPTY: Turns = Turns { lists: [Ends { first: NONE, last: NONE }; 2], count: 0 };

    fn list(&mut self, listed: Listed) -> &mut Ends {
        &mut self.lists[usize::from(listed == Listed::Old)]
    }

    fn unlink<E: Entry>(&mut self, entries: &mut [E], index: u32) {
        let Link { listed, ahead, behind, .. } = *entries[index as usize].link();
        if listed == Listed::Nowhere {
            return;
        }
        match ahead {
            NONE => self.list(listed).first = behind,
            ahead => entries[ahead as usize].link_mut().behind = behind,
        }
        match behind {
            NONE => self.list(listed).last = ahead,
            behind => entries[behind as usize].link_mut().ahead = ahead,
        }
        entries[index as usize].link_mut().listed = Listed::Nowhere;
        self.count -= 1;
    }

    fn link_last<E: Entry>(&mut self, entries: &mut [E], index: u32, listed: Listed) {
        let last = std::mem::replace(&mut self.list(listed).last, index);
        match last {
            NONE => self.list(listed).first = index,
            last => entries[last as usize].link_mut().behind = index,
        }
        let link = entries[index as usize].link_mut();
        (link.listed, link.ahead, link.behind) = (listed, last, NONE);
        self.count += 1;
    }

    fn link_first<E: Entry>(&mut self, entries: &mut [E], index: u32, listed: Listed) {
        let first = std::mem::replace(&mut self.list(listed).first, index);
        match first {
            NONE => self.list(listed).last = index,
            first => entries[first as usize].link_mut().ahead = index,
        }
        let link = entries[index as usize].link_mut();
        (link.listed, link.ahead, link.behind) = (listed, NONE, first);
        self.count += 1;
    }

    /// The entry whose turn it is, once [`Turns::settle`] has run.
    pub(super) fn turn(&self) -> Option<u32> {
        self.lists.iter().map(|list| list.first).find(|&first| first != NONE)
    }

    /// A packet came to this entry. If it was idle, it is a new one.
    pub(super) fn enter<E: Entry>(&mut self, entries: &mut [E], index: u32, one: i64) {
        let entry = &mut entries[index as usize];
        if entry.link().listed == Listed::Nowhere {
            entry.link_mut().deficit = entry.quantum(one);
            self.link_last(entries, index, Listed::New);
        }
    }

    /// A packet of this cost came back to this entry, which is again where it was: with what it had, less what was used
    /// of a super-packet.
    pub(super) fn come_back<E: Entry>(
        &mut self,
        entries: &mut [E],
        index: u32,
        one: i64,
        cost: i64,
        paid: Option<Paid>,
    ) {
        let entry = &mut entries[index as usize];
        let quantum = entry.quantum(one);
        let link = entry.link_mut();
        let listed = match paid {
            Some(paid) => {
                link.deficit = paid.deficit - (paid.cost - cost).max(0);
                paid.listed
            }
            None => {
                link.deficit = (link.deficit + cost).min(quantum);
                Listed::Old
            }
        };
        self.unlink(entries, index);
        self.link_first(entries, index, listed);
        self.settle(entries, one);
    }

    /// Bring an entry that may give to the front (RFC 8290 section 4.2), so that it can be named without changing
    /// anything.
    pub(super) fn settle<E: Entry>(&mut self, entries: &mut [E], one: i64) {
        while let Some(index) = self.turn() {
            let entry = &mut entries[index as usize];
            let (quantum, waits) = (entry.quantum(one), entry.waits());
            let link = entry.link_mut();
            if link.deficit <= 0 {
                // Rounds of an entry that is alone change nothing but its deficit.
                let rounds = if self.count == 1 { 1 + -link.deficit / quantum } else { 1 };
                link.deficit += rounds * quantum;
                self.unlink(entries, index);
                self.link_last(entries, index, Listed::Old);
            } else if waits {
                return;
            } else {
                let listed = link.listed;
                self.unlink(entries, index);
                if listed == Listed::New {
                    self.link_last(entries, index, Listed::Old);
                }
            }
        }
    }
}
