//! The security policy database of RFC 4301 section 4.4.1: an ordered list of rules, of which the first that matches a
//! packet decides.
//!
//! [`RuleTable`] is the truth: rules in order, with verbs that add and remove. Each change goes into a [`Snapshot`]
//! that data threads read. A snapshot answers through a [`Classifier`]; there are three over the same truth, and they
//! give the same answer: [`Linear`] reads the rules in order, [`Radix`] is the tree of paper 001 section 2.1,
//! [`TupleSpace`] hashes once per mask. The data path uses [`Radix`] (figures: `engine.lookup.miss.*` of `make
//! bench-engine`).
//!
//! What no rule matches is discarded (section 4.4.1: "a nominal, final entry").

mod classifier;
mod entry;
mod error;
mod key;
mod linear;
mod radix;
mod rule;
mod snapshot;
mod table;
mod template;
mod tuple_space;

pub use classifier::{Classifier, Rank, Slot};
pub use error::RuleError;
pub use key::RuleKey;
pub use linear::Linear;
pub use radix::Radix;
pub use rule::{Action, Direction, Name, Protection, Rule};
pub use snapshot::Snapshot;
pub use table::{MAX_RULES, Place, RuleTable};
pub use template::{Member, Template, TemplateError};
pub use tuple_space::TupleSpace;
