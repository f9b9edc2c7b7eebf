//! The parser: recursive descent over the tokens, written by hand so that it can say what was expected and go on.
//!
//! Recovery: a broken statement ends at its `;`, at the `}` of its braces, or where a line starts with a keyword that
//! can only start the next statement; `application NAME` always starts a block. The depth of the descent is that of the
//! grammar (block, setting, item), whatever the text: deeper braces are counted, not descended into.

mod block;
mod expect;
mod file;
mod items;
mod limits;
mod reading;
mod settings;
mod stream;
mod subjects;

use crate::ast::{Block, Name, Protection, Span, Syntax, Test};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::host::Host;
use crate::lexer::{Kind, Token};
use crate::suggest;
use crate::tree::{Builder, NodeKind};
use crate::unit::{Parts, PlacedBlock, Read};
use crate::{MAX_STATEMENTS, MAX_SUBJECTS};
pub(crate) use reading::tree;
pub use reading::{parse, parse_bytes, parse_bytes_for, parse_for, parse_over};
use stream::{AHEAD, Stream};

/// The state of a block before the checks.
pub(crate) enum Body {
    /// The block as it was read, with the findings. They are missing if they are too many to remember, or there was an
    /// error.
    Read(Box<Block>, Option<Read>),
    /// The block stood in the earlier text.
    Known(PlacedBlock),
}

/// A block before the checks.
pub(crate) struct Candidate {
    pub body: Body,
    /// Whether an error was found in the block, or right behind it.
    pub broken: bool,
}

/// A protection at the top of the file as read, before the checks.
pub(crate) struct Shared {
    pub protection: Protection,
    /// Whether an error was found in it.
    pub broken: bool,
}

pub(crate) struct Parser<'p> {
    text: &'p str,
    /// The blocks that stood in the earlier text, in order.
    known: &'p [PlacedBlock],
    /// Number of known blocks that were taken over.
    taken: usize,
    stream: Stream<'p>,
    /// The counts of what was read so far.
    parts: Parts,
    /// The counts of what was read before the current statement of the file.
    before: Parts,
    /// The problem that there is more than is read of any text. It is all that is reported then.
    full: Option<Diagnostic>,
    tree: Builder,
    sink: &'p mut Sink,
    host: &'p dyn Host,
    syntax: Syntax,
    candidates: Vec<Candidate>,
    /// The protections at the top of the file.
    shared: Vec<Shared>,
    tests: Vec<Test>,
    /// Number of lines of the tests.
    expectations: usize,
    /// Number of lines of tests that cannot be read.
    test_errors: usize,
    /// Whether an error was found in the block being read. Lexical errors are counted when the parser meets them.
    broken: bool,
}

/// A signal that the rest of a statement is not to be read.
struct Abandon;
type Step<T> = Result<T, Abandon>;

