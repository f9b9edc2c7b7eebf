//! A path-compressed radix tree over keys with masks (paper 001 section 2.1; Morrison's PATRICIA with a third way).
//!
//! A branch tests one bit and has three ways: patterns that demand zero, one, and neither. All patterns below a branch
//! demand the same of the bits before its own, so a bit at which they agree costs no branch. A lookup goes the packet's
//! way first, to the most specific patterns, and falls back to the third way, to the more general ones. The first match
//! in the order of the rules decides, whichever is more specific: each branch knows the lowest rank below it, and what
//! cannot come before the best found so far is not visited. Whatever the rules, a lookup visits each pattern once at
//! most, and the depth of a fall back is that of a key's bits.

use super::entry::{Entry, Pattern, Words, compile, test};
use super::{Classifier, Rank, Slot};
use crate::selector::{PacketKey, TrafficSelector};

/// A reference to a branch, to a leaf, or to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node(u32);

impl Node {
    const NONE: Node = Node(u32::MAX);
    const LEAF: u32 = 1 << 31;

    fn leaf(index: usize) -> Node {
        Node(index as u32 | Node::LEAF)
    }

    fn as_leaf(self) -> Option<usize> {
        (self.0 & Node::LEAF != 0).then_some((self.0 & !Node::LEAF) as usize)
    }
}

#[derive(Clone, Debug)]
struct Branch {
    /// The lowest rank below this branch.
    best: Rank,
    /// The ways for zero, for one, and for patterns that leave the bit open.
    ways: [Node; 3],
    bit: u16,
}

/// One pattern and the entries that have it, by rank.
#[derive(Clone, Debug)]
struct Leaf {
    pattern: Pattern,
    first: Entry,
    /// The other entries of the pattern. The list is nearly always empty, and then costs no allocation in the tree or
    /// in a copy.
    more: Vec<Entry>,
}

/// The tree of patterns, with its branches and leaves in two lists.
#[derive(Clone, Debug)]
pub struct Radix {
    root: Node,
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
    /// The places in the two lists that are free.
    free_branches: Vec<u32>,
    free_leaves: Vec<u32>,
}

impl Classifier for Radix {
    fn empty(_seed: u64) -> Radix {
        Radix {
            root: Node::NONE,
            branches: Vec::new(),
            leaves: Vec::new(),
            free_branches: Vec::new(),
            free_leaves: Vec::new(),
        }
    }

    fn insert(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let (patterns, entry) = compile(rank, slot, selector);
        for pattern in patterns {
            self.add(pattern, entry.clone());
        }
    }

    fn remove(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let (patterns, _) = compile(rank, slot, selector);
        for pattern in patterns {
            self.take(&pattern, rank, slot);
        }
    }

    #[inline]
    fn lookup(&self, packet: &PacketKey) -> Option<Slot> {
        let mut found = None;
        self.walk(self.root, packet, &mut found);
        found.map(|(_, slot)| slot)
    }
}

impl Radix {
    fn walk(&self, mut at: Node, packet: &PacketKey, found: &mut Option<(Rank, Slot)>) {
        loop {
            if at == Node::NONE {
                return;
            }
            if let Some(leaf) = at.as_leaf() {
                return self.leaves[leaf].search(packet, found);
            }
            let branch = &self.branches[at.0 as usize];
            if found.is_some_and(|(rank, _)| rank <= branch.best) {
                return;
            }
            let way = branch.ways[usize::from(test(packet.words(), branch.bit))];
            let fall_back = branch.ways[2];
            if fall_back == Node::NONE {
                at = way;
                continue;
            }
            if way != Node::NONE {
                self.walk(way, packet, found);
            }
            at = fall_back;
        }
    }

    fn add(&mut self, pattern: Pattern, entry: Entry) {
        let rank = entry.rank;
        let Some(near) = self.near(&pattern) else {
            self.root = self.new_leaf(pattern, entry);
            return;
        };
        let split = self.leaves[near].pattern.first_difference(&pattern);
        // Down to where the new branch belongs: above the first that tests a later bit.
        let mut above = None;
        let mut at = self.root;
        while at.as_leaf().is_none() {
            let branch = &mut self.branches[at.0 as usize];
            if split.is_some_and(|bit| bit < branch.bit) {
                break;
            }
            branch.best = branch.best.min(rank);
            let way = pattern.trit(branch.bit);
            above = Some((at, way));
            at = branch.ways[way];
            if at == Node::NONE {
                break;
            }
        }
        let place = match split {
            None => return self.leaves[near].add(entry),
            Some(_) if at == Node::NONE => self.new_leaf(pattern, entry),
            Some(bit) => {
                let best = self.best(at).min(rank);
                let mut ways = [Node::NONE; 3];
                ways[self.some_pattern(at).trit(bit)] = at;
                ways[pattern.trit(bit)] = self.new_leaf(pattern, entry);
                self.new_branch(Branch { best, ways, bit })
            }
        };
        self.hang(above, place);
    }

