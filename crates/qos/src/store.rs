//! Queues themselves: FIFO, by flow, by user with the flows within, by rank.
//!
//! What enters: a ticket and its [`Meta`]. What leaves: the ticket that is next in the order of the store. A store
//! never drops and has no limit of its own; the enqueueing part in front of it keeps both.

mod fifo;
mod flow;
mod heap;
mod longest;
mod rank;
mod turns;
mod user_flows;

pub use fifo::Fifo;
pub use flow::{FlowBy, FlowQueues, FlowSettings};
pub use rank::{Rank, Ranked};
pub use user_flows::UserFlows;

use crate::meta::Meta;

/// A keyed hash of two words: the halves of a product, added without carry. Who does not know the seed cannot choose
/// words that fall together.
pub(crate) fn keyed(seed: u64, first: u32, second: u32) -> u64 {
    let word = (u64::from(first) << 32 | u64::from(second)) ^ seed;
    let mixed = fold(word ^ 0x9e37_79b9_7f4a_7c15, seed.rotate_left(31) | 1);
    fold(mixed ^ seed.rotate_left(17), 0xa076_1d64_78bd_642f)
}

fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

/// The sign for no place in a list.
const NONE: u32 = u32::MAX;

/// Packets in cells that are used again, each with the number of the cell behind it.
#[derive(Debug)]
struct Cells<T> {
    cells: Vec<(Option<(T, Meta)>, u32)>,
    free: u32,
}

impl<T> Cells<T> {
    fn with_capacity(packets: usize) -> Cells<T> {
        Cells { cells: Vec::with_capacity(packets), free: NONE }
    }

    fn insert(&mut self, item: T, meta: Meta) -> u32 {
        let index = self.free;
        if let Some(cell) = self.cells.get_mut(index as usize) {
            self.free = cell.1;
            *cell = (Some((item, meta)), NONE);
            return index;
        }
        self.cells.push((Some((item, meta)), NONE));
        (self.cells.len() - 1) as u32
    }

    /// Take a packet out, with the number of the cell behind it.
    fn remove(&mut self, index: u32) -> Option<(T, Meta, u32)> {
        let cell = self.cells.get_mut(index as usize)?;
        let (item, meta) = cell.0.take()?;
        let next = std::mem::replace(&mut cell.1, self.free);
        self.free = index;
        Some((item, meta, next))
    }

    fn meta(&self, index: u32) -> Option<&Meta> {
        self.cells.get(index as usize)?.0.as_ref().map(|(_, meta)| meta)
    }

    fn link(&mut self, index: u32, next: u32) {
        if let Some(cell) = self.cells.get_mut(index as usize) {
            cell.1 = next;
        }
    }
}
