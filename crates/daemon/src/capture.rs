//! Live captures of packets in clear: what programs hand in before it is sealed, what came out of associations, and what ended.
//!
//! A data thread owns the *taps* of its direction and looks once a packet whether there is any. A tap copies what its
//! filter lets pass into a bounded channel and never waits: what finds no room is counted. Who captures what, and what becomes of
//! the copies, is the control plane's matter.

pub(crate) mod tap;

pub use tap::Taps;

use std::net::IpAddr;
use std::time::Duration;

use wire::{AcquireId, AppId, DropReason, Flow, Gso};

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the wire to this host.
    In,
    /// From this host to the wire.
    Out,
}

impl Direction {
    /// The word for the direction.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left, or came, under protection.
    Protected,
    /// It left in clear, as policy says.
    Clear,
    /// It waits for an association, behind this acquire.
    Held(AcquireId),
    /// A fragment that waits for the rest of its packet.
    Waiting,
    /// The packet was dropped for this reason.
    Dropped(DropReason),
}

impl Fate {
    /// The word for the fate.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Protected => "protected",
            Fate::Clear => "clear",
            Fate::Held(_) => "held",
            Fate::Waiting => "waiting",
            Fate::Dropped(_) => "dropped",
        }
    }

    /// The fate of a packet that the engine calls dropped. A fragment that is held waits.
    fn of(reason: DropReason) -> Fate {
        match reason {
            DropReason::FragmentHeld => Fate::Waiting,
            reason => Fate::Dropped(reason),
        }
    }
}

/// What is known of a packet beside its octets.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Which way it went.
    pub way: Direction,
    /// The octets are those of the packet on the wire: it ended before it could be opened.
    pub outer: bool,
    /// What is left to do with a super-packet.
    pub gso: Gso,
    /// The application that sent it, or to which its association is bound.
    pub app: AppId,
    /// The rule that decided, zero if none did or it is not known.
    pub rule: u32,
    /// The SPI, zero if it had none.
    pub spi: u32,
    /// The sequence number of its first outer packet.
    pub sequence: u64,
    /// The peer's outer address.
    pub peer: Option<IpAddr>,
    /// This host's outer address, or the group, of an inbound packet.
    pub local: Option<IpAddr>,
    /// Who talked to whom, seen from this host, where its headers can be read.
    pub flow: Option<Flow>,
    /// What became of it.
    pub fate: Fate,
}

/// A copy of a packet.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time of day since 1970 when the packet was copied.
    pub time: Duration,
    /// The packet's octets, as far as they are kept.
    pub octets: Vec<u8>,
    /// The length of the whole packet in octets.
    pub len: usize,
    /// What is known of the packet beside its octets.
    pub facts: Facts,
}
