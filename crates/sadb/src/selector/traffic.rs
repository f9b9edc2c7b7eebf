//! A traffic selector: a list of conditions on the fields that count.

mod pfp;
mod text;

use wire::{addr, protocol};

pub use pfp::Unavailable;

use super::field::{self, Field, Form};
use super::{Condition, PacketKey, Ranges, SelectorError};
use crate::Selectors;
use crate::spd::PortRange;

/// The place of IPv4 in the common address space (RFC 4291 section 2.5.5.2).
pub(super) const IPV4_SPACE: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// One field and the condition on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub(super) field: &'static Field,
    pub(super) condition: Condition,
    pub(super) pfp: bool,
}

impl Term {
    /// The field that the term is about.
    pub fn field(&self) -> &'static Field {
        self.field
    }

    /// The condition on the field.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Whether an association takes the value of the packet that asked for it ("populate from packet").
    pub fn populates(&self) -> bool {
        self.pfp
    }
}

/// A set of packets (one "selector set" of RFC 4301 section 4.4.1.2). Fields without a term are ANY. Two selectors are
/// equal if they say the same about every field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrafficSelector {
    /// The terms in the order of the key. Terms that say nothing are left out.
    terms: Vec<Term>,
}

impl TrafficSelector {
    /// The selector that matches every packet.
    pub const ANY: TrafficSelector = TrafficSelector { terms: Vec::new() };

    /// The terms, in the order of the key.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The condition on a field.
    pub fn condition(&self, field: &Field) -> &Condition {
        self.term(field).map_or(&Condition::Any, |term| &term.condition)
    }

    /// Whether a field is populated from the packet.
    pub fn populates(&self, field: &Field) -> bool {
        self.term(field).is_some_and(|term| term.pfp)
    }

    fn term(&self, field: &Field) -> Option<&Term> {
        self.terms.iter().find(|term| term.field == field)
    }

    /// The selector with this condition in place of the one on this field; the populate flag stays.
    ///
    /// # Errors
    /// [`SelectorError::NeverOpaque`], [`SelectorError::NoSuchValue`], [`SelectorError::PopulateOpaque`],
    /// [`SelectorError::MixedFamilies`].
    pub fn with(self, field: &'static Field, condition: Condition) -> Result<TrafficSelector, SelectorError> {
        let pfp = self.populates(field);
        self.with_term(field, condition, pfp)
    }

    /// The selector with this field populated from the packet.
    ///
    /// # Errors
    /// [`SelectorError::PopulateOpaque`].
    pub fn populating(self, field: &'static Field) -> Result<TrafficSelector, SelectorError> {
        let condition = self.condition(field).clone();
        self.with_term(field, condition, true)
    }

    pub(super) fn with_term(
        mut self,
        field: &'static Field,
        condition: Condition,
        pfp: bool,
    ) -> Result<TrafficSelector, SelectorError> {
        let condition = normal(field, condition)?;
        if pfp && condition == Condition::Opaque {
            return Err(SelectorError::PopulateOpaque(field));
        }
        self.terms.retain(|term| term.field != field);
        if pfp || condition != Condition::Any {
            let at = self.terms.partition_point(|term| term.field < field);
            self.terms.insert(at, Term { field, condition, pfp });
        }
        let families = |field| families(self.condition(field));
        let (local, remote) = (families(&field::LOCAL), families(&field::REMOTE));
        if !(local.0 && remote.0 || local.1 && remote.1) {
            return Err(SelectorError::MixedFamilies);
        }
        Ok(self)
    }

