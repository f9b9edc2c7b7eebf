//! The names of rules.

use std::fmt;

/// The name of a rule for as long as it exists; whoever adds the rule chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleKey(pub u32);

impl RuleKey {
    /// The key of no operator's rule: it marks a rule that only says that there is an SPD for its direction.
    pub const NONE: RuleKey = RuleKey(0);
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
