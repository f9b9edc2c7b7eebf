//! A sound block as a compile unit: it is read and checked once, and later texts that have it unchanged take it over
//! (docs/design/0021).

use std::ops::{Add, Deref, Sub};
use std::sync::{Arc, OnceLock};

use crate::ast::{AddressRange, Block, Span};
use crate::diagnostic::{Diagnostic, Lines, Position, Sink};

/// A sound block with what its checks found. The places in it are those of the text it was read from.
#[derive(Debug)]
pub(crate) struct Unit {
    pub block: Block,
    /// The extent of its text, which says where the text behind it is.
    pub extent: Extent,
    /// Whether some of its networks are host names.
    pub has_hosts: bool,
    /// Whether some of its items name classes, which are those of the graph in force when it was read.
    pub has_classes: bool,
    /// What stands in for reading and checking it; `None` if it is read and checked in each text.
    pub findings: Option<BlockFindings>,
    lines: OnceLock<Lines>,
}

/// The results of reading and checking a block.
#[derive(Debug)]
pub(crate) struct BlockFindings {
    /// The findings of the parser.
    pub read: Read,
    /// The findings of the checks.
    pub checked: Vec<Diagnostic>,
    /// Number of prefixes of its networks.
    pub prefixes: usize,
    /// Number of entries that it adds to those of all applications.
    pub entries: usize,
}

/// The findings of the parser in a block.
#[derive(Debug)]
pub(crate) struct Read {
    /// The warnings and notes.
    pub found: Vec<Diagnostic>,
    /// The counts of what was read.
    pub parts: Parts,
}

/// Counts of what the reading of a text keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Number of blocks and subjects ([`crate::MAX_SUBJECTS`]).
    pub subjects: usize,
    /// Number of all other statements ([`crate::MAX_STATEMENTS`]).
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

/// The extent of a stretch of text in lines and characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of line ends in it.
    lines: usize,
    /// Number of characters behind the last line end.
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
    /// Makes the unit of a block of this text.
    pub fn new(block: Block, text: &str, findings: Option<BlockFindings>) -> Unit {
        let has_hosts = block.networks.iter().any(|network| matches!(network.range, AddressRange::Host(_)));
        let has_classes = block.items().any(|item| item.class().is_some());
        let findings = findings.filter(|findings| findings.is_within(block.span));
        let extent = Extent::of(block.span.of(text));
        Unit { extent, block, has_hosts, has_classes, findings, lines: OnceLock::new() }
    }

    /// Number of octets of the block.
    pub fn len(&self) -> usize {
        self.block.span.range().len()
    }

    /// Whether the block defines protections or refers to some. If not, the protections at the top of the file do not
    /// matter to it.
    pub fn has_protections(&self) -> bool {
        !self.block.protections.is_empty()
    }

    /// The place of a span in the block, counted from the block's start; `text` is the block's own.
    pub fn position(&self, text: &str, span: Span) -> Position {
        let lines = self.lines.get_or_init(|| Lines::new(text));
        lines.position(text, span.start.wrapping_sub(self.block.span.start) as usize)
    }
}

impl BlockFindings {
    /// Whether nothing that was found points out of the block.
    fn is_within(&self, span: Span) -> bool {
        let within = |inner: Span| span.start <= inner.start && inner.end <= span.end;
        let related = |found: &Diagnostic| found.related.iter().all(|related| within(related.span));
        self.read.found.iter().chain(&self.checked).all(|found| within(found.span) && related(found))
    }
}

/// A sound block in one text. Its fields are those of the block ([`Block`]). In a policy that was read with
/// [`crate::parse_over`] the places in them may be those of an earlier text, and [`PlacedBlock::place`] says where they are
/// in this one.
#[derive(Clone, Debug)]
pub struct PlacedBlock {
    pub(crate) unit: Arc<Unit>,
    pub(crate) start: u32,
}

impl Deref for PlacedBlock {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.unit.block
    }
}

impl PlacedBlock {
    /// Places the unit where it was read.
    pub(crate) fn new(unit: Unit) -> PlacedBlock {
        let start = unit.block.span.start;
        PlacedBlock { unit: Arc::new(unit), start }
    }

    /// The distance from the text it was read from to the text at hand, with overflow.
    pub(crate) fn shift(&self) -> u32 {
        self.start.wrapping_sub(self.unit.block.span.start)
    }

    /// The place in the text at hand of something in the block.
    pub fn place(&self, span: Span) -> Span {
        span.moved(self.shift())
    }

    /// The place of the whole block in the text at hand.
    pub(crate) fn whole(&self) -> Span {
        self.place(self.unit.block.span)
    }

    /// Reports again what was found in the block.
    pub(crate) fn replay(&self, found: &[Diagnostic], sink: &mut Sink) {
        for diagnostic in found {
            sink.push_from(diagnostic, || diagnostic.moved(self.shift()));
        }
    }
}