impl<'p> Parser<'p> {
    fn new(
        text: &'p str,
        known: &'p [PlacedBlock],
        with_tree: bool,
        sink: &'p mut Sink,
        host: &'p dyn Host,
    ) -> Parser<'p> {
        let mut parser = Parser {
            text,
            known,
            taken: 0,
            stream: Stream::new(text, known, with_tree),
            parts: Parts::default(),
            before: Parts::default(),
            full: None,
            tree: Builder::new(with_tree),
            sink,
            host,
            syntax: Syntax::default(),
            candidates: Vec::new(),
            shared: Vec::new(),
            tests: Vec::new(),
            expectations: 0,
            test_errors: 0,
            broken: false,
        };
        (0..AHEAD).for_each(|_| parser.bump());
        parser
    }

    /// Whether every known block that the lexer came to was a statement of the file.
    fn takes_all(&self) -> bool {
        self.stream.met == self.taken
    }

    /// Whether reading on is in vain. Known blocks are taken only where nothing is wrong, so the rest of a text with an
    /// error need not be looked at.
    fn is_in_vain(&self) -> bool {
        !self.known.is_empty() && self.sink.has_errors()
    }

    /// Adds to the counts of what was read. Beyond what any text may have, the parser sees nothing any more.
    fn count(&mut self, parts: Parts) {
        self.parts = self.parts + parts;
        let what = match self.parts {
            Parts { subjects, .. } if subjects > MAX_SUBJECTS => {
                format!("{MAX_SUBJECTS} blocks and subjects")
            }
            Parts { statements, .. } if statements > MAX_STATEMENTS => format!("{MAX_STATEMENTS} statements"),
            _ => return,
        };
        if self.full.is_none() {
            self.full = Some(
                Diagnostic::new(
                    Code::TooManyStatements,
                    self.here(),
                    format!("the policy has more than {what}"),
                )
                .label("nothing of the policy is read")
                .help("use prefixes instead of a network for each host, and bare names of programs"),
            );
            self.stream.stop();
        }
    }

    /// Reads a node of the lossless tree.
    fn node<T>(&mut self, kind: NodeKind, read: impl FnOnce(&mut Self) -> T) -> T {
        self.count(match kind {
            NodeKind::Block | NodeKind::Subject => Parts::SUBJECT,
            NodeKind::File | NodeKind::Syntax | NodeKind::Definition | NodeKind::Reference => {
                Parts::default()
            }
            _ => Parts::STATEMENT,
        });
        let behind = self.stream.last.map_or(0, |last| last.index + 1);
        self.tree.open(kind, self.stream.look(0).map_or(behind, |next| next.index) as usize);
        let out = read(self);
        self.tree.close(self.stream.last.map_or(0, |last| last.index as usize + 1));
        out
    }

    /// Moves on by one token.
    fn bump(&mut self) {
        if let Some(token) = self.stream.step().filter(|token| token.kind.is_error()) {
            self.count(Parts::STATEMENT);
            self.lexical_error(token);
        }
    }

    fn peek(&self) -> Option<Token> {
        self.look(0)
    }

    fn look(&self, ahead: usize) -> Option<Token> {
        Some(self.stream.look(ahead)?.token)
    }

    fn leads(&self) -> bool {
        self.stream.look(0).is_some_and(|s| s.leads)
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
        self.bump();
        Some(token.span)
    }

    fn eat_word(&mut self, word: &str) -> Option<Span> {
        if self.word() == Some(word) { self.eat(Kind::Word) } else { None }
    }

    /// The place of the next token, or the empty place behind the last one.
    fn here(&self) -> Span {
        self.peek().map_or(self.last().after(), |t| t.span)
    }

    /// The place of the last token.
    fn last(&self) -> Span {
        self.stream.last.map_or(Span::default(), |s| s.token.span)
    }

    /// Whether the next token is `application NAME`, which starts a block wherever it stands.
    fn at_application(&self) -> bool {
        self.word() == Some("application") && self.names_at(1)
    }

    /// Whether the next token starts a statement of the file, as in [`Parser::at_top`], and is first on its line. It is
    /// not a name then either.
    fn at_block(&self) -> bool {
        let extended = self.syntax == Syntax::Extended && self.opens_extension();
        self.leads() && (self.at_application() || extended)
    }

    /// Whether the next token starts a statement of the file. `default {`, `guard {` and `test NAME {` do so where they
    /// lead a line.
    fn at_top(&self) -> bool {
        self.at_application() || (self.leads() && self.opens_extension())
    }

    fn opens_extension(&self) -> bool {
        self.opens("default") || self.opens("guard") || self.opens_test()
    }

    /// Whether that word and a brace come next, as in `default {`.
    fn opens(&self, word: &str) -> bool {
        self.word() == Some(word) && self.look(1).is_some_and(|t| t.kind == Kind::Open)
    }

    /// Whether `test NAME {` comes next.
    fn opens_test(&self) -> bool {
        let opens = self.look(2).is_some_and(|t| t.kind == Kind::Open);
        self.word() == Some("test") && self.names_at(1) && opens
    }

    /// Reports a construct that `syntax 2005` does not have.
    fn extension(&mut self, span: Span, what: &str) {
        if self.syntax == Syntax::Paper {
            self.error(
                Diagnostic::new(Code::OtherSyntax, span, format!("{what}: not in `syntax 2005`"))
                    .label("an extension")
                    .help("begin the file with `syntax 2026;`, which has it, or leave it out"),
            );
        }
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.broken = true;
        if diagnostic.code.is_grammar() {
            self.tree.fault();
        }
        self.sink.push(diagnostic);
    }

    /// Reports what the lexer found.
    fn lexical_error(&mut self, token: Token) {
        if !self.sink.shows_errors() {
            return self.sink.push(Diagnostic::new(Code::UnknownCharacter, token.span, String::new()));
        }
        let written = show(token.span.of(self.text));
        let (code, message, label, help) = match token.kind {
            Kind::Unknown => (
                Code::UnknownCharacter,
                format!("`{written}` means nothing here"),
                "not part of the language",
                "put a name with other characters in double quotes; a comment starts with `#`",
            ),
            Kind::OpenQuote => (
                Code::OpenQuote,
                "the quoted name does not end on its line".to_owned(),
                "the closing `\"` is missing",
                "close the quotes on the same line; write a quote inside as `\\\"`",
            ),
            _ => (
                Code::OpenComment,
                "the comment does not end".to_owned(),
                "no `*/` follows",
                "end the comment with `*/`",
            ),
        };
        self.sink.push(Diagnostic::new(code, token.span, message).label(label).help(help));
    }

    /// Reports that the next token is not what the grammar wants, unless the lexer has reported it already.
    fn unexpected(&mut self, code: Code, expected: &[&str], help: impl Into<String>) -> Abandon {
        self.broken = true;
        if self.peek().is_some_and(|t| t.kind.is_error()) {
            self.tree.fault();
            return Abandon;
        }
        if !self.sink.shows_errors() {
            // It is counted, and nobody reads it.
            self.error(Diagnostic::new(code, self.here(), String::new()));
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

    /// The text of the next token if it is a bare word and does not start a statement of the file.
    fn value(&self) -> Option<&'p str> {
        if self.at_top() { None } else { self.word() }
    }

    /// Reads a name: a bare word or a quoted one.
    fn name(&mut self) -> Option<Name> {
        if self.at_block() {
            return None;
        }
        let token = self.peek().filter(|t| matches!(t.kind, Kind::Word | Kind::Quoted))?;
        self.bump();
        let written = token.span.of(self.text);
        if token.kind == Kind::Word {
            return Some(Name { text: written.into(), span: token.span });
        }
        self.extension(token.span, "names in quotes");
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
}

/// A list in words: "a, b or c".
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
    word.chars().all(|c| c.is_alphabetic() || c == '-').then_some(word)
}
