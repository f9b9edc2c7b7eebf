//! The classes of the graph in force, in one place for everybody who resolves names of them.
//!
//! What enters: the catalogue of a graph that is put in force. What leaves: the catalogue for the policy that is read
//! ([`crate::policy_store`]), for rules and for associations (the control plane). Only threads of the control plane hold
//! it; packets carry numbers.

use std::sync::{Arc, PoisonError, RwLock};

use documents::classes::Classes;
use qos::graph::Aggregates;

/// The catalogue of classes that is in force. Its copies are one and the same.
#[derive(Clone, Debug)]
pub struct ClassCatalogue(Arc<RwLock<Arc<Aggregates>>>);

impl Default for ClassCatalogue {
    fn default() -> ClassCatalogue {
        ClassCatalogue::new(Aggregates::without_graph())
    }
}

impl ClassCatalogue {
    /// A catalogue of which these classes are in force.
    pub fn new(classes: Aggregates) -> ClassCatalogue {
        ClassCatalogue(Arc::new(RwLock::new(Arc::new(classes))))
    }

    /// The classes that are in force.
    pub fn get(&self) -> Arc<Aggregates> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Put the classes of another graph in force. What was read before keeps its numbers, which no graph gives to
    /// another class.
    pub fn set(&self, classes: Aggregates) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(classes);
    }

    /// The classes as rules and requests for associations take them.
    pub fn of_documents(&self) -> Classes {
        Classes::Of(Aggregates::clone(&self.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_has_the_classes_that_are_in_force() {
        let catalogue = ClassCatalogue::default();
        let copy = catalogue.clone();
        assert!(copy.get().is_empty() && copy.of_documents().number(Some("ef")).is_err());
        catalogue.set(Aggregates::default());
        assert_eq!(copy.get().find("ef"), Aggregates::default().find("ef"));
        assert!(copy.of_documents().number(Some("ef")).is_ok());
    }
}
