//! The packet with the lowest rank leaves first: earliest deadline first inside one queue, or by priority.

use std::cmp::Reverse;

use crate::amount::Amount;
use crate::component::{About, Store};
use crate::meta::Meta;

use super::Cells;
use super::heap::Heap;

/// The rank of a packet, from its aggregate. The tables are by the number of the aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The arrival of the packet and the nanoseconds within which packets of its aggregate should leave.
    Deadline {
        /// Nanoseconds for each aggregate.
        within: Vec<u64>,
        /// Nanoseconds for those that the table does not have.
        otherwise: u64,
    },
    /// The drop precedence, the lowest first.
    Colour,
    /// The cost in nanoseconds, the lowest first.
    Cost,
    /// The priority of its aggregate, the lowest number first.
    Priority {
        /// The priority of each aggregate.
        order: Vec<u64>,
        /// The priority of those that the table does not have.
        otherwise: u64,
    },
}

impl Rank {
    /// The rank of one packet.
    pub fn rank(&self, meta: &Meta) -> u64 {
        let of =
            |table: &[u64], otherwise| table.get(usize::from(meta.aggregate.0)).copied().unwrap_or(otherwise);
        match self {
            Rank::Colour => meta.colour as u64,
            Rank::Cost => meta.amount.ns,
            Rank::Deadline { within, otherwise } => meta.arrived.0.saturating_add(of(within, *otherwise)),
            Rank::Priority { order, otherwise } => of(order, *otherwise),
        }
    }
}

/// A queue in the order of ranks. Packets of equal rank leave in the order in which they came.
#[derive(Debug)]
pub struct Ranked<T> {
    rank: Rank,
    cells: Cells<T>,
    /// Cells by rank, then by their number in the order of arrival.
    order: Heap<Reverse<(u64, i64)>>,
    /// The number of the next packet that comes.
    back: i64,
    /// The number of the next packet that is put back, which is ahead of all of its rank.
    front: i64,
    amount: Amount,
}

impl<T> Ranked<T> {
    /// An empty queue with room. It allocates again only beyond this many packets.
    pub fn with_capacity(rank: Rank, packets: usize) -> Ranked<T> {
        Ranked {
            rank,
            cells: Cells::with_capacity(packets),
            order: Heap::with_capacity(packets),
            back: 0,
            front: -1,
            amount: Amount::default(),
        }
    }

    fn insert(&mut self, item: T, meta: Meta, number: i64) {
        self.amount += meta.amount;
        let rank = self.rank.rank(&meta);
        let index = self.cells.insert(item, meta);
        self.order.set(index, Reverse((rank, number)));
    }

    fn remove(&mut self, index: u32) -> Option<(T, Meta)> {
        self.order.remove(index);
        let (item, meta, _) = self.cells.remove(index)?;
        self.amount -= meta.amount;
        Some((item, meta))
    }
}

impl<T: Send> Store<T> for Ranked<T> {
    fn put(&mut self, item: T, meta: Meta) {
        self.insert(item, meta, self.back);
        self.back += 1;
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        self.insert(item, meta, self.front);
        self.front -= 1;
    }

    fn peek(&self) -> Option<&Meta> {
        self.cells.meta(self.order.top()?)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let index = self.order.top()?;
        self.remove(index)
    }

    /// Take the packet with the lowest rank of this flow. The time that it takes grows with the queue.
    fn get_of(&mut self, flow: u32) -> Option<(T, Meta)> {
        let of_flow = |&&(_, index): &&(_, u32)| self.cells.meta(index).is_some_and(|meta| meta.flow == flow);
        let &(_, index) = self.order.entries().iter().filter(of_flow).max()?;
        self.remove(index)
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn about(&self) -> About {
        let settings = match &self.rank {
            Rank::Colour => "colour",
            Rank::Cost => "cost",
            Rank::Deadline { .. } => "deadline",
            Rank::Priority { .. } => "priority",
        };
        About { kind: "rank", settings: settings.into() }
    }
}
