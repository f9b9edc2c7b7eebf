//! What is said where no graph is in force.

/// The sentence for people.
pub const NONE: &str =
    "no graph of classes is in force; `[qos]` in the configuration names one (docs/qos.md)";
