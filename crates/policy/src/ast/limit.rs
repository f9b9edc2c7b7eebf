//! Limits: `limit clear RATE;` says how much an application may send in clear, and `limit accept RATE;` how much each
//! source may send to it in clear.

use crate::lexer::Span;

/// The unit in which a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// The limit counts bits of IP packets.
    Bits,
    /// The limit counts packets.
    Packets,
}

/// The traffic that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limited {
    /// All that the application sends in clear, together.
    Clear,
    /// All that the application accepts in clear, from each source.
    Accept,
}

impl Limited {
    /// The two kinds of limited traffic.
    pub const ALL: [Limited; 2] = [Limited::Clear, Limited::Accept];

    /// The word of the language for it.
    pub const fn word(self) -> &'static str {
        match self {
            Limited::Clear => "clear",
            Limited::Accept => "accept",
        }
    }
}

/// A limit: `limit clear 10 mbit/s burst 1 mbit;` or `limit accept 5000 packets/s burst 200;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The traffic that is limited.
    pub limited: Limited,
    /// The unit in which it is counted.
    pub quantity: Quantity,
    /// The rate in bits or packets a second.
    pub rate: u64,
    /// The burst in bits or packets; `None` if it is not given.
    pub burst: Option<u64>,
    /// The place of the whole statement.
    pub span: Span,
}

/// Units of bits, the largest first, with the bits in each.
const BITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
const PACKETS: &str = "packets";

/// The least default burst, in octets and in packets. Without `burst`, it is what the rate gives in a tenth of a
/// second, but at least this.
const LEAST: [u64; 2] = [16 * 1024, 16];

impl Quantity {
    /// Every unit of a rate, without what follows it.
    pub(crate) fn units() -> impl Iterator<Item = &'static str> {
        BITS.iter().map(|(unit, _)| *unit).rev().chain([PACKETS])
    }

    /// The quantity that a unit counts, and the number of bits or packets in it.
    pub(crate) fn of_unit(unit: &str) -> Option<(Quantity, u64)> {
        if unit == PACKETS {
            return Some((Quantity::Packets, 1));
        }
        BITS.iter().find(|(known, _)| *known == unit).map(|(_, bits)| (Quantity::Bits, *bits))
    }

    /// The largest rate or burst: a terabit, or a billion packets.
    pub(crate) const fn max(self) -> u64 {
        match self {
            Quantity::Bits => 1_000_000_000_000,
            Quantity::Packets => 1_000_000_000,
        }
    }

    /// The least rate or burst: an octet, or a packet.
    pub(crate) const fn min(self) -> u64 {
        match self {
            Quantity::Bits => 8,
            Quantity::Packets => 1,
        }
    }

    fn text(self, amount: u64, behind: &str) -> String {
        let exact = |(_, bits): &&(&str, u64)| amount.is_multiple_of(*bits);
        match self {
            Quantity::Packets => format!("{amount} {PACKETS}{behind}"),
            Quantity::Bits => {
                let (unit, bits) = BITS.iter().find(exact).copied().unwrap_or(("bit", 1));
                format!("{} {unit}{behind}", amount / bits)
            }
        }
    }
}

impl Limit {
    /// The limit statement on one line.
    pub fn text(&self) -> String {
        let (word, rate) = (self.limited.word(), self.quantity.text(self.rate, "/s"));
        match self.burst {
            Some(burst) => format!("limit {word} {rate} burst {};", self.quantity.text(burst, "")),
            None => format!("limit {word} {rate};"),
        }
    }

    /// The limit as the tables hold it, in octets or packets.
    pub(crate) fn compiled(&self) -> sadb::spd::Limit {
        let (unit, least) = match self.quantity {
            Quantity::Bits => (8, LEAST[0]),
            Quantity::Packets => (1, LEAST[1]),
        };
        let rate = self.rate / unit;
        let burst = self.burst.map_or((rate / 10).max(least), |burst| burst / unit);
        sadb::spd::Limit { rate, burst }
    }
}
