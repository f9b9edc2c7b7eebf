//! The classes of associations, counted by what the outer packets of these show.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use sadb::SaConfig;
use sadb::sa::KeyClass;
use sockmon::SaName;
use wire::AggregateId;

/// An association with its class.
pub(super) type Classed = (SaName, AggregateId);

/// The classes of associations, counted.
#[derive(Debug, Default)]
pub(super) struct SaClasses {
    /// The classes of each name, one for each association that has it.
    names: HashMap<SaName, Vec<AggregateId>>,
    /// The number of associations of each class, by their sender.
    senders: HashMap<Option<IpAddr>, BTreeMap<AggregateId, usize>>,
    /// The number of senders whose associations have several classes.
    mixed: usize,
}

impl SaClasses {
    /// The classes of these associations.
    pub(super) fn of(all: impl IntoIterator<Item = Classed>) -> SaClasses {
        let mut classes = SaClasses::default();
        for (name, class) in all {
            classes.add(name, class);
        }
        classes
    }

    /// Count an association, and return the class of its name. Where several of one name differ, the outer header says it.
    pub(super) fn add(&mut self, name: SaName, class: AggregateId) -> AggregateId {
        self.names.entry(name).or_default().push(class);
        let of_sender = self.senders.entry(name.source).or_default();
        *of_sender.entry(class).or_default() += 1;
        if of_sender.len() == 2 && of_sender.get(&class) == Some(&1) {
            self.mixed += 1;
        }
        self.class(name).unwrap_or_default()
    }

    /// Count an association no more.
    pub(super) fn remove(&mut self, name: SaName, class: AggregateId) {
        let Some(of_name) = self.names.get_mut(&name) else { return };
        let Some(at) = of_name.iter().position(|other| *other == class) else { return };
        of_name.remove(at);
        if of_name.is_empty() {
            self.names.remove(&name);
        }
        let Some(of_sender) = self.senders.get_mut(&name.source) else { return };
        let Some(count) = of_sender.get_mut(&class) else { return };
        *count -= 1;
        if *count == 0 {
            of_sender.remove(&class);
            self.mixed -= usize::from(of_sender.len() == 1);
            if of_sender.is_empty() {
                self.senders.remove(&name.source);
            }
        }
    }

    /// The class of a name; `None`: no association has it.
    pub(super) fn class(&self, name: SaName) -> Option<AggregateId> {
        let of_name = self.names.get(&name)?;
        let first = *of_name.first()?;
        Some(if of_name.iter().all(|class| *class == first) { first } else { AggregateId::DEFAULT })
    }

    /// The one class of those that have a name; `None`: none has it, or they differ.
    pub(super) fn only(&self, name: SaName) -> Option<AggregateId> {
        let of_name = self.names.get(&name)?;
        let first = *of_name.first()?;
        of_name.iter().all(|class| *class == first).then_some(first)
    }

    /// Whether associations of one sender have several classes.
    pub(super) fn is_mixed(&self) -> bool {
        self.mixed > 0
    }

    /// Every name with its class.
    pub(super) fn list(&self) -> HashMap<SaName, AggregateId> {
        self.names.keys().filter_map(|name| Some((*name, self.class(*name)?))).collect()
    }
}

/// What the outer packets of an association show, with its class.
pub(super) fn classed(config: &SaConfig) -> Classed {
    let is_of_anybody = config.options.class == KeyClass::SpiDestination;
    let source = (!is_of_anybody).then_some(config.endpoints.remote);
    (SaName { spi: config.spi.0, source }, config.options.aggregate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(spi: u32, last: u8) -> SaName {
        SaName { spi, source: Some(IpAddr::from([192, 0, 2, last])) }
    }

    #[test]
    fn associations_of_one_name_that_differ_go_by_the_outer_header() {
        let mut classes = SaClasses::default();
        assert_eq!(classes.add(name(1, 1), AggregateId(3)), AggregateId(3));
        assert_eq!(classes.add(name(1, 1), AggregateId(4)), AggregateId::DEFAULT);
        assert_eq!((classes.class(name(1, 1)), classes.only(name(1, 1))), (Some(AggregateId::DEFAULT), None));
        classes.remove(name(1, 1), AggregateId(3));
        assert_eq!(classes.class(name(1, 1)), Some(AggregateId(4)));
        classes.remove(name(1, 1), AggregateId(4));
        // What is not counted is not counted twice.
        classes.remove(name(1, 1), AggregateId(4));
        assert_eq!((classes.class(name(1, 1)), classes.list().len()), (None, 0));
        assert!(classes.senders.is_empty() && !classes.is_mixed());
    }

    #[test]
    fn classes_are_mixed_as_long_as_one_sender_has_several() {
        let mut classes = SaClasses::of([
            (name(1, 1), AggregateId::DEFAULT),
            (name(2, 1), AggregateId::DEFAULT),
            (name(3, 2), AggregateId(3)),
        ]);
        assert!(!classes.is_mixed(), "each sender has one");
        classes.add(name(4, 1), AggregateId(3));
        classes.add(name(5, 1), AggregateId(3));
        classes.add(name(6, 1), AggregateId(4));
        assert!(classes.is_mixed());
        for (spi, class) in [(4, 3), (6, 4)] {
            classes.remove(name(spi, 1), AggregateId(class));
            assert!(classes.is_mixed());
        }
        classes.remove(name(5, 1), AggregateId(3));
        assert!(!classes.is_mixed() && classes.list().len() == 3);
    }
}
