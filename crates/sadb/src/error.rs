//! What can be wrong with an association, and what to do about it.

use std::net::IpAddr;

use crypto::{CryptoError, SuiteId};
use wire::Prefix;

use crate::{Direction, Spi};

/// Why an association was refused. Each text ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SadError {
    /// SPI 0 to 255.
    #[error("SPI {0} is reserved (RFC 4303 section 2.1); choose one of 256 or more")]
    ReservedSpi(Spi),
    /// The SPI is taken.
    #[error("SPI {0} is in use; choose another, or delete that association first")]
    DuplicateSpi(Spi),
    /// Nothing has this SPI.
    #[error("no association has SPI {0}; `ravelin sa list` shows those there are")]
    UnknownSpi(Spi),
    /// Keying material of the wrong length.
    #[error(
        "keying material for {suite} is {want} octets (key, then 4 of salt), this is {got}; \
         give {want} octets as {digits} hexadecimal digits", digits = want * 2
    )]
    KeymatLength {
        /// The suite.
        suite: SuiteId,
        /// Octets it needs.
        want: usize,
        /// Octets it got.
        got: usize,
    },
    /// The key was used before.
    #[error(
        "this key is, or was, the key of another association; two counters under one key repeat nonces. \
         Generate a new key for each association and direction"
    )]
    KeyReused,
    /// The book of used keys is full.
    #[error(
        "{0} keys were used and no more can be remembered; stop the daemon, run `ravelin detach`, start again, \
         and give only keys that were never used"
    )]
    KeyBookFull(usize),
    /// Too many associations.
    #[error("there are already {0} associations in this direction, the most there can be; delete some first")]
    TooMany(usize),
    /// An inbound association for the outbound database, or the other way round.
    #[error("association {spi} is for direction \"{got}\" but was given to the other; swap the direction")]
    Direction {
        /// The association.
        spi: Spi,
        /// What it says.
        got: Direction,
    },
    /// IPv4 at one end, IPv6 at the other.
    #[error("the outer addresses {local} and {remote} are of different families; give two of one family")]
    MixedFamilies {
        /// This host's.
        local: IpAddr,
        /// The peer's.
        remote: IpAddr,
    },
    /// An endpoint that is no host.
    #[error(
        "{0} is not the address of one host; give a unicast IPv4 or IPv6 address (IPv4 not in IPv6 form)"
    )]
    NotUnicast(IpAddr),
    /// Both ends are the same.
    #[error("{0} is both ends of the association; give the peer's address as the remote one")]
    SameEndpoint(IpAddr),
    /// No UDP port.
    #[error("ESP in UDP needs both ports; give 4500 (only an inbound peer's may be 0: any)")]
    PortZero,
    /// Less than what every path carries.
    #[error("a path MTU of {got} is less than every path carries ({least}); give {least} or more")]
    PathMtu {
        /// What was asked.
        got: u16,
        /// The least for the family.
        least: u16,
    },
    /// A replay window of a size that is not offered.
    #[error("a replay window of {0} is not possible; give a power of two from 64 to 65536")]
    ReplayWindowSize(u32),
    /// An association for application zero.
    #[error("an association cannot be bound to \"no application\"; leave the application out to share it")]
    BoundToNoApplication,
    /// A range that holds no port.
    #[error("ports {first}-{last} are an empty range; give the lower port first")]
    EmptyPortRange {
        /// First.
        first: u16,
        /// Last.
        last: u16,
    },
    /// Transport mode whose selectors exclude its own endpoint.
    #[error(
        "transport mode carries only packets of {endpoint} itself, which selector {selector} excludes; \
         use tunnel mode, or leave the selector out"
    )]
    TransportSelector {
        /// The selector.
        selector: Prefix,
        /// The endpoint.
        endpoint: IpAddr,
    },
    /// A replay window that was not exported by an association like this one.
    #[error(
        "the replay window handed over for {spi} contradicts itself; add the association anew with a new key"
    )]
    ReplayState {
        /// The association.
        spi: Spi,
    },
    /// A sequence number that no association can have.
    #[error(
        "the sequence number handed over for {spi} is impossible; add the association anew with a new key"
    )]
    SequenceState {
        /// The association.
        spi: Spi,
    },
    /// The crypto room refused.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}
