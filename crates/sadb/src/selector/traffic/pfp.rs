//! Populate from packet: the selector of the association that one packet asks for (RFC 4301 sections 4.4.1 and
//! 4.4.2.2).

use crate::selector::field::{self, Field};
use crate::selector::{Condition, PacketKey, TrafficSelector};

/// A field is to be populated from a packet that does not have it, so the packet is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rule takes {0:?} from the packet, which has none (a fragment, or encrypted); the packet is discarded. \
     Leave out \"pfp\" for this field to carry such packets"
)]
pub struct Unavailable(pub &'static Field);

impl TrafficSelector {
    /// The selector narrowed to this packet where a field says so, and without flags. The "port" fields depend on the
    /// protocol: where the packet has another one of them than the one that is populated, that other one is populated
    /// (4.4.1.2: "Local Port, or ICMP message type/code or Mobility Header type").
    ///
    /// # Errors
    /// [`Unavailable`] as the tables of 4.4.2.2 have it.
    pub fn instantiate(&self, packet: &PacketKey) -> Result<TrafficSelector, Unavailable> {
        let populated = self.populated(packet)?;
        let kept = self.terms().iter().filter(|term| !populated.contains(&term.field));
        let kept = kept.map(|term| (term.field, term.condition.clone()));
        let taken = populated.iter().filter_map(|field| Some((*field, Condition::one(packet.get(field)?))));
        Ok(TrafficSelector::of_terms(kept.chain(taken)))
    }

    /// The packet with only those fields that are populated from it. Packets of one rule for which this is equal share
    /// an association.
    ///
    /// # Errors
    /// The errors of [`TrafficSelector::instantiate`].
    pub fn share(&self, packet: &PacketKey) -> Result<PacketKey, Unavailable> {
        let fields = self.populated(packet)?;
        Ok(fields.into_iter().fold(PacketKey::EMPTY, |key, field| match packet.get(field) {
            Some(value) => key.with(field, value),
            None => key,
        }))
    }

    /// The fields whose value this packet gives.
    pub(crate) fn populated(&self, packet: &PacketKey) -> Result<Vec<&'static Field>, Unavailable> {
        let mut fields = Vec::new();
        let mut upper = None;
        for term in self.terms().iter().filter(|term| term.pfp) {
            match packet.get(term.field) {
                _ if term.field.is_upper() => upper = upper.or(Some(term.field)),
                Some(_) => fields.push(term.field),
                None => return Err(Unavailable(term.field)),
            }
        }
        let Some(asked) = upper else { return Ok(fields) };
        let present: Vec<_> = upper_fields().filter(|field| packet.get(field).is_some()).collect();
        if present.is_empty() {
            return Err(Unavailable(asked));
        }
        // Each port has a flag of its own; type and code are populated for either's.
        fields.extend(present.into_iter().filter(|field| !is_port(field) || self.populates(field)));
        Ok(fields)
    }
}

fn upper_fields() -> impl Iterator<Item = &'static Field> {
    field::STANDARD.into_iter().filter(|field| field.is_upper())
}

fn is_port(field: &Field) -> bool {
    field.form() == field::Form::Port
}
