//! Heaps by length over one table of nodes: each user finds its longest flow, and no heap allocates. They are leftist
//! heaps (Knuth, The Art of Computer Programming 3, section 5.2.3) whose nodes know their parents, so that each change
//! takes steps in the logarithm of the nodes of a heap.

use super::NONE;

#[derive(Clone, Copy, Debug)]
struct Node {
    length: u64,
    parent: u32,
    left: u32,
    right: u32,
    /// The nodes on the way to the nearest free place below, this one among them; 0 if it is in no heap.
    rank: u32,
}

/// The nodes of all heaps. A heap is the index of its root, [`NONE`] if it is empty.
#[derive(Debug)]
pub(super) struct Lengths {
    nodes: Vec<Node>,
}

impl Lengths {
    /// So many nodes, in no heap.
    pub(super) fn new(nodes: usize) -> Lengths {
        let node = Node { length: 0, parent: NONE, left: NONE, right: NONE, rank: 0 };
        Lengths { nodes: vec![node; nodes] }
    }

    fn at(&self, index: u32) -> Node {
        self.nodes[index as usize]
    }

    fn rank(&self, index: u32) -> u32 {
        if index == NONE { 0 } else { self.at(index).rank }
    }

    fn length(&self, index: u32) -> Option<u64> {
        (index != NONE).then(|| self.at(index).length)
    }

    /// Put a node into the heap `root`, or change its length there, and answer the root.
    pub(super) fn set(&mut self, root: u32, index: u32, length: u64) -> u32 {
        let Node { parent, left, right, rank, .. } = self.at(index);
        let keeps_place = rank > 0
            && self.length(parent).is_none_or(|above| above >= length)
            && [left, right].iter().all(|below| self.length(*below).is_none_or(|below| below <= length));
        if keeps_place {
            self.nodes[index as usize].length = length;
            return root;
        }
        let root = self.remove(root, index);
        self.nodes[index as usize] = Node { length, parent: NONE, left: NONE, right: NONE, rank: 1 };
        self.meld(root, index)
    }

    /// Take a node out of the heap `root`, and answer the root.
    pub(super) fn remove(&mut self, root: u32, index: u32) -> u32 {
        let Node { parent, left, right, rank, .. } = self.at(index);
        if rank == 0 {
            return root;
        }
        self.nodes[index as usize].rank = 0;
        for below in [left, right].into_iter().filter(|below| *below != NONE) {
            self.nodes[below as usize].parent = NONE;
        }
        let below = self.meld(left, right);
        if below != NONE {
            self.nodes[below as usize].parent = parent;
        }
        if parent == NONE {
            return below;
        }
        let above = &mut self.nodes[parent as usize];
        *(if above.left == index { &mut above.left } else { &mut above.right }) = below;
        // Ranks above one that stays as it is stay too.
        let mut at = parent;
        while at != NONE && self.order(at) {
            at = self.at(at).parent;
        }
        root
    }

    /// The root of two heaps that are joined.
    fn meld(&mut self, one: u32, two: u32) -> u32 {
        let (Some(first), Some(second)) = (self.length(one), self.length(two)) else {
            return if one == NONE { two } else { one };
        };
        let (root, mut rest) = if first >= second { (one, two) } else { (two, one) };
        // Down the right sides of both, the longer node first.
        let mut at = root;
        while rest != NONE {
            let right = self.at(at).right;
            if self.length(right) < self.length(rest) {
                self.nodes[at as usize].right = rest;
                self.nodes[rest as usize].parent = at;
                (at, rest) = (rest, right);
            } else {
                at = right;
            }
        }
        while at != NONE {
            self.order(at);
            at = self.at(at).parent;
        }
        root
    }

    /// The child with the greater rank to the left. Answers whether the rank of the node is another.
    fn order(&mut self, index: u32) -> bool {
        let Node { left, right, rank: before, .. } = self.at(index);
        let (left, right) = if self.rank(left) < self.rank(right) { (right, left) } else { (left, right) };
        let rank = self.rank(right) + 1;
        let node = &mut self.nodes[index as usize];
        (node.left, node.right, node.rank) = (left, right, rank);
        rank != before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The nodes of a heap, which are in order, know their parents and have the ranks of a leftist heap.
    fn nodes(lengths: &Lengths, root: u32, parent: u32, found: &mut BTreeMap<u32, u64>) {
        if root == NONE {
            return;
        }
        let node = lengths.at(root);
        assert_eq!(node.parent, parent);
        assert!(lengths.rank(node.left) >= lengths.rank(node.right));
        assert_eq!(node.rank, lengths.rank(node.right) + 1);
        assert!(lengths.length(parent).is_none_or(|above| above >= node.length));
        assert_eq!(found.insert(root, node.length), None);
        [node.left, node.right].iter().for_each(|below| nodes(lengths, *below, root, found));
    }

    proptest! {
        /// Two heaps of one table hold what a model of each holds, with the longest on top.
        #[test]
        fn heaps_agree_with_maps(steps in prop::collection::vec((0..24_u32, prop::option::of(0..40_u64)), 1..400)) {
            let mut lengths = Lengths::new(24);
            let mut roots = [NONE; 2];
            let mut models = [BTreeMap::new(), BTreeMap::new()];
            for (index, length) in steps {
                let heap = usize::from(index % 3 == 0);
                roots[heap] = match length {
                    Some(length) => lengths.set(roots[heap], index, length),
                    None => lengths.remove(roots[heap], index),
                };
                match length {
                    Some(length) => models[heap].insert(index, length),
                    None => models[heap].remove(&index),
                };
                let mut found = BTreeMap::new();
                nodes(&lengths, roots[heap], NONE, &mut found);
                prop_assert_eq!(&found, &models[heap]);
                prop_assert_eq!(lengths.length(roots[heap]), models[heap].values().copied().max());
            }
        }
    }
}
