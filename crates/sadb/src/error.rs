//! The ways in which an association can be wrong, each with the remedy.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use crypto::{CryptoError, SuiteId};
use wire::Prefix;

use crate::sa::SaProtocol;
use crate::{Direction, Mode, Spi};

/// Why an association was refused. The text says the fault alone; [`SadError::remedy`] says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SadError {
    /// The SPI is reserved: it is one of 0 to 255 (RFC 4303 section 2.1).
    #[error("SPI {0} is reserved (RFC 4303 section 2.1)")]
    ReservedSpi(Spi),
    /// Another association has this SPI already.
    #[error("SPI {0} is in use")]
    DuplicateSpi(Spi),
    /// No association has this SPI.
    #[error("no association has SPI {0}")]
    UnknownSpi(Spi),
    /// The keying material does not have the length that the suite needs.
    #[error("keying material for {suite} is {want} octets ({parts}), this is {got}", parts = parts(suite))]
    KeymatLength {
        /// The suite of the association.
        suite: SuiteId,
        /// The number of octets that the suite needs.
        want: usize,
        /// The number of octets that were given.
        got: usize,
    },
    /// The CPI belongs to another compression algorithm, or is none that an association may have (RFC 3173 section
    /// 3.3).
    #[error("CPI {0} is not DEFLATE's, reserved or too large (RFC 3173 section 3.3)")]
    Cpi(Spi),
    /// An AH association was given a suite that encrypts.
    #[error("AH only authenticates, and {0} encrypts")]
    AhEncrypts(SuiteId),
    /// UDP encapsulation was asked for a protocol other than ESP (RFC 3948).
    #[error("only ESP travels in UDP (RFC 3948), not {}", .0.name())]
    UdpWithout(SaProtocol),
    /// An association of IP in IP is not in tunnel mode.
    #[error("IP in IP is always a tunnel, not {0} mode")]
    IpIpMode(Mode),
    /// Padding that hides lengths was asked for packets that do not carry their true length inside.
    #[error(
        "padding that hides lengths needs ESP in tunnel mode, where the inner header says the true length"
    )]
    TfcMode,
    /// Keepalives were asked for an association that has no NAT mapping to keep.
    #[error("keepalives keep the mapping of a NAT: only an outbound association of ESP in UDP has one")]
    Keepalive,
    /// Dummy packets were asked for an association that cannot send them.
    #[error(
        "dummy packets need an outbound association of ESP in tunnel mode that is not followed by another"
    )]
    DummyMode,
    /// The rate of dummy packets is above [`crate::sa::MAX_DUMMY`].
    #[error("{0} dummy packets in a second are too many")]
    DummyRate(u16),
    /// The association cannot follow its peer to another address.
    #[error(
        "a peer can be followed where ESP is in UDP, the association is found by its SPI alone and has a replay window"
    )]
    FollowPeer,
    /// The DSCP has more than six bits.
    #[error("DSCP {0} has more than six bits")]
    Dscp(u8),
    /// A key class beyond the SPI was asked for an association that is found without an SPI.
    #[error("{} associations are found by their endpoints", .0.name())]
    ClassWithoutKey(SaProtocol),
    /// The association names itself as the next one of its bundle.
    #[error("association {0} cannot follow itself")]
    OwnNext(Spi),
    /// The selectors of a BEET association are not one address at each end, both of one family.
    #[error(
        "BEET mode stands for one inner address at each end, of one family, and the selectors are {local} and {remote}"
    )]
    BeetSelector {
        /// The selector of this host's side.
        local: Prefix,
        /// The selector of the peer's side.
        remote: Prefix,
    },
    /// The key was used by this or another association before.
    #[error("this key is, or was, the key of another association")]
    KeyReused,
    /// The book of used keys is full.
    #[error("{0} keys were used and no more can be remembered")]
    KeyBookFull(usize),
    /// An association to another peer has these flows already.
    #[error(
        "association {spi} to {peer} has {remote} on its other side already, and this one would take flows from it (RFC 3948 section 5)"
    )]
    Rival {
        /// The SPI of the association that has them.
        spi: Spi,
        /// The outer address and UDP port of that association's peer.
        peer: SocketAddr,
        /// The addresses on the other side that both associations claim.
        remote: Prefix,
    },
    /// The database holds as many associations as it can.
    #[error("there are already {0} associations in this direction, the most there can be")]
    TooMany(usize),
    /// An inbound association was given to the outbound database, or an outbound one to the inbound database.
    #[error("association {spi} is for direction \"{got}\" but was given to the other")]
    Direction {
        /// The SPI of the association.
        spi: Spi,
        /// The direction that its configuration says.
        got: Direction,
    },
    /// One endpoint is an IPv4 address and the other an IPv6 address.
    #[error("the outer addresses {local} and {remote} are of different families")]
    MixedFamilies {
        /// The outer address of this host.
        local: IpAddr,
        /// The outer address of the peer.
        remote: IpAddr,
    },
    /// An endpoint is not the unicast address of one host.
    #[error("{0} is not the address of one host")]
    NotUnicast(IpAddr),
    /// The key of 3DES repeats a part, which reduces the cipher to DES (RFC 2451 section 2.3).
    #[error(
        "the first two or the last two of the three keys of {0} are equal, which makes it DES (RFC 2451 section 2.3)"
    )]
    WeakKey(SuiteId),
    /// The two selectors are of different address families.
    #[error("no packet is from {local} and to {remote}: they are of two families")]
    MixedSelectors {
        /// The selector of this host's side.
        local: Prefix,
        /// The selector of the peer's side.
        remote: Prefix,
    },
    /// Ports were given for a protocol that has none.
    #[error("packets of protocol {0} have no ports, so the association would carry none")]
    PortsWithout(u8),
    /// Remote ports were given for ICMP or the Mobility Header, whose one field stands in the local ports.
    #[error(
        "of ICMP the local ports select type and code (256 times the type, and the code), of the Mobility Header the type (256 times it)"
    )]
    TypeInRemotePorts,
    /// The local ports stand for no type of a Mobility Header.
    #[error("of the Mobility Header the local ports select 256 times the type, and there is none from {0}")]
    NoMobilityType(u16),
    /// Both endpoints have the same address and port.
    #[error("{0} is both ends of the association")]
    SameEndpoint(IpAddr),
    /// An endpoint of ESP in UDP has port zero.
    #[error("ESP in UDP needs both ports")]
    PortZero,
    /// The path MTU is smaller than what every path carries.
    #[error("a path MTU of {got} is less than every path carries ({least})")]
    PathMtu {
        /// The path MTU that was asked for, in octets.
        got: u16,
        /// The least path MTU of the address family, in octets.
        least: u16,
    },
    /// The replay window has a size that is not offered.
    #[error("a replay window of {0} is not possible")]
    ReplayWindowSize(u32),
    /// The association is bound to application zero, which means no application.
    #[error("an association cannot be bound to \"no application\"")]
    BoundToNoApplication,
    /// The port range holds no port.
    #[error("ports {first}-{last} are an empty range")]
    EmptyPortRange {
        /// The first port of the range.
        first: u16,
        /// The last port of the range.
        last: u16,
    },
    /// The selector of a transport mode association excludes its own endpoint.
    #[error("transport mode carries only packets of {endpoint} itself, which selector {selector} excludes")]
    TransportSelector {
        /// The selector that excludes the endpoint.
        selector: Prefix,
        /// The endpoint that the selector excludes.
        endpoint: IpAddr,
    },
    /// The replay window was not exported by an association like this one.
    #[error("the replay window handed over for {spi} contradicts itself")]
    ReplayState {
        /// The SPI of the association.
        spi: Spi,
    },
    /// The sequence number is one that no association can have.
    #[error("the sequence number handed over for {spi} is impossible")]
    SequenceState {
        /// The SPI of the association.
        spi: Spi,
    },
    /// The crypto room refused the suite or the key.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

