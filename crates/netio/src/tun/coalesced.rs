//! A coalesced packet to the host: one write, gathered from where its packets lie.

use super::{PREFIX_LEN, Tun, prefix_of};
use crate::vnet::VnetHeader;
use std::io::IoSlice;
use wire::coalesced::{MAX_HEADER, MAX_PACKETS};
use wire::{Coalesced, DropReason, GsoKind, record};

/// The result of handing a coalesced packet to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryResult {
    /// The number of packets that the kernel took.
    pub packets: usize,
    /// The number of packets that it did not take, and the reason for the last of them.
    pub dropped: Option<(usize, DropReason)>,
}

impl Tun {
    /// Hand a coalesced packet to the host with its mark in the record. One system call for all its packets; one for each if the device
    /// refuses it or does not carry UDP super-packets. Nothing is copied but the common header.
    pub fn send_coalesced(&self, coalesced: &Coalesced<'_>) -> DeliveryResult {
        let mut header = [0; MAX_HEADER];
        let Some((len, gso)) = coalesced.header(&mut header).filter(|(_, gso)| self.carries(gso.kind)) else {
            return self.send_each(coalesced);
        };
        let header = header.get(..len).unwrap_or_default();
        let version = header.first().map_or(0, |first| first >> 4);
        let prefix = prefix_of(
            VnetHeader::emit(&gso, record::LEN as u16, len as u16, version),
            version,
            coalesced.mark,
        );
        let mut parts: [IoSlice<'_>; MAX_PACKETS + 2] = std::array::from_fn(|_| IoSlice::new(&[]));
        let [first, second, rest @ ..] = &mut parts;
        *first = IoSlice::new(&prefix);
        *second = IoSlice::new(header);
        let payloads = coalesced.payloads();
        let count = payloads.len() + 2;
        for (part, payload) in rest.iter_mut().zip(payloads) {
            *part = IoSlice::new(payload);
        }
        match self.write(parts.get(..count).unwrap_or_default(), PREFIX_LEN + coalesced.len()) {
            Ok(()) => DeliveryResult { packets: coalesced.packets().len(), dropped: None },
            Err(DropReason::BadHeader) => self.send_each(coalesced),
            Err(reason) => DeliveryResult { packets: 0, dropped: Some((coalesced.packets().len(), reason)) },
        }
    }

    fn carries(&self, kind: GsoKind) -> bool {
        kind != GsoKind::Udp || self.carries_udp_super_packets()
    }

    /// Send the packets one by one, as they were.
    fn send_each(&self, coalesced: &Coalesced<'_>) -> DeliveryResult {
        let mut answer = DeliveryResult::default();
        for packet in coalesced.packets() {
            match self.send_bytes(packet, coalesced.mark) {
                Ok(()) => answer.packets += 1,
                Err(reason) => answer.dropped = Some((answer.dropped.map_or(1, |(n, _)| n + 1), reason)),
            }
        }
        answer
    }
}
