//! What can be wrong with an association, and what to do about it.

use std::net::{IpAddr, SocketAddr};

use crypto::{CryptoError, SuiteId};
use wire::Prefix;

use crate::sa::SaProtocol;
use crate::{Direction, Mode, Spi};

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
        "keying material for {suite} is {want} octets ({parts}), this is {got}; \
         give {want} octets as {digits} hexadecimal digits", digits = want * 2, parts = parts(suite)
    )]
    KeymatLength {
        /// The suite.
        suite: SuiteId,
        /// Octets it needs.
        want: usize,
        /// Octets it got.
        got: usize,
    },
    /// A CPI of another algorithm, or none at all.
    #[error(
        "CPI {0} is not DEFLATE's, reserved or too large (RFC 3173 section 3.3); choose 2, which is well known for DEFLATE, or \
         one from 256 to 65535"
    )]
    Cpi(Spi),
    /// AH with a cipher.
    #[error(
        "AH only authenticates, and {0} encrypts; name an integrity algorithm alone, for example sha256, or use ESP"
    )]
    AhEncrypts(SuiteId),
    /// Something other than ESP in UDP.
    #[error("only ESP travels in UDP (RFC 3948), not {}; ask for no encapsulation", .0.name())]
    UdpWithout(SaProtocol),
    /// IP in IP that is no tunnel.
    #[error("IP in IP is always a tunnel, not {0} mode; ask for tunnel mode")]
    IpIpMode(Mode),
    /// Padding where nothing says how long the packet was.
    #[error(
        "padding that hides lengths needs ESP in tunnel mode, where the inner header says the true length"
    )]
    TfcMode,
    /// Keepalives where there is no mapping to keep.
    #[error(
        "keepalives keep the mapping of a NAT: only an outbound association of ESP in UDP has one; leave the keepalive out"
    )]
    Keepalive,
    /// Dummy packets where they cannot be sent.
    #[error(
        "dummy packets need an outbound association of ESP in tunnel mode that is not followed by another; leave the rate out"
    )]
    DummyMode,
    /// Too many dummy packets.
    #[error("{0} dummy packets in a second are too many; give 1 to 1000")]
    DummyRate(u16),
    /// A peer that cannot be followed.
    #[error(
        "a peer can be followed where ESP is in UDP, the association is found by its SPI alone and has a replay window; \
         leave it out, or change those"
    )]
    FollowPeer,
    /// A DSCP of more than six bits.
    #[error("DSCP {0} has more than six bits; give 0 to 63")]
    Dscp(u8),
    /// A longer key class for an association that is found by other means.
    #[error(
        "{} associations are found by their endpoints; leave the match at spi", .0.name()
    )]
    ClassWithoutKey(SaProtocol),
    /// A chain that begins with itself.
    #[error("association {0} cannot follow itself; name another one as the next of the bundle")]
    OwnNext(Spi),
    /// BEET mode without fixed inner addresses.
    #[error(
        "BEET mode stands for one inner address at each end, of one family, and the selectors are {local} and {remote}; \
         give single addresses, or use tunnel mode"
    )]
    BeetSelector {
        /// This host's side.
        local: Prefix,
        /// The peer's.
        remote: Prefix,
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
    /// Another peer has these flows.
    #[error(
        "association {spi} to {peer} has {remote} on its other side already, and this one would take flows from it \
         (RFC 3948 section 5); replace that one, give one of the two other selectors, or say `takes_over` (`--takes-over`) if that is meant"
    )]
    Rival {
        /// The other one.
        spi: Spi,
        /// Its peer.
        peer: SocketAddr,
        /// What both claim.
        remote: Prefix,
    },
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
    /// A key that makes its cipher another, weaker one.
    #[error(
        "the first two or the last two of the three keys of {0} are equal, which makes it DES (RFC 2451 section 2.3); make the key of 24 random octets"
    )]
    WeakKey(SuiteId),
    /// Selectors of two families.
    #[error(
        "no packet is from {local} and to {remote}: they are of two families; give prefixes of one, or an association for each family"
    )]
    MixedSelectors {
        /// This host's side.
        local: Prefix,
        /// The peer's.
        remote: Prefix,
    },
    /// Ports of a protocol that has none.
    #[error(
        "packets of protocol {0} have no ports, so the association would carry none; leave the ports out (TCP, UDP, UDP-Lite, SCTP and DCCP have them)"
    )]
    PortsWithout(u8),
    /// ICMP and the Mobility Header have one field, which stands for the local port.
    #[error(
        "of ICMP the local ports select type and code (256 times the type, and the code), of the Mobility Header the type (256 \
         times it); leave the remote ports out"
    )]
    TypeInRemotePorts,
    /// Ports that stand for no type of a Mobility Header.
    #[error(
        "of the Mobility Header the local ports select 256 times the type, and there is none from {0}; give 1280 for type 5"
    )]
    NoMobilityType(u16),
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
    #[error(
        "a replay window of {0} is not possible; give a power of two from 64 to 65536, or 0 for none (not with extended sequence numbers)"
    )]
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

/// What keying material is made of, in order.
fn parts(suite: &SuiteId) -> String {
    let (cipher, integrity) = (suite.cipher(), suite.integrity());
    let mut parts = Vec::new();
    for (octets, what) in [
        (cipher.key_len(), "of cipher key"),
        (cipher.salt_len(), "of salt"),
        (integrity.key_len(), "of integrity key"),
        (integrity.salt_len(), "of its salt"),
    ] {
        if octets > 0 {
            parts.push(format!("{octets} {what}"));
        }
    }
    parts.join(", then ")
}
