//! What can be wrong with a rule or a change of the table.

use std::net::IpAddr;

use super::RuleKey;
use crate::selector::Field;
use crate::{MAX_CHAIN, Spi};

/// Why a rule or a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// No selector: nothing would match.
    #[error("a rule needs at least one selector; for every packet give \"any\"")]
    NoSelector,
    /// PROTECT with no template.
    #[error("a rule that protects needs at least one template; name the one to use, outermost last")]
    NoTemplate,
    /// A template with an SPI that no association has.
    #[error(
        "no association has the SPI {0}: 0 to 255 are reserved (RFC 4303 section 2.1); name one of 256 or more, or 2 for ipcomp"
    )]
    ReservedSpi(Spi),
    /// A template whose ends are of two families.
    #[error(
        "no association has the ends {0} and {1}, which are of two families; give two of IPv4 or two of IPv6, or any for one"
    )]
    MixedEnds(IpAddr, IpAddr),
    /// More templates than associations a packet may pass.
    #[error("a bundle of {0} associations is longer than any packet may pass; name at most {MAX_CHAIN}")]
    LongBundle(usize),
    /// PROTECT that demands no service.
    #[error(
        "a rule that protects must demand authentication or encryption; to let packets pass clear, use bypass"
    )]
    NoService,
    /// Populate-from-packet without an association to populate.
    #[error("\"pfp\" narrows associations, and a rule that bypasses or discards makes none; leave it out")]
    PopulateNothing,
    /// One selector populates a field that another demands to be opaque (flags are for the whole rule).
    #[error(
        "one selector takes {0:?} from the packet and another says it is opaque; leave out one of the two"
    )]
    PopulateOpaque(&'static Field),
    /// The key names a rule there is.
    #[error("there is a rule {0} already; choose another number, or remove that one first")]
    Duplicate(RuleKey),
    /// The key names none.
    #[error("there is no rule {0}; list the rules to see their numbers")]
    Unknown(RuleKey),
    /// More rules than a table holds.
    #[error("there are already {0} rules, the most there can be; remove some first")]
    TooMany(usize),
}
