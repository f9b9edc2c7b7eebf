//! A discipline over nodes. Nodes nest: uplink, tunnel, class, user.

use std::mem;

use wire::Time;

use crate::component::{About, Behaviour, Cause, ChildId, Children, Context, Discipline, Entry, Verdict};
use crate::meta::Meta;

use super::{Ended, Node, Siblings, end, mark};

/// A discipline, the nodes that it chooses from, and the behaviours that steer packets to them.
pub struct Tree<T> {
    steer: Vec<Box<dyn Behaviour>>,
    discipline: Box<dyn Discipline>,
    children: Vec<Node<T>>,
    /// The child that gives next.
    chosen: Option<ChildId>,
    /// The time of the choice; `None` if something has changed since.
    chosen_at: Option<Time>,
    /// No packet waited when the choice was made, and none has come since.
    is_idle: bool,
    /// The child that gave last.
    last: Option<ChildId>,
}

impl<T: 'static> Tree<T> {
    /// A discipline over these nodes; see [`Node::tree`].
    pub fn new(
        steer: Vec<Box<dyn Behaviour>>,
        discipline: Box<dyn Discipline>,
        children: Vec<Node<T>>,
    ) -> Tree<T> {
        Tree { steer, discipline, children, chosen: None, chosen_at: None, is_idle: false, last: None }
    }

    /// What the behaviours and the discipline are.
    pub fn about(&self) -> impl Iterator<Item = About> {
        self.steer.iter().map(|behaviour| behaviour.about()).chain([self.discipline.about()])
    }

    /// The nodes, in the order of their numbers.
    pub fn children(&self) -> &[Node<T>] {
        &self.children
    }

    /// The nodes, to exchange parts of them, to add some at the end or to take some away. What waits in a node that is
    /// taken away has to be drained first.
    pub fn children_mut(&mut self) -> &mut Vec<Node<T>> {
        self.forget_choice();
        &mut self.children
    }

    /// Exchange the discipline, and answer the old one.
    pub fn exchange_discipline(&mut self, discipline: Box<dyn Discipline>) -> Box<dyn Discipline> {
        self.forget_choice();
        mem::replace(&mut self.discipline, discipline)
    }

    /// Exchange the behaviours that steer, and answer the old ones.
    pub fn exchange_steer(&mut self, steer: Vec<Box<dyn Behaviour>>) -> Vec<Box<dyn Behaviour>> {
        mem::replace(&mut self.steer, steer)
    }

    fn forget_choice(&mut self) {
        self.chosen_at = None;
        self.is_idle = false;
    }

    /// The child that a packet goes to; `None` if it ended. Behaviours may colour a packet and set its DSCP; its
    /// aggregate and its amount stay as they were offered, since others count by them.
    pub(super) fn steer(
        &mut self,
        item: T,
        meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Option<(&mut Node<T>, T, Meta)> {
        let mut entry = [Entry { meta, verdict: Verdict::Pass }];
        let mut outlet = 0;
        for behaviour in &mut self.steer {
            behaviour.run(&mut entry, context);
            match mem::take(&mut entry[0].verdict) {
                Verdict::Pass => {}
                Verdict::To(to) => outlet = usize::from(to),
                Verdict::Mark => mark(&mut entry[0].meta),
                Verdict::Drop(cause) => {
                    end(ended, (item, meta), cause);
                    return None;
                }
            }
        }
        let meta = Meta { aggregate: meta.aggregate, amount: meta.amount, ..entry[0].meta };
        self.forget_choice();
        match self.children.get_mut(outlet) {
            Some(child) => Some((child, item, meta)),
            None => {
                end(ended, (item, meta), Cause::ClassGone);
                None
            }
        }
    }

    pub(super) fn settle(&mut self, context: &Context) {
        if self.is_idle || self.chosen_at == Some(context.now) {
            return;
        }
        self.children.iter_mut().for_each(|child| child.settle(context));
        let siblings = Siblings { nodes: &self.children, now: context.now };
        let is_ready = |child: &ChildId| siblings.head(*child).is_some();
        // A discipline that names a child without a packet, or none though one has a packet, must not stop the rest.
        let any = || (0..siblings.count()).map(ChildId).find(is_ready);
        self.chosen = self.discipline.next(&siblings, context).filter(is_ready).or_else(any);
        self.chosen_at = Some(context.now);
        self.is_idle = self.chosen.is_none() && self.children.iter().all(Node::is_empty);
    }

    pub(super) fn head(&self, now: Time) -> Option<&Meta> {
        self.children.get(usize::from(self.chosen?.0))?.head(now)
    }

    pub(super) fn try_take(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<(T, Meta)> {
        self.settle(context);
        let child = self.chosen?;
        self.forget_choice();
        let (item, meta) = self.children.get_mut(usize::from(child.0))?.try_take(context, ended)?;
        self.discipline.served(child, meta.amount, context);
        self.last = Some(child);
        Some((item, meta))
    }

    pub(super) fn put_back(&mut self, item: T, meta: Meta, context: &Context) {
        self.forget_choice();
        let child = self.last.filter(|last| usize::from(last.0) < self.children.len()).unwrap_or(ChildId(0));
        self.discipline.put_back(child, meta.amount, context);
        if let Some(node) = self.children.get_mut(usize::from(child.0)) {
            node.put_back(item, meta, context);
        }
    }
}