impl SadError {
    /// What to do next, as the end of a sentence: "choose another". `None` where the text of the fault says all.
    ///
    /// No command and no option is named: a caller that has some says it in their words.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        use SadError as E;
        let remedy = match self {
            E::KeymatLength { want, .. } => {
                return Some(format!("give {want} octets as {} hexadecimal digits", want * 2).into());
            }
            E::PathMtu { least, .. } => return Some(format!("give {least} or more").into()),
            E::Crypto(error) => return error.remedy().map(Cow::Borrowed),
            E::TfcMode => return None,
            E::ReservedSpi(_) => "choose one of 256 or more",
            E::DuplicateSpi(_) => "choose another, or delete that association first",
            E::UnknownSpi(_) => "the list of the associations shows those there are",
            E::Cpi(_) => "choose 2, which is well known for DEFLATE, or one from 256 to 65535",
            E::AhEncrypts(_) => "name an integrity algorithm alone, for example sha256, or use ESP",
            E::UdpWithout(_) => "ask for no encapsulation",
            E::IpIpMode(_) => "ask for tunnel mode",
            E::Keepalive => "leave the keepalive out",
            E::DummyMode => "leave the rate out",
            E::DummyRate(_) => "give 1 to 1000",
            E::FollowPeer => "leave it out, or change those",
            E::Dscp(_) => "give 0 to 63",
            E::ClassWithoutKey(_) => "leave the match at spi",
            E::OwnNext(_) => "name another one as the next of the bundle",
            E::BeetSelector { .. } => "give single addresses, or use tunnel mode",
            E::KeyReused => {
                "two counters under one key repeat nonces. Generate a new key for each association and direction"
            }
            E::KeyBookFull(_) => "start afresh with an empty book, and give only keys that were never used",
            E::Rival { .. } => {
                "replace that one, give one of the two other selectors, or take its flows over if that is meant"
            }
            E::TooMany(_) => "delete some first",
            E::Direction { .. } => "swap the direction",
            E::MixedFamilies { .. } => "give two of one family",
            E::NotUnicast(_) => "give a unicast IPv4 or IPv6 address (IPv4 not in IPv6 form)",
            E::WeakKey(_) => "make the key of 24 random octets",
            E::MixedSelectors { .. } => "give prefixes of one, or an association for each family",
            E::PortsWithout(_) => "leave the ports out (TCP, UDP, UDP-Lite, SCTP and DCCP have them)",
            E::TypeInRemotePorts => "leave the remote ports out",
            E::NoMobilityType(_) => "give 1280 for type 5",
            E::SameEndpoint(_) => "give the peer's address as the remote one",
            E::PortZero => "give 4500 (only an inbound peer's may be 0: any)",
            E::ReplayWindowSize(_) => {
                "give a power of two from 64 to 65536, or 0 for none (not with extended sequence numbers)"
            }
            E::BoundToNoApplication => "leave the application out to share it",
            E::EmptyPortRange { .. } => "give the lower port first",
            E::TransportSelector { .. } => "use tunnel mode, or leave the selector out",
            E::ReplayState { .. } | E::SequenceState { .. } => "add the association anew with a new key",
        };
        Some(Cow::Borrowed(remedy))
    }
}

/// The parts of a suite's keying material, in order.
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
