//! The lossless tree: every octet of a text, in the statements in which the parser saw it.
//!
//! One parse makes both trees. [`crate::ast`] takes what the statements mean. This one takes where they start and end,
//! whatever is wrong with them, and what recovery stepped over. Its leaves are all tokens of the text, white space and
//! comments included, each of them once, so [`Tree::print`] gives the text back for any input. The formatter and the
//! language server read it (docs/design/0015).

use crate::MAX_TEXT;
use crate::ast::Span;
use crate::lexer::{KINDS, Kind, Token};

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The whole text of the file.
    File,
    /// A statement that names the language: `syntax N;`.
    Syntax,
    /// A block, which is `application ... { ... }` or `default { ... }`.
    Block,
    /// A subject of a block's header.
    Subject,
    /// A network setting of a block: `network RANGE TYPE;`.
    Network,
    /// A statement of the form `observe;`.
    Observe,
    /// A protection setting with its items: `protection NAME { ... }`.
    Protection,
    /// A protection's name where it is defined.
    Definition,
    /// A protection's name where a network uses it.
    Reference,
    /// A limit of clear traffic: `limit clear RATE;`.
    Limit,
    /// An item of a protection.
    Item,
    /// A test with its lines: `test NAME { ... }`.
    Test,
    /// A line of a test.
    Expectation,
    /// Text that is no statement, which the parser stepped over.
    Junk,
}

impl NodeKind {
    /// Whether an error in the node counts for the node alone. An error in a part of a statement counts for the
    /// statement.
    fn is_statement(self) -> bool {
        !matches!(self, NodeKind::Subject | NodeKind::Definition | NodeKind::Reference)
    }
}

/// A node of the tree. Its number is its place in the order of the text, parents before children. A text has fewer
/// octets than a `u32` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kind of the node.
    pub kind: NodeKind,
    /// The number of the node around it; the file's is its own.
    parent: u32,
    /// Whether the grammar is broken in it, and not only inside a statement within it.
    pub damaged: bool,
    /// The number of its first token.
    first: u32,
    /// The number one past its last token.
    end: u32,
    /// The number one past the last node within it.
    next: u32,
}

impl Node {
    /// The number of the node around it; the file's is its own.
    pub fn parent(&self) -> usize {
        self.parent as usize
    }

    /// The numbers of its tokens.
    fn tokens(&self) -> std::ops::Range<usize> {
        self.first as usize..self.end as usize
    }
}

/// A part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The node of this number.
    Node(usize),
    /// A token that is in no smaller node.
    Token(Token),
}

/// The tokens that tile a text, in four octets each: where it starts, and what it is. The next one starts where it
/// ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaves {
    packed: Vec<u32>,
    /// Octets of the text.
    end: u32,
}

/// The number of bits for the kind of a token.
const KIND: u32 = 5;
const _: () = assert!(KINDS.len() <= 1 << KIND && MAX_TEXT <= 1 << (32 - KIND));

impl Leaves {
    pub fn push(&mut self, token: Token) {
        self.packed.push(token.span.start << KIND | token.kind as u32);
    }

    /// Completes the leaves when all tokens of this text are there.
    pub fn of(self, text: &str) -> Leaves {
        Leaves { end: text.len() as u32, ..self }
    }

    fn len(&self) -> usize {
        self.packed.len()
    }

    fn get(&self, at: usize) -> Option<Token> {
        let packed = *self.packed.get(at)?;
        let end = self.packed.get(at + 1).map_or(self.end, |next| next >> KIND);
        let kind = *KINDS.get((packed & ((1 << KIND) - 1)) as usize)?;
        Some(Token { kind, span: Span { start: packed >> KIND, end } })
    }
}

/// The tree of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    tokens: Leaves,
    nodes: Vec<Node>,
}

