//! The result of one receive batch: packets for the host, where they lie.
//!
//! What enters: bursts whose datagrams were opened in place, and single packets, in the order in which they came. What
//! leaves: [`Coalesced`]s of packets that the host may be given under one header, each flow's packets in their order; then
//! the buffers.

use std::ops::Range;

use wire::coalesce::Checks;
use wire::stage::Admitted;
use wire::{Burst, Coalesced, Coalescer, Meta, Packet, Pool, ip};

use crate::stats::Dropped;

/// The packets of one receive batch for the host.
#[derive(Debug, Default)]
pub struct Delivery {
    bursts: Vec<Burst<Admitted>>,
    packets: Vec<Packet<Admitted>>,
    items: Vec<Item>,
    /// A record for callers that want to know the fate of each datagram.
    trace: Option<Box<Trace>>,
}

/// The fate of each datagram of a burst, in the order in which it was known.
#[derive(Debug, Default)]
struct Trace {
    /// The index of the datagram that is handled now.
    at: usize,
    list: Vec<(usize, Fate)>,
}

#[derive(Debug)]
enum Fate {
    /// The item of this index, with the metadata of its packet.
    Item(usize, Meta),
    Dropped(Dropped),
}

/// The fate of a datagram of a burst.
#[derive(Debug)]
pub enum Traced<'a> {
    /// The datagram held a packet for the host, with its mark.
    Deliver(&'a [u8], u32, Meta),
    /// The datagram was dropped.
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
    /// A delivery with nothing in it.
    pub fn new() -> Delivery {
        Delivery::default()
    }

    /// A delivery with nothing in it that records the fate of each datagram of a burst ([`Delivery::traced`]).
    pub fn tracing() -> Delivery {
        Delivery { trace: Some(Box::default()), ..Delivery::default() }
    }

    /// The fate of each datagram, by its place in its burst. The delivery must be [tracing](Delivery::tracing), with
    /// one burst without bundles: the fate of a datagram in their later rounds is recorded for the last datagram.
    pub fn traced(&self) -> impl Iterator<Item = (usize, Traced<'_>)> {
        let list = self.trace.as_ref().map(|trace| trace.list.as_slice()).unwrap_or_default();
        list.iter().map(|(at, became)| match became {
            Fate::Item(index, meta) => {
                let item = self.items.get(*index);
                let bytes = item.map(|item| self.bytes(item)).unwrap_or_default();
                (*at, Traced::Deliver(bytes, item.map_or(0, |item| item.mark), *meta))
            }
            Fate::Dropped(dropped) => (*at, Traced::Drop(*dropped)),
        })
    }

    /// Record what follows for the datagram at this place of its burst.
    #[inline]
    pub(super) fn at(&mut self, datagram: usize) {
        if let Some(trace) = &mut self.trace {
            trace.at = datagram;
        }
    }

    /// Record that a datagram, or its content, was dropped.
    #[inline]
    pub(super) fn ended(&mut self, dropped: &Dropped) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Fate::Dropped(*dropped)));
        }
    }

    /// The number of packets in the delivery.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the delivery holds no packet.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Each packet with its mark, in the order in which they came.
    pub fn packets(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.items.iter().map(|item| (self.bytes(item), item.mark))
    }

    /// The packets with their marks, joined where the host may be given them in one piece. Those of one flow come in
    /// order.
    pub fn coalesced<'a>(&'a self, mut deliver: impl FnMut(&Coalesced<'a>)) {
        if let [only] = self.items.as_slice() {
            return deliver(&Coalesced::begin(self.bytes(only), only.mark));
        }
        let mut coalescer = Coalescer::new(Checks::Verify);
        for item in &self.items {
            coalescer.push(self.bytes(item), item.mark, &mut deliver);
        }
        coalescer.flush(&mut deliver);
    }

    /// Forget all packets of the delivery. Their buffers go to `pool`, that of the first burst on top.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.items.clear();
        if let Some(trace) = &mut self.trace {
            trace.list.clear();
        }
        self.packets.drain(..).for_each(|packet| pool.put(packet.into_buf()));
        self.bursts.drain(..).rev().for_each(|burst| pool.put(burst.into_buf()));
    }

    /// Move all packets of another delivery behind those that are there.
    pub(super) fn append(&mut self, other: &mut Delivery) {
        let (bursts, packets) = (self.bursts.len() as u32, self.packets.len() as u32);
        self.items.extend(other.items.drain(..).map(|Item { place, mark }| {
            let place = match place {
                Place::Burst { index, start, end } => Place::Burst { index: index + bursts, start, end },
                Place::Packet(index) => Place::Packet(index + packets),
            };
            Item { place, mark }
        }));
        self.bursts.append(&mut other.bursts);
        self.packets.append(&mut other.packets);
    }

    /// The octets of each buffer that packets lie in.
    pub(super) fn capacities(&self) -> impl Iterator<Item = usize> {
        let bursts = self.bursts.iter().map(Burst::capacity);
        bursts.chain(self.packets.iter().map(|packet| packet.buf().capacity()))
    }

    /// Change the type of service in the header of each packet.
    pub(super) fn change_tos(&mut self, change: impl Fn(u8) -> u8 + Copy) {
        for item in &self.items {
            let bytes = match item.place {
                Place::Burst { index, start, end } => self
                    .bursts
                    .get_mut(index as usize)
                    .and_then(|burst| burst.octets_mut(start as usize..end as usize)),
                Place::Packet(index) => self.packets.get_mut(index as usize).map(Packet::bytes_mut),
            };
            if let Some(bytes) = bytes {
                change_tos(bytes, change);
            }
        }
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

    /// Add a packet that lies at `octets` of the burst that [`Delivery::push_burst`] will be given next.
    #[inline]
    pub(super) fn push_octets(&mut self, octets: &Range<usize>, mark: u32, meta: impl FnOnce() -> Meta) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Fate::Item(self.items.len(), meta())));
        }
        let index = self.bursts.len() as u32;
        let place = Place::Burst { index, start: octets.start as u32, end: octets.end as u32 };
        self.items.push(Item { place, mark });
    }

    pub(super) fn push_burst(&mut self, burst: Burst<Admitted>) {
        self.bursts.push(burst);
    }

    /// Add a packet behind those that are there.
    pub fn push_packet(&mut self, packet: Packet<Admitted>, mark: u32) {
        if let Some(trace) = &mut self.trace {
            trace.list.push((trace.at, Fate::Item(self.items.len(), packet.meta)));
        }
        self.items.push(Item { place: Place::Packet(self.packets.len() as u32), mark });
        self.packets.push(packet);
    }
}

/// Change the type of service in the header of a packet.
pub(super) fn change_tos(bytes: &mut [u8], change: impl Fn(u8) -> u8) {
    if let Some(before) = ip::tos(bytes) {
        let version = bytes.first().map_or(0, |octet| octet >> 4);
        let now = change(before);
        if now != before {
            ip::set_tos(bytes, version, now);
        }
    }
}
