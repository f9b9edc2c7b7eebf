//! What a gateway has and asks for, as far as a graph is checked against it and its bounds are computed from it.

use std::net::IpAddr;

use super::aggregates::Aggregates;
use crate::Direction;
use crate::behaviour::foreign::Libraries;

/// A name that something outside of the graph uses, and what uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The name that is used.
    pub name: String,
    /// What uses it, as a subject: `item 3 of the policy`, `the association 0x1234`.
    pub by: String,
}

/// An association that rules can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// The name of the association.
    pub name: String,
    /// The number that stands for it in [`Meta`](crate::Meta).
    pub number: u32,
    /// The address of the far end.
    pub peer: IpAddr,
}

/// What the work on a packet costs: so much for each, and so much for each octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds for each packet.
    pub base_ns: u64,
    /// Picoseconds for each octet.
    pub ps_per_octet: u64,
}

impl Line {
    /// The cost of a packet with so many octets, rounded up.
    pub const fn ns(self, octets: u64) -> u64 {
        self.base_ns.saturating_add(self.ps_per_octet.saturating_mul(octets).div_ceil(1000))
    }
}

/// The measured cost of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteCost {
    /// The name of the suite.
    pub suite: String,
    /// The direction of the work.
    pub direction: Direction,
    /// The cost of the work.
    pub line: Line,
}

impl SuiteCost {
    /// Whether a sliced unit works on packets of the suite in steps: it is a standard block cipher with an HMAC beside
    /// it. Packets of other suites are one step each (docs/design/0046-sliced-units.md).
    pub fn is_in_steps(&self) -> bool {
        let Some((cipher, integrity)) = self.suite.split_once('-') else { return false };
        let ciphers = ["3des", "aes", "camellia", "des", "null"];
        let is_cipher = ciphers.iter().any(|name| cipher.starts_with(name));
        is_cipher && (integrity.starts_with("md5") || integrity.starts_with("sha"))
    }
}

/// The times of the packet path that no graph decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The longest time from the arrival of a packet to the run of the thread that reads it, in nanoseconds.
    pub wake_ns: u64,
    /// The longest turn of the other direction on the same processor, in nanoseconds; 0 if it has its own.
    pub other_turn_ns: u64,
    /// The cost of receiving a packet and finding its association.
    pub receive: Line,
    /// The cost of sending a packet.
    pub send: Line,
    /// The packets of one class that are received in a row.
    pub batch: u64,
    /// The most octets of a packet.
    pub mtu: u64,
    /// The octets that a packet occupies while it waits.
    pub cell: u64,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            wake_ns: 100_000,
            other_turn_ns: 50_000,
            receive: Line { base_ns: 1_000, ps_per_octet: 100 },
            send: Line { base_ns: 1_500, ps_per_octet: 100 },
            batch: 32,
            mtu: 1_500,
            cell: 2_240,
        }
    }
}

/// What a gateway has and asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct House {
    /// The names of every suite there is; empty: names of suites are not checked.
    pub known_suites: Vec<String>,
    /// The suites that associations have and rules allow.
    pub suites: Vec<Used>,
    /// The classes that policy, rules and associations name.
    pub aggregates: Vec<Used>,
    /// The most kernel queues of each direction; absent: it is not known.
    pub kernel_queues: Option<u64>,
    /// The interfaces with their rates in bits a second, where they are known.
    pub uplinks: Vec<(String, Option<u64>)>,
    /// The measured costs of suites.
    pub costs: Vec<SuiteCost>,
    /// The smallest replay window of the associations that several classes use; absent: it is not known.
    pub window: Option<u64>,
    /// The numbers of classes in this instance.
    pub catalogue: Aggregates,
    /// The associations that rules can name.
    pub associations: Vec<Association>,
    /// The applications that rules can name, with their numbers.
    pub applications: Vec<(String, u16)>,
    /// The libraries from which components can be attached.
    pub libraries: Libraries,
    /// The times of the packet path.
    pub path: Path,
}

impl House {
    /// The costliest work of a direction on a packet with so many octets; that of the path alone, if nothing is
    /// measured.
    pub fn costliest(&self, direction: Direction, octets: u64) -> u64 {
        let lines = self.costs.iter().filter(|cost| cost.direction == direction).map(|cost| cost.line);
        lines.map(|line| line.ns(octets)).max().unwrap_or(0)
    }

    /// The cheapest work of a direction on a packet with so many octets.
    pub fn cheapest(&self, direction: Direction, octets: u64) -> u64 {
        let lines = self.costs.iter().filter(|cost| cost.direction == direction).map(|cost| cost.line);
        lines.map(|line| line.ns(octets)).min().unwrap_or(0)
    }
}