    fn take(&mut self, pattern: &Pattern, rank: Rank, slot: Slot) {
        let mut path = Vec::new();
        let mut at = self.root;
        let leaf = loop {
            if at == Node::NONE {
                return;
            }
            if let Some(leaf) = at.as_leaf() {
                break leaf;
            }
            let branch = &self.branches[at.0 as usize];
            let way = pattern.trit(branch.bit);
            path.push((at, way));
            at = branch.ways[way];
        };
        if self.leaves[leaf].pattern != *pattern {
            return;
        }
        if !self.leaves[leaf].take(rank, slot) {
            self.free_leaves.push(leaf as u32);
            let above = path.pop();
            self.hang(above, Node::NONE);
            if let Some((branch, _)) = above {
                self.close(branch, path.last().copied());
            }
        }
        for (branch, _) in path.into_iter().rev() {
            self.branches[branch.0 as usize].best = self.best_below(branch);
        }
    }

    /// Take out a branch that has only one way left, or else correct its rank.
    fn close(&mut self, branch: Node, above: Option<(Node, usize)>) {
        let ways = self.branches[branch.0 as usize].ways;
        let mut left = ways.into_iter().filter(|way| *way != Node::NONE);
        match (left.next(), left.next()) {
            (Some(only), None) => {
                self.free_branches.push(branch.0);
                self.hang(above, only);
            }
            _ => self.branches[branch.0 as usize].best = self.best_below(branch),
        }
    }

    fn hang(&mut self, above: Option<(Node, usize)>, node: Node) {
        match above {
            Some((branch, way)) => self.branches[branch.0 as usize].ways[way] = node,
            None => self.root = node,
        }
    }

    /// The leaf whose pattern agrees longest with this one.
    fn near(&self, pattern: &Pattern) -> Option<usize> {
        let mut at = self.root;
        if at == Node::NONE {
            return None;
        }
        loop {
            if let Some(leaf) = at.as_leaf() {
                return Some(leaf);
            }
            let branch = &self.branches[at.0 as usize];
            let way = branch.ways[pattern.trit(branch.bit)];
            at = if way == Node::NONE { some_way(branch) } else { way };
        }
    }

    fn some_pattern(&self, mut at: Node) -> &Pattern {
        loop {
            match at.as_leaf() {
                Some(leaf) => return &self.leaves[leaf].pattern,
                None => at = some_way(&self.branches[at.0 as usize]),
            }
        }
    }

    fn best(&self, node: Node) -> Rank {
        match node.as_leaf() {
            _ if node == Node::NONE => Rank(u64::MAX),
            Some(leaf) => self.leaves[leaf].first.rank,
            None => self.branches[node.0 as usize].best,
        }
    }

    fn best_below(&self, branch: Node) -> Rank {
        let ways = self.branches[branch.0 as usize].ways;
        ways.into_iter().map(|way| self.best(way)).min().unwrap_or(Rank(u64::MAX))
    }

    fn new_leaf(&mut self, pattern: Pattern, entry: Entry) -> Node {
        let leaf = Leaf { pattern, first: entry, more: Vec::new() };
        match self.free_leaves.pop() {
            Some(free) => {
                self.leaves[free as usize] = leaf;
                Node::leaf(free as usize)
            }
            None => {
                self.leaves.push(leaf);
                Node::leaf(self.leaves.len() - 1)
            }
        }
    }

    fn new_branch(&mut self, branch: Branch) -> Node {
        match self.free_branches.pop() {
            Some(free) => {
                self.branches[free as usize] = branch;
                Node(free)
            }
            None => {
                self.branches.push(branch);
                Node(self.branches.len() as u32 - 1)
            }
        }
    }
}

/// A way of the branch that exists; every branch has at least two.
fn some_way(branch: &Branch) -> Node {
    branch.ways.into_iter().find(|way| *way != Node::NONE).unwrap_or(Node::NONE)
}

impl Leaf {
    #[inline]
    fn search(&self, packet: &PacketKey, found: &mut Option<(Rank, Slot)>) {
        let words: &Words = packet.words();
        if !self.pattern.admits(words) {
            return;
        }
        for entry in std::iter::once(&self.first).chain(&self.more) {
            if found.is_some_and(|(rank, _)| rank <= entry.rank) {
                return;
            }
            if entry.admits(packet) {
                *found = Some((entry.rank, entry.slot));
                return;
            }
        }
    }

    fn add(&mut self, mut entry: Entry) {
        if entry.rank < self.first.rank {
            std::mem::swap(&mut entry, &mut self.first);
        }
        let at = self.more.partition_point(|other| other.rank <= entry.rank);
        self.more.insert(at, entry);
    }

    /// Take out an entry if it is here; `false` if it is the only one. That one stays, for the leaf itself is to go.
    fn take(&mut self, rank: Rank, slot: Slot) -> bool {
        let is_it = |entry: &Entry| (entry.rank, entry.slot) == (rank, slot);
        if !is_it(&self.first) {
            if let Some(at) = self.more.iter().position(is_it) {
                self.more.remove(at);
            }
            return true;
        }
        if self.more.is_empty() {
            return false;
        }
        self.first = self.more.remove(0);
        true
    }
}
