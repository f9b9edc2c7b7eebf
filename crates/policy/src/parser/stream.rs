//! The significant tokens, as the parser looks at them: one behind, three ahead. No other is held, so the memory for
//! reading does not depend on the text; all of them go to the lossless tree, if that is wanted.

use crate::ast::Span;
use crate::lexer::{Kind, Token, Tokens, tokens};
use crate::tree::Leaves;
use crate::unit::PlacedBlock;

/// The number of tokens that the parser looks ahead, the next one included: `test NAME {`.
pub(super) const AHEAD: usize = 3;

type PlacedSpans<'p> = std::iter::Map<std::slice::Iter<'p, PlacedBlock>, fn(&PlacedBlock) -> Span>;

/// A token that means something, which is no white space and no comment.
#[derive(Clone, Copy)]
pub(super) struct Significant {
    pub token: Token,
    /// The number of the token among all tokens.
    pub index: u32,
    /// Whether it is the first of its line.
    pub leads: bool,
}

pub(super) struct Stream<'p> {
    text: &'p str,
    tokens: Tokens<'p, PlacedSpans<'p>>,
    ahead: [Option<Significant>; AHEAD],
    /// The token before those ahead.
    pub last: Option<Significant>,
    /// Number of tokens that were read.
    index: u32,
    /// Whether the next token is the first of its line.
    leads: bool,
    /// Number of known blocks that were met.
    pub met: usize,
    /// Whether no more is to be read.
    stopped: bool,
    leaves: Option<Leaves>,
}

impl<'p> Stream<'p> {
    /// Makes a stream at the start of a text. Nothing is ahead before [`AHEAD`] steps are made.
    pub fn new(text: &'p str, known: &'p [PlacedBlock], with_tree: bool) -> Stream<'p> {
        let whole: fn(&PlacedBlock) -> Span = PlacedBlock::whole;
        Stream {
            text,
            tokens: tokens(text, known.iter().map(whole)),
            ahead: [None; AHEAD],
            last: None,
            index: 0,
            leads: true,
            met: 0,
            stopped: false,
            leaves: with_tree.then(Leaves::default),
        }
    }

    /// The token that is `ahead` behind the next one.
    pub fn look(&self, ahead: usize) -> Option<Significant> {
        *self.ahead.get(ahead)?
    }

    /// Moves on by one token, and returns the one that comes into sight.
    pub fn step(&mut self) -> Option<Token> {
        let new = if self.stopped { None } else { self.read() };
        self.last = self.ahead[0].or(self.last);
        self.ahead.rotate_left(1);
        self.ahead[AHEAD - 1] = new;
        Some(new?.token)
    }

    /// Makes the stream behave as if the text ended here.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.ahead = [None; AHEAD];
    }

    /// All tokens, if they were wanted and none is left.
    pub fn leaves(self) -> Option<Leaves> {
        self.leaves.map(|leaves| leaves.of(self.text))
    }

    fn read(&mut self) -> Option<Significant> {
        loop {
            let token = self.tokens.next()?;
            let index = self.index;
            self.index += 1;
            if let Some(leaves) = &mut self.leaves {
                leaves.push(token);
            }
            if token.kind.is_trivia() {
                self.leads = self.leads || token.span.of(self.text).contains('\n');
                continue;
            }
            self.met += usize::from(token.kind == Kind::Known);
            return Some(Significant { token, index, leads: std::mem::take(&mut self.leads) });
        }
    }
}
