//! A sound block as a compile unit: read and checked once, taken over by later texts that have it unchanged (docs/design/0021).

use std::ops::{Add, Deref, Sub};
use std::sync::{Arc, OnceLock};

use crate::ast::{AddressRange, Block, Span};
use crate::diagnostic::{Diagnostic, Lines, Position, Sink};

/// A sound block with what its checks found. The places in it are those of the text it was read from.
#[derive(Debug)]
pub(crate) struct Unit {
    pub block: Block,
    /// Where the text is that follows it, seen from its start.
    pub extent: Extent,
    /// Some of its networks are host names.
    pub has_hosts: bool,
    /// What stands in for reading and checking it; `None`: it is read and checked in each text.
    pub again: Option<Again>,
    lines: OnceLock<Lines>,
}

/// What reading and checking a block came to.
#[derive(Debug)]
pub(crate) struct Again {
    /// What the parser found.
    pub read: Read,
    /// Those of the checks.
    pub checked: Vec<Diagnostic>,
    /// Prefixes of its networks.
    pub prefixes: usize,
    /// Entries that it adds to those of all applications.
    pub entries: usize,
}

/// What the parser found in a block.
#[derive(Debug)]
pub(crate) struct Read {
    /// Warnings and notes.
    pub found: Vec<Diagnostic>,
    /// How much it is.
    pub parts: Parts,
}

/// What reading makes something of that stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Blocks and subjects ([`crate::MAX_SUBJECTS`]).
    pub subjects: usize,
    /// Everything else ([`crate::MAX_STATEMENTS`]).
    pub statements: usize,
}

impl Parts {
    pub const SUBJECT: Parts = Parts { subjects: 1, statements: 0 };
    pub const STATEMENT: Parts = Parts { subjects: 0, statements: 1 };
}

impl Add for Parts {
    type Output = Parts;

    fn add(self, other: Parts) -> Parts {
        let statements = self.statements.saturating_add(other.statements);
        Parts { subjects: self.subjects.saturating_add(other.subjects), statements }
    }
}

impl Sub for Parts {
    type Output = Parts;

    fn sub(self, other: Parts) -> Parts {
        let statements = self.statements.saturating_sub(other.statements);
        Parts { subjects: self.subjects.saturating_sub(other.subjects), statements }
    }
}

/// How far a stretch of text leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Ends of lines in it.
    lines: usize,
    /// Characters behind the last of them.
    characters: usize,
}

impl Extent {
    pub fn of(text: &str) -> Extent {
        let last = text.rfind('\n').map_or(0, |at| at + 1);
        let lines = text.bytes().filter(|octet| *octet == b'\n').count();
        Extent { lines, characters: text[last..].chars().count() }
    }

    /// The place at its end, if it starts at `start`.
    pub fn behind(self, start: Position) -> Position {
        match self.lines {
            0 => Position { line: start.line, column: start.column + self.characters },
            lines => Position { line: start.line + lines, column: self.characters + 1 },
        }
    }
}

impl Unit {
    /// A block of this text.
    pub fn new(block: Block, text: &str, again: Option<Again>) -> Unit {
        let has_hosts = block.networks.iter().any(|network| matches!(network.range, AddressRange::Host(_)));
        let again = again.filter(|again| again.is_within(block.span));
        Unit { extent: Extent::of(block.span.of(text)), block, has_hosts, again, lines: OnceLock::new() }
    }

    /// Octets of it.
    pub fn len(&self) -> usize {
        self.block.span.range().len()
    }

    /// Whether it says what a protection is. Else it does not matter to it what stands at the top of the file.
    pub fn has_protections(&self) -> bool {
        !self.block.protections.is_empty()
    }

    /// Where a place in it is, seen from its start; `text` is its own.
    pub fn position(&self, text: &str, span: Span) -> Position {
        let lines = self.lines.get_or_init(|| Lines::new(text));
        lines.position(text, span.start.wrapping_sub(self.block.span.start) as usize)
    }
}

impl Again {
    /// Whether nothing that was found points out of the block.
    fn is_within(&self, span: Span) -> bool {
        let within = |inner: Span| span.start <= inner.start && inner.end <= span.end;
        let related = |found: &Diagnostic| found.related.iter().all(|related| within(related.span));
        self.read.found.iter().chain(&self.checked).all(|found| within(found.span) && related(found))
    }
}

/// A sound block in one text. Its fields are those of the block ([`Block`]); in a policy that was read with
/// [`crate::parse_over`] the places in them may be those of an earlier text, and [`Placed::place`] says where they are in this one.
#[derive(Clone, Debug)]
pub struct Placed {
    pub(crate) unit: Arc<Unit>,
    pub(crate) start: u32,
}

impl Deref for Placed {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.unit.block
    }
}

impl Placed {
    /// Where it was read.
    pub(crate) fn new(unit: Unit) -> Placed {
        let start = unit.block.span.start;
        Placed { unit: Arc::new(unit), start }
    }

    /// From the text it was read from to the text at hand, with overflow.
    pub(crate) fn shift(&self) -> u32 {
        self.start.wrapping_sub(self.unit.block.span.start)
    }

    /// Where something of the block is in the text at hand.
    pub fn place(&self, span: Span) -> Span {
        span.moved(self.shift())
    }

    /// All of it in the text at hand.
    pub(crate) fn whole(&self) -> Span {
        self.place(self.unit.block.span)
    }

    /// Say what was found in it once more.
    pub(crate) fn replay(&self, found: &[Diagnostic], sink: &mut Sink) {
        for diagnostic in found {
            sink.push_from(diagnostic, || diagnostic.moved(self.shift()));
        }
    }
}
