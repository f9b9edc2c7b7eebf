//! The queues and schedulers behind a hook, and the steering of packets to them.

use super::super::chain::Steer;
use super::super::description::index::NodeRef;
use super::super::description::{Name, Scheduler};
use super::super::fault::{Code, Fault};
use super::super::running::Leaf;
use super::Build;
use crate::Limit;
use crate::behaviour::{Classifier, Pacer, Target};
use crate::component::Behaviour;
use crate::dequeue::Give;
use crate::discipline::RoundRobin;
use crate::enqueue::TailDrop;
use crate::node::{Node, Queue, Tree};
use crate::store::Fifo;

/// The packets of a plain FIFO, where a graph describes no queue.
const PLAIN: u64 = 4_096;
/// The most children of a scheduler, which outlets can number.
const CHILDREN: usize = 254;

impl Build<'_> {
    /// The node behind a hook, with its leaves in their order; a plain FIFO if none is described.
    pub(super) fn root<T: Send + 'static>(
        &self,
        from: Option<&Name>,
        pacer: Option<Pacer>,
    ) -> Result<(Node<T>, Vec<Leaf>), Fault> {
        let mut leaves = Vec::new();
        let node = match from {
            Some(name) => self.node(&name.value, &mut leaves)?,
            None => plain(),
        };
        Ok(match pacer {
            Some(pacer) => {
                let tree = Tree::new(Vec::new(), Box::<RoundRobin>::default(), vec![node]);
                (Node::Tree(tree.shaped(Some(pacer))), leaves)
            }
            None => (node, leaves),
        })
    }

    fn node<T: Send + 'static>(&self, name: &str, leaves: &mut Vec<Leaf>) -> Result<Node<T>, Fault> {
        match self.description.find_node(name) {
            Some(NodeRef::Queue(queue)) => {
                let classes = queue.classes.iter().map(|class| self.class(&class.value)).collect();
                leaves.push(Leaf { name: queue.name.value.clone(), classes });
                Ok(Node::Queue(self.queue(queue)?))
            }
            Some(NodeRef::Scheduler(scheduler)) => {
                let mut children = Vec::new();
                for child in &scheduler.children {
                    children.push(self.node(&child.to.value, leaves)?);
                }
                let steer: Vec<Box<dyn Behaviour>> = vec![Box::new(self.steer(scheduler)?)];
                let tree = Tree::new(steer, self.discipline(scheduler)?, children);
                let pacer = match &scheduler.shape {
                    Some(shape) => self.pacer(shape)?,
                    None => None,
                };
                Ok(Node::Tree(tree.shaped(pacer)))
            }
            // Lint refuses names that lead nowhere.
            None => Ok(plain()),
        }
    }

    /// The steering of a scheduler: the child of each class, for each tunnel that has queues of its own below.
    fn steer(&self, scheduler: &Scheduler) -> Result<Steer, Fault> {
        if scheduler.children.len() > CHILDREN {
            return Err(Fault {
                span: scheduler.name.span.clone(),
                code: Code::TooMany,
                message: format!("a scheduler can have {CHILDREN} children"),
                remedy: "put schedulers between it and its queues".to_owned(),
            });
        }
        let tunnels = &self.description.tunnels;
        let mut steer = Steer::new(tunnels.len());
        let mut has_tunnels = false;
        for (outlet, child) in (0..).zip(&scheduler.children) {
            for queue in self.description.leaves(&child.to.value) {
                let its = queue.tunnel.as_ref();
                let tunnel =
                    its.and_then(|its| tunnels.iter().position(|tunnel| tunnel.name.value == its.value));
                has_tunnels |= tunnel.is_some();
                for class in &queue.classes {
                    steer.set(tunnel, self.class(&class.value), outlet);
                }
            }
        }
        if has_tunnels {
            let numbered = (0..).zip(tunnels);
            let rules = numbered.flat_map(|(number, tunnel)| {
                tunnel.rules.iter().filter_map(move |rule| self.rule(rule, Target::Outlet(number)))
            });
            let rules: Vec<_> = rules.collect();
            // The rules of the description have been read, so the classifier takes them.
            steer.find_tunnels(Classifier::new(&rules).ok());
        }
        Ok(steer)
    }
}

/// A FIFO without further components.
fn plain<T: Send + 'static>() -> Node<T> {
    let limit = Limit { packets: PLAIN, ..Limit::NONE };
    Queue::new(Box::new(TailDrop), Box::new(Fifo::with_capacity(0)), Box::new(Give), limit).into()
}
