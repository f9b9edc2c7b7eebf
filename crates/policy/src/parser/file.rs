//! The parser of a whole file: `syntax`, protections for every block, blocks and tests.

use super::{Abandon, Parser, Shared};
use crate::ast::Syntax;
use crate::diagnostic::Code;
use crate::lexer::Kind;
use crate::suggest;
use crate::tree::NodeKind;

impl Parser<'_> {
    pub(super) fn file(&mut self) {
        if self.word() == Some("syntax") {
            self.node(NodeKind::Syntax, Self::syntax);
        }
        while self.peek().is_some() && !self.is_in_vain() {
            self.broken = false;
            self.sink.mark();
            self.before = self.parts;
            if let Some(token) = self.peek().filter(|token| token.kind == Kind::Known) {
                self.known(token.span);
                continue;
            }
            let slip = self.word().is_some_and(|w| {
                w != "application" && suggest::nearest(w, ["application"]).is_some() && self.names_at(1)
            });
            if slip {
                self.node(NodeKind::Block, |parser| {
                    parser.unexpected(Code::ExpectedApplication, &["`application`"], "");
                    parser.block();
                });
            } else if self.word() == Some("application") {
                self.node(NodeKind::Block, Self::block);
            } else if self.opens("default") {
                self.node(NodeKind::Block, Self::default_block);
            } else if self.opens("guard") {
                self.node(NodeKind::Block, Self::guard);
            } else if self.opens_test() {
                self.node(NodeKind::Test, Self::test);
            } else if self.word() == Some("protection") && self.names_at(1) && self.candidates.is_empty() {
                self.node(NodeKind::Protection, Self::for_every_block);
            } else {
                self.node(NodeKind::Junk, Self::junk);
            }
        }
    }

    /// Reads `syntax 2005;` or `syntax 2026;`; the keyword is next.
    fn syntax(&mut self) {
        self.bump();
        let help = "write `syntax 2005;` for the language of the paper, or `syntax 2026;` for all of it";
        match self.word() {
            Some("2005") => self.syntax = Syntax::Paper,
            Some("2026") => self.syntax = Syntax::Extended,
            _ => {
                self.unexpected(Code::ExpectedSyntax, &["`2005`", "`2026`"], help);
                if !self.is(Kind::Word) {
                    self.eat(Kind::Semicolon);
                    return;
                }
            }
        }
        self.bump();
        if self.eat(Kind::Semicolon).is_none() {
            self.no_semicolon("statement");
        }
    }

    /// Reads the setting `protection NAME { ... }` at the top of the file; the keyword is next.
    fn for_every_block(&mut self) {
        self.extension(self.here(), "a protection outside of blocks");
        match self.protection() {
            Ok(mut protection) => {
                protection.shared = true;
                self.shared.push(Shared { protection, broken: self.broken });
            }
            Err(Abandon) => self.skip_statement(),
        }
    }

    /// Reports text between the blocks. A setting or a brace there most likely means that the block before was closed
    /// too early; what is left of that block must not pass for the whole.
    fn junk(&mut self) {
        let kind = self.peek().map(|t| t.kind);
        let belongs = kind == Some(Kind::Close)
            || self.word().is_some_and(|w| {
                let words =
                    ["network", "protection", "localport", "remoteport", "encryption", "authentication"];
                suggest::nearest(w, words).is_some()
            });
        let help = match kind {
            Some(Kind::Close) => "remove this brace, or the one before it that closed the block too early",
            Some(Kind::Semicolon) => "a block ends with `}` alone: remove the semicolon",
            _ if self.word() == Some("syntax") => {
                "`syntax` is the first statement of the file, and stands there once"
            }
            _ if self.word() == Some("protection") => {
                "protections for every block stand in front of the first block, others inside their block"
            }
            _ if belongs => "settings stand inside the braces of `application NAME { ... }`",
            _ => "a policy is a list of `application NAME, NAME { ... }`",
        };
        let is_test = self.word() == Some("test");
        self.test_errors += usize::from(is_test);
        // The name of a test that does not end: said already.
        if !(is_test && self.look(1).is_some_and(|token| token.kind.is_error())) {
            self.unexpected(Code::ExpectedApplication, &["`application`"], help);
        }
        if belongs && let Some(previous) = self.candidates.last_mut() {
            previous.broken = true;
        }
        self.bump();
        let mut depth = usize::from(kind == Some(Kind::Open));
        if matches!(kind, Some(Kind::Close | Kind::Semicolon)) {
            return;
        }
        while let Some(token) = self.peek() {
            if self.at_top() {
                return;
            }
            self.bump();
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth <= 1 => return,
                Kind::Close => depth -= 1,
                Kind::Semicolon if depth == 0 => return,
                _ => {}
            }
        }
    }
}
