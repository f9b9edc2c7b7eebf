//! A graph of classes, hooks and components, as people write it: read, expanded, printed, and checked before it runs.
//!
//! The text of a graph enters with a [`House`], which tells what the gateway has. A [`Description`] leaves, or every
//! [`Fault`] of the text with its place and a remedy. [`compile()`] makes a [`Graph`] of a description, which is the one thing
//! here that packets pass.

pub mod aggregates;
pub mod by_rules;
pub mod chain;
pub mod check;
pub mod compile;
pub mod costs;
pub mod counts;
pub mod description;
pub mod expand;
pub mod fault;
pub mod house;
pub mod intervals;
pub mod kernel;
pub mod kinds;
pub mod lint;
pub mod named;
pub mod preset;
pub mod print;
pub mod priorities;
pub mod quantity;
pub mod read;
pub mod rules;
pub mod running;
pub mod sojourn;
pub mod spanned;

pub use aggregates::Aggregates;
pub use by_rules::classes_by_rules;
pub use check::{check, check_compiled};
pub use compile::compile;
pub use costs::costs;
pub use counts::{Counts, Tally};
pub use description::Description;
pub use fault::{Code, Fault, Place};
pub use house::House;
pub use intervals::{Addresses, Intervals};
pub use kernel::{KernelShare, kernel_shares};
pub use lint::lint;
pub use named::named;
pub use preset::PRESETS;
pub use print::print;
pub use priorities::Priorities;
pub use read::{preset, read, warnings};
pub use running::adopt::{Back, Retired};
pub use running::{Due, Graph};
pub use sojourn::Sojourn;
pub use spanned::Spanned;
