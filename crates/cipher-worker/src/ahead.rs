//! Key stream that the worker computed ahead.
//!
//! The IV of a packet is its sequence number, so the key stream for the next numbers is known before the packets are.
//! The worker writes it to the ring of the key; the host XORs it into the packet, or finds that it is not there.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crate::layout::{self, BEHIND, PLACE_DATA, PLACE_HEAD, PLACES, place, record};
use crate::link::Link;
use crate::memory::Outside;

/// Octets of a counter block, and of a nonce with four zeros behind it.
pub(crate) const NONCE: usize = 16;

/// What the host knows about the numbers of one key.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// 0: nothing is computed ahead.
    generation: u32,
    template: [u8; NONCE],
    /// Behind the highest number that was used.
    next: u64,
    /// Octets of key stream that a place has.
    octets: usize,
    /// The number at which the worker was last told.
    told: u64,
    /// What the last packet had that was not found, from which a series is known.
    last: Option<([u8; NONCE], u64)>,
}

/// Key stream that a packet needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Counter block or nonce without the number.
    pub(crate) template: [u8; NONCE],
    pub(crate) number: u64,
}

impl Wanted {
    /// Take a counter block or nonce apart: octets 4 to 11 are the number, big-endian.
    pub(crate) fn of(nonce: &[u8; NONCE]) -> Wanted {
        let mut template = *nonce;
        let mut number = [0; 8];
        for (number, octet) in number.iter_mut().zip(template.iter_mut().skip(4)) {
            *number = std::mem::take(octet);
        }
        Wanted { template, number: u64::from_be_bytes(number) }
    }

    /// Counter block or nonce with another number.
    pub(crate) fn nonce(template: &[u8; NONCE], number: u64) -> [u8; NONCE] {
        let mut nonce = *template;
        nonce.iter_mut().skip(4).zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
        nonce
    }
}

/// What the ring had for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Key stream, which is in the packet now.
    Hit,
    /// Nothing; the packet is as it was.
    Miss,
    /// Something that may not be used; the packet is undefined.
    Unusable,
}

impl Ahead {
    /// Forget what is in the ring, and keep what was learnt about the numbers.
    pub(crate) fn stop(&mut self, link: &Link, key: usize) -> Result<(), Outside> {
        self.generation = 0;
        link.host.word(layout::record(key) + record::GENERATION)?.store(0, Release);
        Ok(())
    }

    /// XOR key stream that is there into a packet.
    pub(crate) fn take(
        &self,
        link: &Link,
        key: usize,
        wanted: &Wanted,
        data: &mut [u8],
    ) -> Result<Lookup, Outside> {
        let fits = self.generation != 0 && data.len() <= self.octets && self.template == wanted.template;
        if !fits {
            return Ok(Lookup::Miss);
        }
        let at = layout::place(key, wanted.number);
        let generation = link.worker.word(at + place::GENERATION)?;
        let number = link.worker.long(at + place::NUMBER)?;
        let len = link.worker.word(at + place::LEN)?.load(Relaxed) as usize;
        let there = generation.load(Acquire) == self.generation
            && number.load(Relaxed) == wanted.number
            && len >= data.len();
        if !there {
            return Ok(Lookup::Miss);
        }
        let used = link.worker.xor(at + PLACE_HEAD, data)?;
        fence(Acquire);
        // A worker that keeps the rules does not touch this place before the host has moved on.
        let same = generation.load(Relaxed) == self.generation && number.load(Relaxed) == wanted.number;
        Ok(if used.unchanged || !same { Lookup::Unusable } else { Lookup::Hit })
    }

    /// Learn from a packet that was just served, found or not, and tell the worker what comes next.
    pub(crate) fn learn(
        &mut self,
        link: &Link,
        key: usize,
        wanted: &Wanted,
        len: usize,
    ) -> Result<(), Outside> {
        let after = wanted.number.saturating_add(1);
        if self.generation != 0 && self.template == wanted.template {
            self.next = self.next.max(after);
            if len > self.octets && len <= PLACE_DATA {
                // The places are too short, and one that the host may be reading is never written again: all anew.
                return self.begin(link, key, len);
            }
            return Ok(());
        }
        let series = self.last.is_some_and(|(template, number)| {
            let step = wanted.number.wrapping_sub(number);
            template == wanted.template && (1..=PLACES as u64).contains(&step)
        });
        self.last = Some((wanted.template, wanted.number));
        if self.generation == 0 && series && len <= PLACE_DATA {
            (self.template, self.next) = (wanted.template, after);
            self.octets = 0;
            return self.begin(link, key, len);
        }
        Ok(())
    }

    /// Move the window of the ring, and wake the worker for it where enough was used.
    pub(crate) fn publish(&mut self, link: &Link, key: usize) -> Result<(), Outside> {
        if self.generation == 0 {
            return Ok(());
        }
        let from = self.next.saturating_sub(BEHIND);
        link.host.long(layout::record(key) + record::FROM)?.store(from, Release);
        // A wake-up is a system call: one for a quarter of a ring.
        if self.next.saturating_sub(self.told) >= PLACES as u64 / 4 {
            self.told = self.next;
            link.ring_worker()?;
        }
        Ok(())
    }

    fn begin(&mut self, link: &Link, key: usize, len: usize) -> Result<(), Outside> {
        // Packets a little longer than the first one are usual.
        self.octets = self.octets.max(len.next_multiple_of(128)).min(PLACE_DATA);
        self.generation = link.next_generation();
        let at = layout::record(key);
        let generation = link.host.word(at + record::GENERATION)?;
        generation.store(0, Relaxed);
        fence(Release);
        let octets = u32::try_from(self.octets).map_err(|_| Outside)?;
        link.host.word(at + record::OCTETS)?.store(octets, Relaxed);
        let from = self.next.saturating_sub(BEHIND);
        link.host.long(at + record::FROM)?.store(from, Relaxed);
        link.host.put(at + record::TEMPLATE, &self.template)?;
        generation.store(self.generation, Release);
        self.told = self.next;
        link.ring_worker()
    }
}
