//! The units of a graph, with what hangs at hook 5b of each, and their dispatcher.

use super::super::costs::costs;
use super::super::description::{Dispatch, Mark as Described, Unit, UnitKind};
use super::super::fault::{Code, Fault};
use super::super::kinds::Kind as Part;
use super::super::running::{Leaf, UnitQueues};
use super::{Build, refused};
use crate::Limit;
use crate::dispatcher::{Dispatcher, Pace, UNITS};
use crate::unit::{AggregateSet, Kind, Mark, SuiteSet, UnitSpec};

/// The number of suites that a unit serves if its description names none.
const SUITES: u16 = 1_024;

impl Build<'_> {
    /// The dispatcher with its units, and what hangs at hook 5b of each.
    pub(super) fn dispatcher<T: Send + 'static>(&self) -> Result<(Dispatcher<T>, Vec<UnitQueues>), Fault> {
        let units = &self.description.units;
        let most = units.iter().map(|unit| unit.most_committed.value).fold(0, u64::saturating_add);
        let pace = match self.description.dispatch.value {
            Dispatch::Pull => Pace::Pull,
            Dispatch::Push => Pace::Push(Limit { ns: most, ..Limit::NONE }),
        };
        let mut dispatcher = Dispatcher::new(costs(self.house, &self.suites), pace, self.seed);
        let mut queues = Vec::new();
        for unit in units {
            let hook = self.description.unit_hook(unit, self.direction);
            let from = hook.and_then(|hook| hook.from.as_ref());
            let (node, leaves): (_, Vec<Leaf>) = self.root(from, self.shaper(hook)?)?;
            let allowed = |part: Part| matches!(part, Part::Marker | Part::Shape | Part::Classify);
            if let Some(part) =
                hook.iter().flat_map(|hook| &hook.chain).find(|part| !allowed(part.kind.value))
            {
                let remedy = "put it at 5a; a packet that was given to a unit is not dropped any more";
                return Err(refused(&part.span.span, "a component that may drop stands at 5b", remedy));
            }
            let behind = self.chain(hook)?;
            let urgent = from.map(|name| self.description.urgent(&name.value)).unwrap_or_default();
            let spec = self.spec(unit, urgent.into_iter().map(|class| self.class(&class.value)).collect());
            let Some(id) = dispatcher.attach(spec, node) else {
                return Err(Fault {
                    span: unit.name.span.clone(),
                    code: Code::TooMany,
                    message: format!("a graph can have {UNITS} units"),
                    remedy: "take some out".to_owned(),
                });
            };
            queues.push(UnitQueues { unit: id, leaves, behind });
        }
        Ok((dispatcher, queues))
    }

    fn spec(&self, unit: &Unit, expedited: AggregateSet) -> UnitSpec {
        let suites: SuiteSet = match &unit.suites {
            None => (0..SUITES).collect(),
            Some(_) => (0..).zip(&self.suites).filter(|(_, name)| unit.can(name)).map(|(at, _)| at).collect(),
        };
        let reserved = unit.reserved.iter().map(|class| self.class(&class.value));
        let mark = |mark: Described| match mark {
            Described::Auto => Mark::Auto,
            Described::Fixed(ns) => Mark::Fixed(ns),
        };
        UnitSpec {
            name: unit.name.value.clone(),
            kind: match unit.kind.value {
                UnitKind::Inline => Kind::Inline,
                UnitKind::Sliced(step) => Kind::Sliced { step },
                UnitKind::Batch(most) => Kind::Batch { most: u8::try_from(most).unwrap_or(u8::MAX) },
                UnitKind::Worker => Kind::Worker,
                UnitKind::Async(depth) => Kind::Async { depth: u16::try_from(depth).unwrap_or(u16::MAX) },
            },
            suites,
            reserved: (!unit.reserved.is_empty()).then(|| reserved.collect()),
            expedited,
            low: mark(unit.low.value),
            high: mark(unit.high.value),
            most_committed: unit.most_committed.value,
        }
    }
}
