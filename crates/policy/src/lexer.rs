//! The lexer, which makes tokens of text. Nothing is lost: the spans of all tokens, white space and comments included,
//! tile the text. So [`mod@crate::format`] can keep every comment.

use std::iter::Peekable;

use logos::{Lexer, Logos};

/// A stretch of the text, in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The offset of the first octet.
    pub start: u32,
    /// The offset one past the last octet.
    pub end: u32,
}

impl Span {
    /// The span from the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// The span moved on by `by` octets, with overflow, so that `by` may lead back.
    pub(crate) fn moved(self, by: u32) -> Span {
        Span { start: self.start.wrapping_add(by), end: self.end.wrapping_add(by) }
    }

    /// The empty span right behind `self`.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }

    /// The span as a range of octets.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text that the span covers.
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or("")
    }
}

/// The kind of a token.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(extras = NoCommentEnd)]
pub enum Kind {
    /// White space: blanks, line ends, a byte order mark.
    #[regex(r"[ \t\r\n\x0C\u{FEFF}]+")]
    Space,
    /// A comment `# ...` or `// ...` to the end of the line.
    #[regex(r"#[^\n]*", allow_greedy = true)]
    #[regex(r"//[^\n]*", priority = 20, allow_greedy = true)]
    LineComment,
    /// A comment between `/*` and `*/`.
    #[token("/*", block_comment, priority = 30)]
    BlockComment,
    /// A word: a keyword, a name, a number, an address, a path. Slashes belong to it, but not one that opens a comment.
    #[regex(r"(/*[A-Za-z0-9_.:+@%~\-])+", priority = 10)]
    #[regex(r"/+", priority = 5)]
    // An IPv6 address with a port behind it, as tests have it.
    #[regex(r"\[[0-9A-Fa-f:.]*\](:[0-9]*)?(/[0-9A-Za-z]+)?", priority = 8)]
    Word,
    /// A name or a path in double quotes.
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Quoted,
    /// A quoted name that the line's end cuts off.
    #[regex(r#""([^"\\\n]|\\[^\n])*"#)]
    OpenQuote,
    /// An opening brace, which begins a body: `{`.
    #[token("{")]
    Open,
    /// A closing brace, which ends a body: `}`.
    #[token("}")]
    Close,
    /// A semicolon, which ends a statement: `;`.
    #[token(";")]
    Semicolon,
    /// A comma between parts of a list: `,`.
    #[token(",")]
    Comma,
    /// An equals sign, as in `protocol=tcp`: `=`.
    #[token("=")]
    Equals,
    /// A comment's beginning `/*` without its `*/`. The text after it is read as if it were not there.
    OpenComment,
    /// Characters that mean nothing here.
    Unknown,
    /// A block that stood in the earlier text ([`crate::parse_over`]). No text has one by itself.
    Known,
}

/// Every kind of token, by its number.
pub(crate) const KINDS: [Kind; 14] = [
    Kind::Space,
    Kind::LineComment,
    Kind::BlockComment,
    Kind::Word,
    Kind::Quoted,
    Kind::OpenQuote,
    Kind::Open,
    Kind::Close,
    Kind::Semicolon,
    Kind::Comma,
    Kind::Equals,
    Kind::OpenComment,
    Kind::Unknown,
    Kind::Known,
];
const _: () = {
    let mut at = 0;
    while at < KINDS.len() {
        assert!(KINDS[at] as usize == at);
        at += 1;
    }
};

impl Kind {
    /// Whether the token is white space or a comment.
    pub fn is_trivia(self) -> bool {
        matches!(self, Kind::Space | Kind::LineComment | Kind::BlockComment)
    }

    /// Whether the token is none of the language. The lexer's caller reports it once.
    pub fn is_error(self) -> bool {
        matches!(self, Kind::OpenQuote | Kind::OpenComment | Kind::Unknown)
    }
}

/// Whether no `*/` is left ahead, so that a file full of `/*` is not searched to its end for each.
#[derive(Default)]
pub struct NoCommentEnd(bool);

fn block_comment(lexer: &mut Lexer<Kind>) -> bool {
    if lexer.extras.0 {
        return false;
    }
    match lexer.remainder().find("*/") {
        Some(at) => lexer.bump(at + 2),
        None => lexer.extras.0 = true,
    }
    !lexer.extras.0
}

/// A token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of the token.
    pub kind: Kind,
    /// The place of the token.
    pub span: Span,
}

/// The tokens of a text in order, each made when it is asked for.
pub(crate) struct Tokens<'t, K: Iterator<Item = Span>> {
    lexer: Lexer<'t, Kind>,
    known: Peekable<K>,
    /// A run of meaningless characters that was read already. It becomes one token.
    open: Option<Token>,
}

/// The tokens of `text`, which must be shorter than 4 GiB (the parser's limit is far below). Where a token would start
/// at the start of one of `known`, that whole stretch is one token. `known` is in order, and each of them ends where a
/// token does.
pub(crate) fn tokens<K: Iterator<Item = Span>>(text: &str, known: K) -> Tokens<'_, K> {
    Tokens { lexer: Kind::lexer(text), known: known.peekable(), open: None }
}

impl<K: Iterator<Item = Span>> Tokens<'_, K> {
    fn read(&mut self) -> Option<Token> {
        let at = self.lexer.span().end;
        // Inside of a comment or of quotes it is none.
        while self.known.next_if(|span| (span.start as usize) < at).is_some() {}
        if let Some(span) = self.known.next_if(|span| span.start as usize == at) {
            self.lexer.bump(span.range().len());
            return Some(Token { kind: Kind::Known, span });
        }
        let read = self.lexer.next()?;
        let range = self.lexer.span();
        let span = Span { start: range.start as u32, end: range.end as u32 };
        let is_comment = self.lexer.slice() == "/*";
        let kind = read.unwrap_or(if is_comment { Kind::OpenComment } else { Kind::Unknown });
        Some(Token { kind, span })
    }
}

impl<K: Iterator<Item = Span>> Iterator for Tokens<'_, K> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let mut token = self.open.take().or_else(|| self.read())?;
        while token.kind == Kind::Unknown {
            match self.read() {
                Some(next) if next.kind == Kind::Unknown => token.span.end = next.span.end,
                next => {
                    self.open = next;
                    break;
                }
            }
        }
        Some(token)
    }
}
