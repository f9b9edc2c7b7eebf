//! The behaviours of a hook in their order, and the steering of packets to the children of a scheduler.

use crate::amount::Amount;
use crate::behaviour::foreign::Report;
use crate::behaviour::{AggregateLimit, AuthBudget, Classifier, Foreign, Target};
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::{AggregateId, Meta};

/// A behaviour of a chain. Those that have to be told more than packets stand apart.
pub enum Link {
    /// A behaviour that judges packets and needs no more.
    Any(Box<dyn Behaviour>),
    /// A limit, which is told what leaves.
    Limit(AggregateLimit),
    /// A budget, which is told what failed to authenticate.
    Budget(AuthBudget),
    /// A component from outside, which is asked for what it has done.
    Foreign(Box<Foreign>),
}

impl Link {
    fn behaviour(&mut self) -> &mut dyn Behaviour {
        match self {
            Link::Any(behaviour) => behaviour.as_mut(),
            Link::Limit(limit) => limit,
            Link::Budget(budget) => budget,
            Link::Foreign(foreign) => foreign.as_mut(),
        }
    }

    /// What the behaviour is.
    fn about(&self) -> About {
        match self {
            Link::Any(behaviour) => behaviour.about(),
            Link::Limit(limit) => limit.about(),
            Link::Budget(budget) => budget.about(),
            Link::Foreign(foreign) => foreign.about(),
        }
    }
}

/// The behaviours of a hook, in their order. An empty chain costs the look at its length.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
}

impl Chain {
    /// A chain of these behaviours. Limits come last, so that what they count has its class for good.
    pub fn new(mut links: Vec<Link>) -> Chain {
        links.sort_by_key(|link| matches!(link, Link::Limit(_)));
        Chain { links }
    }

    /// Whether the chain has no behaviour.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// What the behaviours are.
    pub fn about(&self) -> impl Iterator<Item = About> {
        self.links.iter().map(Link::about)
    }

    /// Judge one packet by the chain. Each verdict is carried out before the next behaviour is asked, so that none hides another.
    #[inline]
    pub(super) fn run(&mut self, meta: &mut Meta, context: &Context) -> Result<(), Cause> {
        if self.links.is_empty() { Ok(()) } else { self.run_links(meta, context) }
    }

    fn run_links(&mut self, meta: &mut Meta, context: &Context) -> Result<(), Cause> {
        let mut entry = [Entry { meta: *meta, verdict: Verdict::Pass }];
        for at in 0..self.links.len() {
            self.links[at].behaviour().run(&mut entry, context);
            match std::mem::take(&mut entry[0].verdict) {
                Verdict::Pass | Verdict::To(_) => {}
                Verdict::Mark if entry[0].meta.is_ecn_capable() => entry[0].meta.ecn |= 3,
                Verdict::Mark => {}
                Verdict::Drop(cause) => {
                    *meta = entry[0].meta;
                    self.leave_before(at, meta);
                    return Err(cause);
                }
            }
        }
        *meta = entry[0].meta;
        Ok(())
    }

    /// A packet that passed the chain has ended, or has left the graph.
    pub(super) fn leave(&mut self, meta: &Meta) {
        self.leave_before(self.links.len(), meta);
    }

    fn leave_before(&mut self, at: usize, meta: &Meta) {
        for link in self.links.iter_mut().take(at) {
            if let Link::Limit(limit) = link {
                limit.leave(meta);
            }
        }
    }

    /// A packet that did not pass the chain, or passed it as another one, counts for its limits from now on.
    pub(super) fn count(&mut self, meta: &Meta) {
        for link in &mut self.links {
            if let Link::Limit(limit) = link {
                limit.count(meta);
            }
        }
    }

    /// The number of packets for which the limits of an aggregate have room.
    pub(super) fn spare(&self, aggregate: AggregateId, each: Amount) -> u64 {
        let limits = self.links.iter().filter_map(|link| match link {
            Link::Limit(limit) => Some(limit.spare(aggregate, each)),
            Link::Any(_) | Link::Budget(_) | Link::Foreign(_) => None,
        });
        limits.min().unwrap_or(u64::MAX)
    }

    /// The budgets of failed authentication.
    pub(super) fn budgets(&mut self) -> impl Iterator<Item = &mut AuthBudget> {
        self.links.iter_mut().filter_map(|link| match link {
            Link::Budget(budget) => Some(budget),
            Link::Any(_) | Link::Limit(_) | Link::Foreign(_) => None,
        })
    }

    /// What the components from outside have done.
    pub(super) fn reports(&self) -> impl Iterator<Item = Report> {
        self.links.iter().filter_map(|link| match link {
            Link::Foreign(foreign) => Some(foreign.report()),
            Link::Any(_) | Link::Limit(_) | Link::Budget(_) => None,
        })
    }

    /// Go on with what the limits of the chain before this one counted.
    pub(super) fn inherit(&mut self, before: &Chain) {
        let old = before.links.iter().filter_map(|link| match link {
            Link::Limit(limit) => Some(limit),
            Link::Any(_) | Link::Budget(_) | Link::Foreign(_) => None,
        });
        let new = self.links.iter_mut().filter_map(|link| match link {
            Link::Limit(limit) => Some(limit),
            Link::Any(_) | Link::Budget(_) | Link::Foreign(_) => None,
        });
        for (new, old) in new.zip(old) {
            new.inherit(old);
        }
    }
}

/// The outlet of a class that has none: no scheduler has so many children.
const NOWHERE: u8 = u8::MAX;

/// A behaviour that steers each packet to the child of a scheduler where its class waits, and its tunnel.
pub(super) struct Steer {
    tunnels: Option<Classifier>,
    /// The outlets of each class: without a tunnel, then for each tunnel.
    rows: Vec<[u8; 256]>,
}

impl Steer {
    /// No class has an outlet yet.
    pub(super) fn new(tunnels: usize) -> Steer {
        Steer { tunnels: None, rows: vec![[NOWHERE; 256]; tunnels + 1] }
    }

    /// Steer a class to an outlet; without a tunnel, the packets of those that have no queue of their own.
    pub(super) fn set(&mut self, tunnel: Option<usize>, aggregate: AggregateId, outlet: u8) {
        if let Some(row) = self.rows.get_mut(tunnel.map_or(0, |tunnel| tunnel + 1)) {
            row[usize::from(aggregate.0)] = outlet;
        }
    }

    /// Tell tunnels apart by these rules, whose outlets are the numbers of tunnels.
    pub(super) fn find_tunnels(&mut self, rules: Option<Classifier>) {
        self.tunnels = rules;
    }

    fn outlet(&self, meta: &Meta) -> u8 {
        let place = usize::from(meta.aggregate.0);
        let tunnel = self.tunnels.as_ref().and_then(|rules| rules.find(meta));
        if let Some(Target::Outlet(tunnel)) = tunnel
            && let Some(row) = self.rows.get(usize::from(tunnel) + 1)
            && row[place] != NOWHERE
        {
            return row[place];
        }
        self.rows.first().map_or(NOWHERE, |row| row[place])
    }
}

impl Behaviour for Steer {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in batch.iter_mut().filter(|entry| !matches!(entry.verdict, Verdict::Drop(_))) {
            entry.verdict = Verdict::To(self.outlet(&entry.meta));
        }
    }

    fn about(&self) -> About {
        About { kind: "steer", settings: format!("{} tunnels", self.rows.len() - 1) }
    }
}
