//! The tokens that mean something, as the parser looks at them: one behind, three ahead. No other is held, so what a text is made of does
//! not decide what reading it takes; all of them go to the lossless tree, if that is wanted.

use crate::ast::Span;
use crate::lexer::{Kind, Token, Tokens, tokens};
use crate::tree::Leaves;
use crate::unit::Placed;

/// How far the parser looks ahead, the next token included: `test NAME {`.
pub(super) const AHEAD: usize = 3;

type Known<'p> = std::iter::Map<std::slice::Iter<'p, Placed>, fn(&Placed) -> Span>;

/// A token that means something.
#[derive(Clone, Copy)]
pub(super) struct Significant {
    pub token: Token,
    /// Its place among all tokens.
    pub index: u32,
    /// The first of its line.
    pub leads: bool,
}

pub(super) struct Stream<'p> {
    text: &'p str,
    tokens: Tokens<'p, Known<'p>>,
    ahead: [Option<Significant>; AHEAD],
    /// The one before those ahead.
    pub last: Option<Significant>,
    /// How many tokens were read.
    index: u32,
    /// The next one is the first of its line.
    leads: bool,
    /// Known blocks that were met.
    pub met: usize,
    /// No more is to be read.
    stopped: bool,
    leaves: Option<Leaves>,
}

impl<'p> Stream<'p> {
    /// At the start of a text; nothing is ahead before [`AHEAD`] steps are made.
    pub fn new(text: &'p str, known: &'p [Placed], with_tree: bool) -> Stream<'p> {
        let whole: fn(&Placed) -> Span = Placed::whole;
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

    /// So many behind the next one.
    pub fn look(&self, ahead: usize) -> Option<Significant> {
        *self.ahead.get(ahead)?
    }

    /// Go on by one; the token that comes into sight.
    pub fn step(&mut self) -> Option<Token> {
        let new = if self.stopped { None } else { self.read() };
        self.last = self.ahead[0].or(self.last);
        self.ahead.rotate_left(1);
        self.ahead[AHEAD - 1] = new;
        Some(new?.token)
    }

    /// As if the text ended here.
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
