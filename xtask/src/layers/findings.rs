//! What is found inside of one room, or among the headers.

use super::source::Crate;
use super::{graph, shape};
use std::collections::{BTreeMap, BTreeSet};

/// Every finding in one room, or in the headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The sets of modules, or headers, that use each other; and a way round in words.
    pub circles: Vec<(BTreeSet<String>, String)>,
    /// The structs with too many fields which others reach, and how many these are.
    pub fields: BTreeMap<String, usize>,
    /// The types that have `impl` blocks elsewhere, and the modules where these stand.
    pub impls: BTreeMap<String, BTreeSet<String>>,
}

impl Findings {
    /// Add what is found in one crate of a room.
    pub fn add(&mut self, found: &Crate) {
        self.add_circles(&graph::uses(found), |module| found.name(module));
        self.fields.extend(shape::wide_structs(found));
        self.impls.extend(shape::far_impls(found));
    }

    /// Add the circles of uses, whose ends have these names.
    pub fn add_circles(&mut self, uses: &graph::Uses, name: impl Fn(usize) -> String) {
        for circle in graph::circles(uses) {
            let steps = graph::walk(uses, &circle);
            let first = steps.first().map_or(String::new(), |(module, _)| name(*module));
            let steps = steps.iter().map(|(module, item)| format!("{} -> `{item}` -> ", name(*module)));
            let way = format!("{}{first}", steps.collect::<String>());
            self.circles.push((circle.into_iter().map(&name).collect::<BTreeSet<_>>(), way));
        }
    }
}
