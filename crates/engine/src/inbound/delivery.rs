//! What came of one receive batch: packets for the host, where they lie.
//!
//! Enters: bursts whose datagrams were opened in place, and single packets, in the order in which they came. Leaves:
//! [`Train`]s of packets that the host may be given under one header, each flow's packets in their order; then the buffers.

use std::ops::Range;

use wire::coalesce::Checks;
use wire::stage::Admitted;
use wire::{Burst, Coalescer, Meta, Packet, Pool, Train};

use crate::tally::Dropped;

/// Packets of one receive batch that the host may have.
#[derive(Debug, Default)]
pub struct Delivery {
    bursts: Vec<Burst<Admitted>>,
    packets: Vec<Packet<Admitted>>,
    items: Vec<Item>,
    /// For who wants to know what became of each datagram.
    trace: Option<Box<Trace>>,
}

/// What became of each datagram of a burst, in the order in which it was known.
#[derive(Debug, Default)]
struct Trace {
    /// The datagram that is looked at.
    at: usize,
    list: Vec<(usize, Became)>,
}

#[derive(Debug)]
enum Became {
    /// The item of this index, with what is known of it.
    Item(usize, Meta),
    Dropped(Dropped),
}

/// What became of a datagram of a burst.
#[derive(Debug)]
pub enum Traced<'a> {
    /// A packet for the host, with its mark.
    Deliver(&'a [u8], u32, Meta),
    /// It ended here.
    Drop(Dropped),
}

/// One packet for the host.
#[derive(Debug)]
struct Item {
    place: Place,
    mark: u32,
}

#[derive(Debug)]
enum Place {
    /// Octets of the burst of this index.
    Burst { index: u32, start: u32, end: u32 },
    /// The packet of this index.
    Packet(u32),
}

impl Delivery {
    /// With nothing in it.
    pub fn new() -> Delivery {
        Delivery::default()
    }

    /// With nothing in it; it will say what became of each datagram of a burst ([`Delivery::traced`]).
    pub fn tracing() -> Delivery {
        Delivery { trace: Some(Box::default()), ..Delivery::default() }
    }

    /// What became of each datagram, by its place in its burst. For a delivery that is [tracing](Delivery::tracing), of one burst
    /// without bundles: what their later rounds make of a datagram is told of the last one.
    pub fn traced(&self) -> impl Iterator<Item = (usize, Traced<'_>)> {
        let list = self.trace.as_ref().map(|trace| trace.list.as_slice()).unwrap_or_default();
        list.iter().map(|(at, became)| match became {
            Became::Item(index, meta) => {
                let item = self.items.get(*index);
                let bytes = item.map(|item| self.bytes(item)).unwrap_or_default();
                (*at, Traced::Deliver(bytes, item.map_or(0, |item| item.mark), *meta))
            }
            Became::Dropped(dropped) => (*at, Traced::Drop(*dropped)),
        })
    }

    /// What follows is of the datagram at this place of its burst.
    #[inline]
    pub(super) fn at(&mut self, datagram: usize) {
        if let Some(trace) = &mut self.trace {
            trace.at = datagram;
        }
    }

    /// A datagram, or what was in it, ended.
    #[inline]
    pub(super) fn ended(&mut self, dropped: &Dropped) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Became::Dropped(*dropped)));
        }
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no packet in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Each packet with its mark, in the order in which they came.
    pub fn packets(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.items.iter().map(|item| (self.bytes(item), item.mark))
    }

    /// The packets with their marks, joined where the host may be given them in one piece. Those of one flow come in order.
    pub fn trains<'a>(&'a self, mut deliver: impl FnMut(&Train<'a>)) {
        if let [only] = self.items.as_slice() {
            return deliver(&Train::begin(self.bytes(only), only.mark));
        }
        let mut coalescer = Coalescer::new(Checks::Verify);
        for item in &self.items {
            coalescer.push(self.bytes(item), item.mark, &mut deliver);
        }
        coalescer.flush(&mut deliver);
    }

    /// Forget the packets; their buffers go to `pool`, that of the first burst on top.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.items.clear();
        if let Some(trace) = &mut self.trace {
            trace.list.clear();
        }
        self.packets.drain(..).for_each(|packet| pool.put(packet.into_buf()));
        self.bursts.drain(..).rev().for_each(|burst| pool.put(burst.into_buf()));
    }

    fn bytes(&self, item: &Item) -> &[u8] {
        match item.place {
            Place::Burst { index, start, end } => {
                let burst = self.bursts.get(index as usize).map(Burst::bytes).unwrap_or_default();
                burst.get(start as usize..end as usize).unwrap_or_default()
            }
            Place::Packet(index) => self.packets.get(index as usize).map(Packet::bytes).unwrap_or_default(),
        }
    }

    /// A packet that lies at `octets` of the burst that [`Delivery::push_burst`] will be given next.
    #[inline]
    pub(super) fn push_octets(&mut self, octets: &Range<usize>, mark: u32, meta: impl FnOnce() -> Meta) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Became::Item(self.items.len(), meta())));
        }
        let index = self.bursts.len() as u32;
        let place = Place::Burst { index, start: octets.start as u32, end: octets.end as u32 };
        self.items.push(Item { place, mark });
    }

    pub(super) fn push_burst(&mut self, burst: Burst<Admitted>) {
        self.bursts.push(burst);
    }

    /// Add a packet behind those that there are.
    pub fn push_packet(&mut self, packet: Packet<Admitted>, mark: u32) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Became::Item(self.items.len(), packet.meta)));
        }
        self.items.push(Item { place: Place::Packet(self.packets.len() as u32), mark });
        self.packets.push(packet);
    }
}