impl Tree {
    /// All tokens, which tile the text.
    pub fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.tokens_in(0..self.tokens.len())
    }

    /// The tokens with these numbers.
    pub(crate) fn tokens_in(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = Token> + '_ {
        range.map_while(|at| self.tokens.get(at))
    }

    /// All nodes in the order of the text; the first is the file. There are none if nothing was read.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The octets of a node, without what stands before its first and behind its last word.
    pub fn span(&self, node: usize) -> Span {
        self.nodes.get(node).map_or(Span::default(), |node| self.span_of(node.tokens()))
    }

    /// The span from the first of these tokens to the last.
    pub(crate) fn span_of(&self, tokens: std::ops::Range<usize>) -> Span {
        let last = tokens.end.checked_sub(1).filter(|last| *last >= tokens.start);
        let ends = self.tokens.get(tokens.start).zip(last.and_then(|last| self.tokens.get(last)));
        ends.map_or(Span::default(), |(first, last)| first.span.to(last.span))
    }

    /// The token numbers of each statement that is broken, the outermost ones, in order.
    pub(crate) fn broken(&self) -> Vec<std::ops::Range<usize>> {
        let mut out = Vec::new();
        let mut at = 1;
        while let Some(node) = self.nodes.get(at) {
            at += 1;
            if node.damaged || node.kind == NodeKind::Junk {
                out.push(node.tokens());
                at = node.next as usize;
            }
        }
        out
    }

    /// The parts of a node in order: tokens that are in no smaller node, and nodes.
    pub fn children(&self, node: usize) -> impl Iterator<Item = Element> + '_ {
        let (mut at, end, mut child, next) = match self.nodes.get(node) {
            Some(of) => (of.first as usize, of.end as usize, node + 1, of.next as usize),
            None => (0, 0, 0, 0),
        };
        std::iter::from_fn(move || {
            if let Some(inner) =
                self.nodes.get(child).filter(|inner| child < next && inner.first as usize == at)
            {
                let element = Element::Node(child);
                (at, child) = (inner.end as usize, inner.next as usize);
                return Some(element);
            }
            let token = self.tokens.get(at).filter(|_| at < end)?;
            at += 1;
            Some(Element::Token(token))
        })
    }

    /// The words of a node that are in no smaller node, in order.
    pub fn words(&self, node: usize) -> impl Iterator<Item = Token> + '_ {
        self.children(node).filter_map(|part| match part {
            Element::Token(token) if !token.kind.is_trivia() => Some(token),
            _ => None,
        })
    }

    /// The nodes right below a node.
    pub fn nodes_of(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.children(node).filter_map(|part| match part {
            Element::Node(node) => Some(node),
            Element::Token(_) => None,
        })
    }

    /// The names of the protections right below a node, as written.
    pub fn definitions(&self, node: usize) -> impl Iterator<Item = Span> + '_ {
        let is = move |node: &usize, kind| self.nodes.get(*node).is_some_and(|node| node.kind == kind);
        self.nodes_of(node)
            .filter(move |inner| is(inner, NodeKind::Protection))
            .flat_map(|protection| self.nodes_of(protection))
            .filter(move |inner| is(inner, NodeKind::Definition))
            .map(|name| self.span(name))
    }

    /// The text, put together from the leaves.
    pub fn print(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut open = vec![];
        if !self.nodes.is_empty() {
            open.push(self.children(0));
        }
        while let Some(parts) = open.last_mut() {
            match parts.next() {
                Some(Element::Token(token)) => out.push_str(token.span.of(text)),
                Some(Element::Node(node)) => open.push(self.children(node)),
                None => drop(open.pop()),
            }
        }
        out
    }

    /// The smallest node around an octet, or ending right in front of it.
    pub fn at(&self, offset: usize) -> usize {
        let holds = |node: usize| {
            let span = self.span(node).range();
            span.start <= offset && offset <= span.end
        };
        let mut found = 0;
        // The one that starts at the octet, rather than the one that ends there.
        while let Some(inner) = self.nodes_of(found).filter(|node| holds(*node)).last() {
            found = inner;
        }
        found
    }

    /// The node itself, or the nearest one around it, that is of this kind.
    pub fn around(&self, mut node: usize, kind: NodeKind) -> Option<usize> {
        loop {
            let here = self.nodes.get(node)?;
            if here.kind == kind {
                return Some(node);
            }
            if here.parent() == node {
                return None;
            }
            node = here.parent();
        }
    }

    /// The token that holds an octet, or ends right in front of it if that one is white space.
    pub fn token_at(&self, offset: usize) -> Option<Token> {
        let starts = |packed: &u32| (packed >> KIND) as usize;
        let at = self.tokens.packed.partition_point(|packed| starts(packed) <= offset).saturating_sub(1);
        let here = self.tokens.get(at).filter(|token| offset < token.span.end as usize);
        let before = match here {
            Some(_) => at.checked_sub(1).and_then(|at| self.tokens.get(at)),
            None => self.tokens.get(at),
        };
        let is_word = |token: &Token| matches!(token.kind, Kind::Word | Kind::Quoted);
        let touches = |token: &Token| token.span.end as usize == offset && is_word(token);
        here.filter(is_word).or(before.filter(touches)).or(here)
    }
}

