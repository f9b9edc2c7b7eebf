//! Recursive descent over the tokens, written by hand so that it can say what was expected and go on.
//!
//! Recovery: a broken statement ends at its `;`, at the `}` of its braces, or where a line starts with a keyword
//! that can only start the next statement; `application NAME` always starts a block. The depth of the descent is
//! that of the grammar (block, setting, item), whatever the text: deeper braces are counted, not descended into.

mod settings;

use crate::ast::{Block, Name, Span};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::lexer::{Kind, Token, tokens};
use crate::{MAX_TEXT, address, check, suggest};

/// An application block that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The names it carries, as far as they could be read.
    pub names: Vec<Name>,
}

/// What one policy text says.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The text.
    pub text: String,
    /// Blocks without errors, in the order of the file.
    pub blocks: Vec<Block>,
    /// Blocks with errors: they are not part of the policy.
    pub broken: Vec<Broken>,
    /// Everything found, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Whether anything is wrong; warnings and notes are not.
    pub fn has_errors(&self) -> bool {
        !self.broken.is_empty() || self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Read a policy. Never fails: what is wrong is in [`Parsed::diagnostics`], what is sound in [`Parsed::blocks`].
pub fn parse(file: &str, text: &str) -> Parsed {
    let mut sink = Sink::default();
    if text.len() > MAX_TEXT {
        let message = format!("the policy is {} octets long; at most {MAX_TEXT} are read", text.len());
        sink.push(
            Diagnostic::new(Code::TooLong, Span::default(), message)
                .label("nothing of it was read")
                .help("use prefixes and lists of applications instead of one line per host or program"),
        );
        return Parsed {
            file: file.into(),
            text: String::new(),
            blocks: Vec::new(),
            broken: Vec::new(),
            diagnostics: sink.finish(file, ""),
        };
    }
    let tokens = tokens(text);
    lexical_errors(text, &tokens, &mut sink);
    let mut parser = Parser::new(text, &tokens, &mut sink);
    parser.file();
    let candidates = parser.candidates;
    let (blocks, broken) = check::policy(candidates, &mut sink);
    Parsed { file: file.into(), text: text.into(), blocks, broken, diagnostics: sink.finish(file, text) }
}

/// As [`parse`], for octets that may not be text.
pub fn parse_bytes(file: &str, bytes: &[u8]) -> Parsed {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(file, text),
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let text = String::from_utf8_lossy(&good[..good.len().min(MAX_TEXT)]).into_owned();
            let at = Span { start: text.len() as u32, end: text.len() as u32 };
            let mut sink = Sink::default();
            sink.push(
                Diagnostic::new(Code::NotUtf8, at, "the octets here are not UTF-8 text")
                    .label("behind this place")
                    .help("save the file as UTF-8; check that it is a policy at all"),
            );
            let diagnostics = sink.finish(file, &text);
            Parsed { file: file.into(), text, blocks: Vec::new(), broken: Vec::new(), diagnostics }
        }
    }
}

fn lexical_errors(text: &str, tokens: &[Token], sink: &mut Sink) {
    for token in tokens {
        let written = show(token.span.of(text));
        match token.kind {
            Kind::Unknown => sink.push(
                Diagnostic::new(
                    Code::UnknownCharacter,
                    token.span,
                    format!("`{written}` means nothing here"),
                )
                .label("not part of the language")
                .help("put a name with other characters in double quotes; a comment starts with `#`"),
            ),
            Kind::OpenQuote => sink.push(
                Diagnostic::new(Code::OpenQuote, token.span, "the quoted name does not end on its line")
                    .label("the closing `\"` is missing")
                    .help("close the quotes on the same line; write a quote inside as `\\\"`"),
            ),
            Kind::OpenComment => sink.push(
                Diagnostic::new(Code::OpenComment, token.span, "the comment does not end")
                    .label("no `*/` follows")
                    .help("end the comment with `*/`"),
            ),
            _ => {}
        }
    }
}

/// A block as read, before the checks.
pub(crate) struct Candidate {
    pub block: Block,
    /// An error was found in it, or right behind it.
    pub broken: bool,
}

