//! The parser of application blocks.

use super::{Abandon, Body, Candidate, Parser, Step};
use crate::ast::{Block, Name, Program, Span, Subject};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::lexer::Kind;
use crate::suggest;
use crate::tree::NodeKind;
use crate::unit::{Parts, Read};

/// The keyword of a block or a network that is watched and not in force.
pub(super) const OBSERVE: &str = "observe";
pub(super) const STATEMENTS: [&str; 3] = ["network", "protection", "limit"];

impl Parser<'_> {
    /// Reads `application NAME, NAME { ... }`; the keyword, or a misspelling of it, is next.
    pub(super) fn block(&mut self) {
        let keyword = self.here();
        self.bump();
        let mut block = Block::new(Vec::new(), keyword);
        if self.header(&mut block).is_ok() {
            self.body(&mut block);
        }
        self.read(block);
    }

    /// Reads the block `default { ... }`; both words are next.
    pub(super) fn default_block(&mut self) {
        let header = self.here();
        self.extension(header, "`default`");
        self.bump();
        self.bump();
        let mut block = Block::new(vec![Subject::default_at(header)], header);
        self.body(&mut block);
        self.read(block);
    }

    /// Reads the block `guard { ... }`; both words are next.
    pub(super) fn guard(&mut self) {
        let header = self.here();
        self.extension(header, "`guard`");
        self.bump();
        self.bump();
        let mut block = Block { is_guard: true, ..Block::new(Vec::new(), header) };
        self.body(&mut block);
        self.read(block);
    }

    /// Ends a block, which was read as far as the parser is now.
    fn read(&mut self, mut block: Block) {
        block.span = block.header.to(self.last());
        let parts = self.parts - self.before;
        let read = self.sink.since_mark().map(|found| Read { found, parts });
        self.candidates.push(Candidate { body: Body::Read(Box::new(block), read), broken: self.broken });
    }

    /// Takes over a block that stood in the earlier text, which is next.
    pub(super) fn known(&mut self, span: Span) {
        self.bump();
        let found = self.known.binary_search_by_key(&span.start, |known| known.start);
        let Some(placed) = found.ok().and_then(|at| self.known.get(at)) else { return };
        self.taken += 1;
        if let Some(findings) = &placed.unit.findings {
            self.count(findings.read.parts);
            placed.replay(&findings.read.found, self.sink);
        }
        self.candidates.push(Candidate { body: Body::Known(placed.clone()), broken: false });
    }

    /// Reads the subjects and the opening brace.
    fn header(&mut self, block: &mut Block) -> Step<()> {
        let help = "write the program's name or path, as in `application sshd, /usr/bin/ssh {`";
        loop {
            let body = self.word().is_some_and(|w| STATEMENTS.contains(&w) && self.leads());
            match if body || self.at_block() { None } else { self.node(NodeKind::Subject, Self::subject) } {
                Some(subject) => {
                    block.header = block.header.to(subject.span);
                    block.subjects.push(subject);
                }
                None => {
                    self.unexpected(Code::ExpectedName, &["an application name"], help);
                    if !self.is(Kind::Open) && !self.is(Kind::Comma) {
                        return self.resume_after_header(block);
                    }
                }
            }
            if self.eat(Kind::Comma).is_none() {
                break;
            }
        }
        if self.eat(Kind::Open).is_some() {
            return Ok(());
        }
        let help = "names are separated by commas, and `{` opens the block";
        self.unexpected(Code::ExpectedOpen, &["`{`", "`,`"], help);
        self.resume_after_header(block)
    }

    /// Finds where the body starts after a bad header.
    fn resume_after_header(&mut self, block: &mut Block) -> Step<()> {
        while let Some(token) = self.peek() {
            let setting = self.word().is_some_and(|w| STATEMENTS.contains(&w) && self.leads());
            if setting {
                return Ok(());
            }
            if self.at_top() {
                return Err(Abandon);
            }
            match token.kind {
                Kind::Open => {
                    self.bump();
                    return Ok(());
                }
                Kind::Close | Kind::Semicolon => {
                    self.bump();
                    return Err(Abandon);
                }
                kind => {
                    let written = token.span.of(self.text);
                    let last = block.subjects.last_mut().filter(|s| s.span.end == token.span.start);
                    match last.and_then(bare_name) {
                        // A bare name with a character that wanted quotes: still one name.
                        Some((name, whole)) if matches!(kind, Kind::Word | Kind::Unknown) => {
                            name.text.push_str(written);
                            name.span = name.span.to(token.span);
                            *whole = name.span;
                            self.bump();
                        }
                        _ if matches!(kind, Kind::Word | Kind::Quoted) => {
                            self.count(Parts::SUBJECT);
                            block.subjects.extend(self.name().map(Subject::program));
                        }
                        _ => self.bump(),
                    }
                }
            }
        }
        Err(Abandon)
    }

    /// Reads the settings and the closing brace.
    fn body(&mut self, block: &mut Block) {
        loop {
            if self.peek().is_none() || self.at_top() {
                let names = show(&block.subjects.first().map_or(String::new(), Subject::name));
                let message = match block.is_guard {
                    true => "the block of `guard` is not closed".to_owned(),
                    false => format!("the block of application `{names}` is not closed"),
                };
                self.error(
                    Diagnostic::new(Code::MissingClose, self.last().after(), message)
                        .label("`}` missing here")
                        .help("close the block with `}`")
                        .related(block.header, "the block starts here")
                        .expected(&["`}`"]),
                );
                return;
            }
            if self.eat(Kind::Close).is_some() {
                return;
            }
            if self.word() == Some(OBSERVE)
                && self.look(1).is_some_and(|t| t.kind == Kind::Semicolon)
                && !block.is_guard
            {
                self.node(NodeKind::Observe, |parser| parser.observe(block));
                continue;
            }
            let near = self.word().and_then(|w| suggest::keyword(w, &STATEMENTS));
            if let (Some(near), true) = (near, self.names_at(1)) {
                let kind = match near {
                    "network" => NodeKind::Network,
                    "limit" => NodeKind::Limit,
                    _ => NodeKind::Protection,
                };
                self.node(kind, |parser| parser.setting(near, block));
            } else {
                self.node(NodeKind::Junk, |parser| parser.bad_setting(near));
            }
        }
    }

    /// Reads `observe;`, whose tokens are both next.
    fn observe(&mut self, block: &mut Block) {
        let word = self.here();
        self.extension(word, "`observe`");
        self.bump();
        block.observed = Some(word.to(self.end_of("statement", Self::skip_statement)));
    }

    /// Reads a setting; its keyword, or a misspelling of it, is next.
    fn setting(&mut self, keyword: &str, block: &mut Block) {
        if self.word() != Some(keyword) {
            self.unexpected(Code::ExpectedSetting, &["`network`", "`protection`", "`}`"], "");
        }
        let step = match keyword {
            "network" => self.network(&mut block.networks),
            "limit" => self.limit().map(|limit| block.limits.push(limit)),
            _ => self.protection().map(|p| block.protections.push(p)),
        };
        if step.is_err() {
            self.skip_statement();
        }
    }

    /// Reports what is neither a setting nor the block's end.
    fn bad_setting(&mut self, near: Option<&str>) {
        if near.is_some() && self.word() == near {
            self.bump();
            let (code, what, help) = match near {
                Some("network") => (
                    Code::ExpectedAddress,
                    "an address range",
                    "write `network ADDRESS/LENGTH TYPE;`, as in `network 192.0.2.0/24 trusted;`",
                ),
                Some("limit") => (
                    Code::ExpectedLimit,
                    "`clear` or `accept`",
                    "write `limit clear RATE;` or `limit accept RATE;`, as in `limit clear 10 mbit/s;`",
                ),
                _ => (Code::ExpectedProtection, "a protection name", "write `protection NAME { ... }`"),
            };
            self.unexpected(code, &[what], help);
        } else {
            let help = match (self.word(), self.peek().map(|t| t.kind)) {
                (Some("protocol" | "localport" | "remoteport"), _) => {
                    "items stand inside `protection NAME { ... }`"
                }
                (_, Some(Kind::Semicolon)) => "nothing stands before this semicolon: remove it",
                _ => "a block holds `network RANGE TYPE;` and `protection NAME { ... }`",
            };
            self.unexpected(Code::ExpectedSetting, &["`network`", "`protection`", "`}`"], help);
            if !self.is(Kind::Semicolon) {
                // Step over what was complained about, or the same place would be read again.
                if !self.is(Kind::Open) {
                    self.bump();
                }
            }
        }
        self.skip_statement();
    }

    /// Skips the statement: behind its `;` or its braces, in front of the block's `}`, of a keyword that leads a line,
    /// or of the next block.
    pub(super) fn skip_statement(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            if self.at_top() {
                return;
            }
            if depth == 0 && self.leads() && self.word().is_some_and(|w| STATEMENTS.contains(&w)) {
                return;
            }
            match token.kind {
                Kind::Close if depth == 0 => return,
                Kind::Close => depth -= 1,
                Kind::Open => depth += 1,
                _ => {}
            }
            self.bump();
            if depth == 0 && matches!(token.kind, Kind::Close | Kind::Semicolon) {
                return;
            }
        }
    }

    /// Reads the `;` that ends `what`. If it is missing, that is reported, and `skip` goes to where the next one
    /// starts.
    pub(super) fn end_of(&mut self, what: &str, skip: fn(&mut Self)) -> Span {
        if let Some(span) = self.eat(Kind::Semicolon) {
            return span;
        }
        let at = self.no_semicolon(what);
        if !self.leads() {
            skip(self);
        }
        at
    }

    /// Reports that the `;` of `what` is missing behind the last token, unless the lexer has reported what is there
    /// instead.
    pub(super) fn no_semicolon(&mut self, what: &str) -> Span {
        let at = self.last().after();
        if self.peek().is_some_and(|t| t.kind.is_error()) {
            self.broken = true;
            self.tree.fault();
            return at;
        }
        self.error(
            Diagnostic::new(Code::ExpectedSemicolon, at, format!("expected `;` at the end of the {what}"))
                .label("`;` missing here")
                .help(format!("end the {what} with `;`"))
                .expected(&["`;`"]),
        );
        at
    }
}

/// The name of a subject that is nothing else, and the place of the subject.
fn bare_name(subject: &mut Subject) -> Option<(&mut Name, &mut Span)> {
    if !subject.is_plain() {
        return None;
    }
    match &mut subject.program {
        Program::Named(executable) => Some((&mut executable.name, &mut subject.span)),
        _ => None,
    }
}
