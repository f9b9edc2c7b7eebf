//! Parallel outbound associations: those that differ in nothing but SPI, keys and class, so that packets of different
//! classes have sequence numbers and replay windows of their own (RFC 4301 section 4.1).

use std::collections::HashMap;

use crypto::SuiteId;
use wire::AggregateId;

use super::index::SaIndex;
use crate::sa::SaProtocol;
use crate::{Endpoints, Mode, OutboundSa, Selectors, Spi};

/// What parallel associations have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Common {
    selectors: Selectors,
    endpoints: Endpoints,
    mode: Mode,
    protocol: SaProtocol,
    suite: SuiteId,
    next: Option<Spi>,
}

impl Common {
    fn of(sa: &OutboundSa) -> Common {
        let config = sa.config();
        Common {
            selectors: *sa.selectors(),
            endpoints: config.endpoints,
            mode: config.mode,
            protocol: config.options.protocol,
            suite: config.suite,
            next: config.options.next,
        }
    }
}

/// The associations by what parallel ones have in common.
#[derive(Default)]
pub(super) struct Parallel {
    /// The associations of each group with their classes.
    groups: HashMap<Common, Vec<(AggregateId, SaIndex)>>,
    /// The number of associations with a class. Without one, nobody looks here.
    classed: usize,
}

impl Parallel {
    pub(super) fn insert(&mut self, sa: &OutboundSa, index: SaIndex) {
        let class = sa.config().options.aggregate;
        self.classed += usize::from(class != AggregateId::DEFAULT);
        self.groups.entry(Common::of(sa)).or_default().push((class, index));
    }

    pub(super) fn remove(&mut self, sa: &OutboundSa, index: SaIndex) {
        let common = Common::of(sa);
        let Some(group) = self.groups.get_mut(&common) else { return };
        group.retain(|(_, other)| *other != index);
        if group.is_empty() {
            self.groups.remove(&common);
        }
        self.classed -= usize::from(sa.config().options.aggregate != AggregateId::DEFAULT);
    }

    /// Whether an association has a class.
    #[inline]
    pub(super) fn has_classes(&self) -> bool {
        self.classed > 0
    }

    /// The newest association beside this one, or this one, that is for a class; if none is, the newest without a class.
    pub(super) fn of_class(&self, sa: &OutboundSa, class: AggregateId) -> Option<SaIndex> {
        let group = self.groups.get(&Common::of(sa))?;
        let newest = |class| {
            let of_class = group.iter().filter(|(its, _)| *its == class).map(|(_, index)| *index);
            of_class.max_by_key(|index| index.serial)
        };
        newest(class).or_else(|| newest(AggregateId::DEFAULT))
    }
}