/// A token that means something.
#[derive(Clone, Copy)]
struct Significant {
    token: Token,
    /// The first of its line.
    leads: bool,
}

pub(crate) struct Parser<'p> {
    text: &'p str,
    tokens: Vec<Significant>,
    at: usize,
    sink: &'p mut Sink,
    candidates: Vec<Candidate>,
    /// An error was found in the block being read; lexical ones are counted when the parser meets them.
    broken: bool,
}

/// The rest of a statement is not to be read.
struct Abandon;
type Step<T> = Result<T, Abandon>;

const STATEMENTS: [&str; 2] = ["network", "protection"];

impl<'p> Parser<'p> {
    fn new(text: &'p str, all: &[Token], sink: &'p mut Sink) -> Parser<'p> {
        let mut tokens = Vec::new();
        let mut leads = true;
        for token in all {
            if token.kind.is_trivia() {
                leads |= token.span.of(text).contains('\n');
            } else {
                tokens.push(Significant { token: *token, leads });
                leads = false;
            }
        }
        Parser { text, tokens, at: 0, sink, candidates: Vec::new(), broken: false }
    }

    fn peek(&self) -> Option<Token> {
        self.look(0)
    }

    fn look(&self, ahead: usize) -> Option<Token> {
        Some(self.tokens.get(self.at + ahead)?.token)
    }

    fn leads(&self) -> bool {
        self.tokens.get(self.at).is_some_and(|s| s.leads)
    }

    fn is(&self, kind: Kind) -> bool {
        self.peek().is_some_and(|t| t.kind == kind)
    }

    /// The text of the next token if it is a bare word.
    fn word(&self) -> Option<&'p str> {
        self.word_at(0)
    }

    fn word_at(&self, ahead: usize) -> Option<&'p str> {
        let token = self.look(ahead)?;
        (token.kind == Kind::Word).then(|| token.span.of(self.text))
    }

    fn names_at(&self, ahead: usize) -> bool {
        self.look(ahead).is_some_and(|t| matches!(t.kind, Kind::Word | Kind::Quoted))
    }

    fn eat(&mut self, kind: Kind) -> Option<Span> {
        let token = self.peek().filter(|t| t.kind == kind)?;
        self.at += 1;
        Some(token.span)
    }

    fn eat_word(&mut self, word: &str) -> Option<Span> {
        if self.word() == Some(word) { self.eat(Kind::Word) } else { None }
    }

    /// The next token's place, or nothing behind the last token.
    fn here(&self) -> Span {
        self.peek().map_or(self.last().after(), |t| t.span)
    }

    /// The last token's place.
    fn last(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(Span::default(), |s| s.token.span)
    }

    /// Whether the next token is `application NAME`, which starts a block wherever it stands.
    fn at_application(&self) -> bool {
        self.word() == Some("application") && self.names_at(1)
    }

    /// As [`Parser::at_application`], and first on its line: not a name either.
    fn at_block(&self) -> bool {
        self.leads() && self.at_application()
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.broken = true;
        self.sink.push(diagnostic);
    }

    /// The next token is not what the grammar wants: say so, unless the lexer has said so already.
    fn unexpected(&mut self, code: Code, expected: &[&str], help: impl Into<String>) -> Abandon {
        self.broken = true;
        if self.peek().is_some_and(|t| t.kind.is_error()) {
            return Abandon;
        }
        let found = match self.peek() {
            Some(token) => format!("found `{}`", show(token.span.of(self.text))),
            None => "the text ends".into(),
        };
        let message = format!("expected {}, {found}", listed(expected));
        let near = self.word().and_then(|w| suggest::nearest(w, expected.iter().filter_map(|e| bare(e))));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => help.into(),
        };
        let label = format!("expected {}", listed(expected));
        self.error(Diagnostic::new(code, self.here(), message).label(label).help(help).expected(expected));
        Abandon
    }

    /// A name: a bare word or a quoted one.
    fn name(&mut self) -> Option<Name> {
        let token = self.peek().filter(|t| matches!(t.kind, Kind::Word | Kind::Quoted))?;
        self.at += 1;
        let written = token.span.of(self.text);
        if token.kind == Kind::Word {
            return Some(Name { text: written.into(), span: token.span });
        }
        let inner = written.get(1..written.len().saturating_sub(1)).unwrap_or("");
        Some(Name { text: self.unescape(inner, token.span), span: token.span })
    }

    fn unescape(&mut self, inner: &str, span: Span) -> String {
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match (c, chars.clone().next()) {
                ('\\', Some(escaped @ ('"' | '\\'))) => {
                    chars.next();
                    out.push(escaped);
                }
                ('\\', other) => {
                    let written: String = other.into_iter().collect();
                    self.error(
                        Diagnostic::new(
                            Code::UnknownEscape,
                            span,
                            format!("`\\{}` is not an escape", show(&written)),
                        )
                        .label("in this name")
                        .help("write `\\\\` for a backslash and `\\\"` for a quote"),
                    );
                    return out;
                }
                _ => out.push(c),
            }
        }
        out
    }

    fn file(&mut self) {
        while self.peek().is_some() {
            self.broken = false;
            let slip = self.word().is_some_and(|w| {
                w != "application" && suggest::nearest(w, ["application"]).is_some() && self.names_at(1)
            });
            if slip {
                self.unexpected(Code::ExpectedApplication, &["`application`"], "");
                self.block();
            } else if self.word() == Some("application") {
                self.block();
            } else {
                self.junk();
            }
        }
    }

    /// Something between the blocks. A setting or a brace there most likely means that the block before was closed
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
            _ if belongs => "settings stand inside the braces of `application NAME { ... }`",
            _ => "a policy is a list of `application NAME, NAME { ... }`",
        };
        self.unexpected(Code::ExpectedApplication, &["`application`"], help);
        if belongs && let Some(previous) = self.candidates.last_mut() {
            previous.broken = true;
        }
        self.at += 1;
        let mut depth = usize::from(kind == Some(Kind::Open));
        if matches!(kind, Some(Kind::Close | Kind::Semicolon)) {
            return;
        }
        while let Some(token) = self.peek() {
            if self.at_application() {
                return;
            }
            self.at += 1;
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth <= 1 => return,
                Kind::Close => depth -= 1,
                Kind::Semicolon if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// `application NAME, NAME { ... }`; the keyword, or a slip of it, is next.
    fn block(&mut self) {
        let keyword = self.here();
        self.at += 1;
        let mut block =
            Block { names: Vec::new(), header: keyword, networks: Vec::new(), protections: Vec::new() };
        if self.header(&mut block).is_ok() {
            self.body(&mut block);
        }
        self.candidates.push(Candidate { block, broken: self.broken });
    }

    /// The names and the opening brace.
    fn header(&mut self, block: &mut Block) -> Step<()> {
        let help = "write the program's name or path, as in `application sshd, /usr/bin/ssh {`";
        loop {
            let body = self.word().is_some_and(|w| STATEMENTS.contains(&w) && self.leads());
            match if body || self.at_block() { None } else { self.name() } {
                Some(name) => {
                    if let Err(fault) = address::application_name(&name.text) {
                        self.error(
                            Diagnostic::new(fault.code, name.span, fault.message)
                                .label("not an application name")
                                .help(fault.help),
                        );
                    }
                    block.header = block.header.to(name.span);
                    block.names.push(name);
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

    /// Find where the body starts after a bad header.
    fn resume_after_header(&mut self, block: &mut Block) -> Step<()> {
        while let Some(token) = self.peek() {
            let setting = self.word().is_some_and(|w| STATEMENTS.contains(&w) && self.leads());
            if setting {
                return Ok(());
            }
            if self.at_application() {
                return Err(Abandon);
            }
            match token.kind {
                Kind::Open => {
                    self.at += 1;
                    return Ok(());
                }
                Kind::Close | Kind::Semicolon => {
                    self.at += 1;
                    return Err(Abandon);
                }
                kind => {
                    let written = token.span.of(self.text);
                    match block.names.last_mut().filter(|n| n.span.end == token.span.start) {
                        // A bare name with a character that wanted quotes: still one name.
                        Some(name) if matches!(kind, Kind::Word | Kind::Unknown) => {
                            name.text.push_str(written);
                            name.span = name.span.to(token.span);
                            self.at += 1;
                        }
                        _ if matches!(kind, Kind::Word | Kind::Quoted) => block.names.extend(self.name()),
                        _ => self.at += 1,
                    }
                }
            }
        }
        Err(Abandon)
    }

    /// The settings and the closing brace.
    fn body(&mut self, block: &mut Block) {
        loop {
            if self.peek().is_none() || self.at_application() {
                let names = show(&block.names.first().map_or(String::new(), |n| n.text.clone()));
                let message = format!("the block of application `{names}` is not closed");
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
            let near = self.word().and_then(|w| suggest::nearest(w, STATEMENTS));
            if let (Some(near), true) = (near, self.names_at(1)) {
                if self.word() != Some(near) {
                    self.unexpected(Code::ExpectedSetting, &["`network`", "`protection`", "`}`"], "");
                }
                let step = match near {
                    "network" => self.network().map(|n| block.networks.push(n)),
                    _ => self.protection().map(|p| block.protections.push(p)),
                };
                if step.is_err() {
                    self.skip_statement();
                }
                continue;
            }
            self.bad_setting(near);
        }
    }

    /// Neither a setting nor the block's end.
    fn bad_setting(&mut self, near: Option<&str>) {
        if near.is_some() && self.word() == near {
            self.at += 1;
            let (code, what, help) = match near {
                Some("network") => (
                    Code::ExpectedAddress,
                    "an address range",
                    "write `network ADDRESS/LENGTH TYPE;`, as in `network 192.0.2.0/24 trusted;`",
                ),
                _ => (Code::ExpectedProtection, "a protection name", "write `protection NAME { ... }`"),
            };
            self.unexpected(code, &[what], help);
        } else {
            let help = match (self.word(), self.peek().map(|t| t.kind)) {
                (Some("localport" | "remoteport"), _) => "items stand inside `protection NAME { ... }`",
                (_, Some(Kind::Semicolon)) => "nothing stands before this semicolon: remove it",
                _ => "a block holds `network RANGE TYPE;` and `protection NAME { ... }`",
            };
            self.unexpected(Code::ExpectedSetting, &["`network`", "`protection`", "`}`"], help);
            if !self.is(Kind::Semicolon) {
                // Step over what was complained about, or the same place would be read again.
                if !self.is(Kind::Open) {
                    self.at += 1;
                }
            }
        }
        self.skip_statement();
    }

    /// Go on behind the statement: behind its `;` or its braces, in front of the block's `}`, of a keyword that leads
    /// a line, or of the next block.
    fn skip_statement(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            if self.at_application() {
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
            self.at += 1;
            if depth == 0 && matches!(token.kind, Kind::Close | Kind::Semicolon) {
                return;
            }
        }
    }

    /// The `;` that ends a statement. Missing: say so behind the last token, and go on where the next statement
    /// starts.
    fn semicolon(&mut self) -> Span {
        if let Some(span) = self.eat(Kind::Semicolon) {
            return span;
        }
        self.broken = true;
        let at = self.last().after();
        if !self.peek().is_some_and(|t| t.kind.is_error()) {
            self.error(
                Diagnostic::new(Code::ExpectedSemicolon, at, "expected `;` at the end of the statement")
                    .label("`;` missing here")
                    .help("end the statement with `;`")
                    .expected(&["`;`"]),
            );
        }
        if !self.leads() {
            self.skip_statement();
        }
        at
    }
}

/// "a, b or c".
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// The keyword inside backquotes.
fn bare(expected: &str) -> Option<&str> {
    let word = expected.strip_prefix('`')?.strip_suffix('`')?;
    word.chars().all(char::is_alphabetic).then_some(word)
}