/// A node that is being read.
struct Frame {
    node: usize,
    /// Number of errors of the grammar before it.
    faults: usize,
    /// Number of errors that count for statements within it.
    inner: usize,
}

/// The builder of the tree, which takes what the parser sees.
pub(crate) struct Builder {
    nodes: Vec<Node>,
    open: Vec<Frame>,
    /// Number of errors of the grammar so far.
    faults: usize,
    /// Whether no tree is wanted.
    idle: bool,
}

impl Builder {
    /// Makes a builder; `with_tree` says whether the tree is wanted.
    pub(crate) fn new(with_tree: bool) -> Builder {
        let file = Node { kind: NodeKind::File, parent: 0, damaged: false, first: 0, end: 0, next: 0 };
        Builder {
            nodes: vec![file],
            open: vec![Frame { node: 0, faults: 0, inner: 0 }],
            faults: 0,
            idle: !with_tree,
        }
    }

    /// Notes that the grammar is broken here.
    pub(crate) fn fault(&mut self) {
        self.faults += 1;
    }

    /// Starts a node at this token.
    pub(crate) fn open(&mut self, kind: NodeKind, first: usize) {
        if self.idle {
            return;
        }
        let parent = self.open.last().map_or(0, |frame| frame.node as u32);
        let node = self.nodes.len();
        let first = first as u32;
        self.nodes.push(Node { kind, parent, damaged: false, first, end: first, next: node as u32 + 1 });
        self.open.push(Frame { node, faults: self.faults, inner: 0 });
    }

    /// Ends the node that was opened last in front of this token. A node without tokens is dropped.
    pub(crate) fn close(&mut self, end: usize) {
        if self.idle {
            return;
        }
        let Some(frame) = self.open.pop() else { return };
        let (count, end) = (self.nodes.len() as u32, end as u32);
        let Some(node) = self.nodes.get_mut(frame.node) else { return };
        if end <= node.first {
            return self.nodes.truncate(frame.node);
        }
        let found = self.faults - frame.faults;
        (node.end, node.next) = (end, count);
        node.damaged = found > frame.inner;
        if node.kind.is_statement()
            && let Some(outer) = self.open.last_mut()
        {
            outer.inner += found;
        }
    }

    pub(crate) fn finish(mut self, tokens: Leaves) -> Tree {
        let count = self.nodes.len() as u32;
        if let (Some(file), Some(frame)) = (self.nodes.first_mut(), self.open.first()) {
            (file.next, file.end) = (count, tokens.len() as u32);
            file.damaged = self.faults > frame.inner;
        }
        Tree { tokens, nodes: self.nodes }
    }
}
