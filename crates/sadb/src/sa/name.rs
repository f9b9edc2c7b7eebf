//! The names of associations: the SPI, what it is found by beside that, and its direction.

use std::fmt;
use std::net::IpAddr;

/// The number by which the receiver knows an association (RFC 4303 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(pub u32);

impl Spi {
    /// The well-known CPI of DEFLATE, which is meant for compression that is configured by hand (RFC 3173 sections 3.3
    /// and 4.3, RFC 2407 section 4.4.5). It is the only number below 256 that an association may have.
    pub const DEFLATE: Spi = Spi(2);

    /// Whether the number must not be on the wire: zero stays inside the host, and 1 to 255 belong to IANA.
    pub const fn is_reserved(self) -> bool {
        self.0 <= 255
    }
}

impl fmt::Display for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The name by which an inbound association is found (RFC 4301 section 4.1). The SPI is not enough where several [key
/// classes](super::options::KeyClass) are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaName {
    /// The SPI of the association.
    pub spi: Spi,
    /// The destination of its outer packets, if the association is found by it.
    pub destination: Option<IpAddr>,
    /// The source of its outer packets, if the association is found by it.
    pub source: Option<IpAddr>,
}

impl SaName {
    /// Whether the name is no more than an SPI.
    #[inline]
    pub const fn is_spi_alone(&self) -> bool {
        self.destination.is_none()
    }
}

impl From<Spi> for SaName {
    fn from(spi: Spi) -> SaName {
        SaName { spi, destination: None, source: None }
    }
}

/// The direction in which an association carries packets; it is never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Packets from the peer.
    Inbound,
    /// Packets to the peer.
    Outbound,
}

impl Direction {
    /// The word for the direction in commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Inbound => "in",
            Direction::Outbound => "out",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
