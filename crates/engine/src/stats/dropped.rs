//! The record of a drop.

use std::net::IpAddr;
use wire::{AppId, DropReason, Flow, Meta, Time};

/// The record of one packet that was dropped, as far as it was understood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropped {
    /// The time of the drop: when the engine last took the packet up.
    pub at: Time,
    /// The reason of the drop.
    pub reason: DropReason,
    /// The application that sent it, or to which its association is bound.
    pub app: AppId,
    /// The rule of the policy that decided, zero if none did.
    pub rule: u32,
    /// The SPI that the packet came with or was to leave with, zero if it had none.
    pub spi: u32,
    /// The ESP sequence number.
    pub sequence: u64,
    /// The kernel's cookie of the sending socket.
    pub cookie: u64,
    /// The mark that the packet came with.
    pub mark: u32,
    /// The length of the packet, in octets.
    pub len: usize,
    /// The flow of the packet, if its inner headers could be read.
    pub flow: Option<Flow>,
    /// The source and destination of the outer packet, where it was dropped before the inner one was seen.
    pub outer: Option<(IpAddr, IpAddr)>,
    /// The flow label of the outer packet. It is zero if there is none, for IPv4, or if the kernel did not say.
    pub flow_label: u32,
    /// The rule of the scrubber that ended it ([`DropReason::Scrubbed`]).
    pub scrub: Option<scrub::Rule>,
}

/// The part of a drop record that comes from the packet's [`Meta`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    pub at: Time,
    pub app: AppId,
    pub rule: u32,
    pub spi: u32,
    pub sequence: u64,
    pub cookie: u64,
    pub mark: u32,
    pub outer: Option<(IpAddr, IpAddr)>,
    pub flow_label: u32,
}

impl About {
    pub(crate) fn of(meta: &Meta) -> About {
        About {
            at: meta.received,
            app: meta.app,
            rule: meta.rule,
            spi: meta.spi,
            sequence: meta.sequence,
            cookie: meta.cookie,
            mark: meta.mark,
            outer: None,
            flow_label: 0,
        }
    }
}

impl Dropped {
    /// The record of a packet of `len` octets.
    pub(crate) fn new(reason: DropReason, about: &About, len: usize, flow: Option<&Flow>) -> Dropped {
        let About { at, app, rule, spi, sequence, cookie, mark, outer, flow_label } = *about;
        let flow = flow.copied();
        Dropped {
            at,
            reason,
            app,
            rule,
            spi,
            sequence,
            cookie,
            mark,
            len,
            flow,
            outer,
            flow_label,
            scrub: None,
        }
    }

    /// The record with the rule of the scrubber that dropped the packet.
    pub(crate) fn by(self, scrub: scrub::Rule) -> Dropped {
        Dropped { scrub: Some(scrub), ..self }
    }
}
