//! Selectors: the packets that a rule or an association is for (RFC 4301 section 4.4.1.1).
//!
//! A packet enters as a [`PacketKey`]: every field that a selector may look at, at a fixed place of 512 bits. A
//! [`TrafficSelector`] is a list of terms, each a [`Field`] and a [`Condition`] on it. A field is a row of a table: its
//! name, its place in the key and how its values are written. Lookups see only the key, so a field is added by adding a
//! row (paper 001 section 2.1: "without modifying the lookup code").
//!
//! ANY matches every packet, even where the field is not available. OPAQUE matches only where it is not: the ports of a
//! fragment, of an encrypted packet, of a protocol without ports. Any other condition matches available values only.

mod condition;
mod error;
pub mod field;
mod key;
mod traffic;

pub use condition::{Condition, Ranges};
pub use error::SelectorError;
pub use field::{FIRST_FREE_BIT, Field, Form, KEY_BITS, WORDS};
pub use key::PacketKey;
pub use traffic::{Term, TrafficSelector, Unavailable};