    /// The selector of these conditions, each on another field and in normal form, without populate flags.
    pub(super) fn of_terms(terms: impl Iterator<Item = (&'static Field, Condition)>) -> TrafficSelector {
        let says = |(_, condition): &(_, Condition)| *condition != Condition::Any;
        let term = |(field, condition)| Term { field, condition, pfp: false };
        let mut terms: Vec<_> = terms.filter(says).map(term).collect();
        terms.sort_by_key(|term| term.field);
        TrafficSelector { terms }
    }

    /// The selector with every field that RFC 4301 calls "port" not available: later fragments, encrypted packets,
    /// protocols that have none.
    ///
    /// # Errors
    /// [`SelectorError::PopulateOpaque`].
    pub fn opaque_ports(self) -> Result<TrafficSelector, SelectorError> {
        field::STANDARD
            .into_iter()
            .filter(|field| field.is_upper())
            .try_fold(self, |selector, field| selector.with(field, Condition::Opaque))
    }

    /// Whether the packet matches. This is the definition; every lookup structure must agree with it.
    pub fn matches(&self, packet: &PacketKey) -> bool {
        self.terms.iter().all(|term| term.condition.admits(packet.get(term.field)))
    }
}

/// The one form of conditions with the same meaning, so that equal selectors compare equal.
fn normal(field: &'static Field, condition: Condition) -> Result<Condition, SelectorError> {
    let nothing = SelectorError::NoSuchValue { field, max: field.max() };
    match condition {
        Condition::Any => Ok(Condition::Any),
        Condition::Opaque if !field.is_optional() => Err(SelectorError::NeverOpaque(field)),
        Condition::Opaque => Ok(Condition::Opaque),
        Condition::In(ranges) => match (ranges.list(), ranges.max()) {
            (_, None) => Err(nothing),
            (_, Some(top)) if top > field.max() => Err(nothing),
            ([(0, last)], _) if *last == field.max() && !field.is_optional() => Ok(Condition::Any),
            _ => Ok(Condition::In(ranges)),
        },
        Condition::Masked { .. } if !matches!(field.form(), Form::Number | Form::Mark) => {
            Err(SelectorError::Unmaskable(field))
        }
        Condition::Masked { value, mask } if mask > field.max() || value & !mask != 0 => Err(nothing),
        Condition::Masked { mask: 0, .. } if !field.is_optional() => Ok(Condition::Any),
        Condition::Masked { mask: 0, .. } => Ok(Condition::range(0u128, field.max())),
        Condition::Masked { value, mask } if mask == field.max() => Ok(Condition::one(value)),
        masked @ Condition::Masked { .. } => Ok(masked),
    }
}

/// Whether an address condition admits any IPv4 address, and any IPv6 address.
fn families(condition: &Condition) -> (bool, bool) {
    match condition {
        Condition::In(ranges) => {
            let v6 = Ranges::new([(0, IPV4_SPACE.0 - 1), (IPV4_SPACE.1 + 1, u128::MAX)]);
            (ranges.meets(&Ranges::new([IPV4_SPACE])), ranges.meets(&v6))
        }
        _ => (true, true),
    }
}

/// The selectors of an association as a traffic selector. In both, ICMP type and code or the type of a Mobility Header
/// stand in the local ports, and a port range other than all leaves out packets without ports. Selectors that no packet
/// can match (families mixed, an empty range) become a selector that matches none.
impl From<&Selectors> for TrafficSelector {
    fn from(selectors: &Selectors) -> TrafficSelector {
        from_selectors(selectors).unwrap_or_else(|_| nothing())
    }
}

fn from_selectors(selectors: &Selectors) -> Result<TrafficSelector, SelectorError> {
    let span = |prefix: wire::Prefix| Condition::range(prefix.first(), prefix.last());
    let mut made = TrafficSelector::ANY
        .with(&field::LOCAL, span(selectors.local))?
        .with(&field::REMOTE, span(selectors.remote))?;
    if let Some(protocol) = selectors.protocol {
        made = made.with(&field::PROTOCOL, Condition::one(protocol))?;
    }
    if let Some(app) = selectors.app {
        made = made.with(&field::APP, Condition::one(app.0))?;
    }
    let (first_ports, has_type) = match selectors.protocol {
        Some(protocol::ICMP | protocol::ICMPV6) => (&field::ICMP, true),
        Some(protocol::MOBILITY) => (&field::MOBILITY, true),
        _ => (&field::LOCAL_PORT, false),
    };
    for (field, ports) in
        [(first_ports, selectors.local_ports), (&field::REMOTE_PORT, selectors.remote_ports)]
    {
        if ports == PortRange::ANY || (has_type && field == &field::REMOTE_PORT && ports.contains(0)) {
            continue;
        }
        let (first, last) = if field == &field::MOBILITY {
            // Where the low octet is zero.
            (u32::from(ports.first).div_ceil(256), u32::from(ports.last / 256))
        } else {
            (ports.first.into(), ports.last.into())
        };
        made = made.with(field, Condition::range(first, last))?;
    }
    Ok(made)
}

/// A selector that matches no packet: one end is IPv4, the other IPv6.
fn nothing() -> TrafficSelector {
    let zero = addr::to_bits(std::net::Ipv4Addr::UNSPECIFIED.into());
    let ends = [(&field::REMOTE, Condition::one(zero)), (&field::LOCAL, Condition::one(0u128))];
    TrafficSelector::of_terms(ends.into_iter())
}
