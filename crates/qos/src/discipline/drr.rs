//! Deficit round robin (Shreedhar and Varghese, 1996) by packets, octets or nanoseconds.
//!
//! At its turn a child's deficit grows by its quantum, and it gives packets as long as the next one does not cost more
//! than the deficit. A child that has nothing to give loses what is left. A super-packet can be given in parts, so it
//! may go as soon as one piece fits: it is charged whole, the rest that comes back is credited, and what it took beyond
//! the deficit is owed. So after each turn `-(the most given at once) < deficit < (the cost of one piece)`.

use crate::amount::{Amount, Measure};
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::{cost, first_ready, piece, setting, signed};

/// Takes the children in turn, each for its quantum in the measure.
#[derive(Clone, Debug)]
pub struct DeficitRoundRobin {
    measure: Measure,
    quanta: Vec<u64>,
    turn: Option<u16>,
    deficits: Vec<i64>,
}

impl DeficitRoundRobin {
    /// A discipline of these quanta, one for each child, in the measure. A quantum of 0 counts as 1.
    pub fn new(measure: Measure, quanta: Vec<u64>) -> DeficitRoundRobin {
        DeficitRoundRobin { measure, quanta, turn: None, deficits: Vec::new() }
    }

    /// The deficit of a child, in the measure.
    pub fn deficit(&self, child: ChildId) -> i64 {
        self.deficits.get(usize::from(child.0)).copied().unwrap_or(0)
    }

    fn quantum(&self, child: usize) -> i64 {
        signed(setting(&self.quanta, child, 1).max(1))
    }

    /// Give every child that is ready the quanta of the rounds in which none of them could give anything.
    fn pass_idle_rounds(&mut self, children: &dyn Children) {
        let mut fewest = i64::MAX;
        for child in 0..children.count() {
            let Some(head) = children.head(ChildId(child)) else { continue };
            let missing = piece(head, self.measure) - self.deficits[usize::from(child)];
            let quantum = self.quantum(usize::from(child));
            fewest = fewest.min((missing + quantum - 1) / quantum);
        }
        if fewest <= 1 || fewest == i64::MAX {
            return;
        }
        for child in 0..children.count() {
            if children.head(ChildId(child)).is_some() {
                self.deficits[usize::from(child)] += (fewest - 1) * self.quantum(usize::from(child));
            }
        }
    }
}

impl Discipline for DeficitRoundRobin {
    fn next(&mut self, children: &dyn Children, _: &Context) -> Option<ChildId> {
        if self.deficits.len() < usize::from(children.count()) {
            self.deficits.resize(usize::from(children.count()), 0);
        }
        // The child whose turn it is keeps it, or loses it with what is left of its deficit.
        let mut start = 0;
        if let Some(turn) = self.turn {
            let deficit = self.deficits[usize::from(turn)];
            if children.head(ChildId(turn)).is_some_and(|head| piece(head, self.measure) <= deficit) {
                return Some(ChildId(turn));
            }
            start = turn + 1;
        }
        for (child, deficit) in (0..children.count()).zip(&mut self.deficits) {
            if children.head(ChildId(child)).is_none() {
                *deficit = (*deficit).min(0);
            }
        }
        let mut child = first_ready(children, start)?;
        self.pass_idle_rounds(children);
        loop {
            let at = usize::from(child.0);
            self.turn = Some(child.0);
            self.deficits[at] += self.quantum(at);
            if children.head(child).is_some_and(|head| piece(head, self.measure) <= self.deficits[at]) {
                return Some(child);
            }
            child = first_ready(children, child.0 + 1)?;
        }
    }

    fn served(&mut self, child: ChildId, spent: Amount, _: &Context) {
        if let Some(deficit) = self.deficits.get_mut(usize::from(child.0)) {
            *deficit -= cost(spent, self.measure);
        }
    }

    fn put_back(&mut self, child: ChildId, unspent: Amount, _: &Context) {
        if let Some(deficit) = self.deficits.get_mut(usize::from(child.0)) {
            *deficit += cost(unspent, self.measure);
            self.turn = Some(child.0);
        }
    }

    fn about(&self) -> About {
        About { kind: "drr", settings: format!("quanta {:?} {:?}", self.quanta, self.measure) }
    }
}
