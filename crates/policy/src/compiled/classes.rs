//! The classes of the graph that a compiled policy names.

use std::collections::BTreeMap;

use sadb::spd::RuleId;

use super::Compiled;
use crate::ast::Item;
use crate::sources::RuleSource;

impl Compiled {
    /// The name of the class that the item of this rule gives its flows; `None` if it gives none, or the rule is no
    /// item.
    pub fn class(&self, rule: RuleId) -> Option<&str> {
        self.rules.item(rule).and_then(Item::class).map(|class| class.name.as_str())
    }

    /// Every class that items name, with the first of these items. A graph without one of them cannot be put in force.
    pub fn classes(&self) -> BTreeMap<String, RuleSource> {
        let mut out = BTreeMap::new();
        let named = self.rules.named_classes();
        named.for_each(|(class, rule)| {
            out.entry(class).or_insert(rule);
        });
        out
    }
}
