//! The first packet that came is the first that leaves.

use std::collections::VecDeque;

use crate::amount::Amount;
use crate::component::{About, Store};
use crate::meta::Meta;

/// A queue in the order of arrival.
#[derive(Debug)]
pub struct Fifo<T> {
    packets: VecDeque<(T, Meta)>,
    amount: Amount,
}

impl<T> Fifo<T> {
    /// An empty queue with room. It allocates again only beyond this many packets.
    pub fn with_capacity(packets: usize) -> Fifo<T> {
        Fifo { packets: VecDeque::with_capacity(packets), amount: Amount::default() }
    }

    fn took(&mut self, packet: Option<(T, Meta)>) -> Option<(T, Meta)> {
        let (item, meta) = packet?;
        self.amount -= meta.amount;
        Some((item, meta))
    }
}

impl<T: Send> Store<T> for Fifo<T> {
    fn put(&mut self, item: T, meta: Meta) {
        self.amount += meta.amount;
        self.packets.push_back((item, meta));
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        self.amount += meta.amount;
        self.packets.push_front((item, meta));
    }

    fn peek(&self) -> Option<&Meta> {
        self.packets.front().map(|(_, meta)| meta)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let packet = self.packets.pop_front();
        self.took(packet)
    }

    /// Take the first packet of this flow. The time that it takes grows with the queue.
    fn get_of(&mut self, flow: u32) -> Option<(T, Meta)> {
        let at = self.packets.iter().position(|(_, meta)| meta.flow == flow)?;
        let packet = self.packets.remove(at);
        self.took(packet)
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn about(&self) -> About {
        About { kind: "fifo", settings: String::new() }
    }
}
