//! The ways in which a rule or a change of the table can be wrong.

use std::borrow::Cow;
use std::net::IpAddr;

use super::RuleKey;
use crate::selector::Field;
use crate::{MAX_CHAIN, Spi};

/// The reason why a rule or a change was refused. The text says the fault alone; [`RuleError::remedy`] says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The rule has no selector, so it would match nothing.
    #[error("a rule needs at least one selector")]
    NoSelector,
    /// The rule protects and names no template.
    #[error("a rule that protects needs at least one template")]
    NoTemplate,
    /// A template names an SPI that no association has.
    #[error("no association has the SPI {0}: 0 to 255 are reserved (RFC 4303 section 2.1)")]
    ReservedSpi(Spi),
    /// The two ends of a template are of different address families.
    #[error("no association has the ends {0} and {1}, which are of two families")]
    MixedEnds(IpAddr, IpAddr),
    /// The bundle has more templates than a packet may pass associations.
    #[error("a bundle of {0} associations is longer than any packet may pass")]
    LongBundle(usize),
    /// The rule protects and demands no service.
    #[error("a rule that protects must demand authentication or encryption")]
    NoService,
    /// A selector is populated from the packet, but the rule makes no association.
    #[error("\"pfp\" narrows associations, and a rule that bypasses or discards makes none")]
    PopulateNothing,
    /// One selector populates a field that another demands to be opaque. The flags count for the whole rule.
    #[error("one selector takes {0:?} from the packet and another says it is opaque")]
    PopulateOpaque(&'static Field),
    /// A rule with this key exists already.
    #[error("there is a rule {0} already")]
    Duplicate(RuleKey),
    /// No rule has this key.
    #[error("there is no rule {0}")]
    Unknown(RuleKey),
    /// The table holds as many rules as it can.
    #[error("there are already {0} rules, the most there can be")]
    TooMany(usize),
}

impl RuleError {
    /// What to do next, as the end of a sentence: "name at most 4".
    pub fn remedy(&self) -> Cow<'static, str> {
        use RuleError as E;
        Cow::Borrowed(match self {
            E::LongBundle(_) => return format!("name at most {MAX_CHAIN}").into(),
            E::NoSelector => "for every packet give \"any\"",
            E::NoTemplate => "name the one to use, outermost last",
            E::ReservedSpi(_) => "name one of 256 or more, or 2 for ipcomp",
            E::MixedEnds(..) => "give two of IPv4 or two of IPv6, or any for one",
            E::NoService => "to let packets pass clear, use bypass",
            E::PopulateNothing => "leave it out",
            E::PopulateOpaque(_) => "leave out one of the two",
            E::Duplicate(_) => "choose another number, or remove that one first",
            E::Unknown(_) => "list the rules to see their numbers",
            E::TooMany(_) => "remove some first",
        })
    }
}
