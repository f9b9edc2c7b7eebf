//! Text to tokens. Nothing is lost: the spans of all tokens, white space and comments included, tile the text,
//! which is what lets [`crate::format`] keep every comment.

use logos::{Lexer, Logos};

/// A stretch of the text, in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First octet.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Span {
    /// From `self` to `other`, both included.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// So many octets further on, with overflow: `by` may lead back.
    pub(crate) fn moved(self, by: u32) -> Span {
        Span { start: self.start.wrapping_add(by), end: self.end.wrapping_add(by) }
    }

    /// Nothing, right behind `self`.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }

    /// As a range of octets.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text it covers.
    pub fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or("")
    }
}

/// What a token is.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(extras = NoClose)]
pub enum Kind {
    /// Blanks, line ends, a byte order mark.
    #[regex(r"[ \t\r\n\x0C\u{FEFF}]+")]
    Space,
    /// `# ...` or `// ...` to the end of the line.
    #[regex(r"#[^\n]*", allow_greedy = true)]
    #[regex(r"//[^\n]*", priority = 20, allow_greedy = true)]
    LineComment,
    /// `/* ... */`.
    #[token("/*", block_comment, priority = 30)]
    BlockComment,
    /// A keyword, a name, a number, an address, a path. Slashes belong to it, but not one that opens a comment.
    #[regex(r"(/*[A-Za-z0-9_.:+@%~\-])+", priority = 10)]
    #[regex(r"/+", priority = 5)]
    // An IPv6 address with a port behind it, as tests have it.
    #[regex(r"\[[0-9A-Fa-f:.]*\](:[0-9]*)?(/[0-9A-Za-z]+)?", priority = 8)]
    Word,
    /// A name or a path in double quotes.
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Quoted,
    /// A quote that the line's end cuts off.
    #[regex(r#""([^"\\\n]|\\[^\n])*"#)]
    OpenQuote,
    /// `{`
    #[token("{")]
    Open,
    /// `}`
    #[token("}")]
    Close,
    /// `;`
    #[token(";")]
    Semicolon,
    /// `,`
    #[token(",")]
    Comma,
    /// `=`
    #[token("=")]
    Equals,
    /// `/*` without its `*/`; the text after it is read as if it were not there.
    OpenComment,
    /// Characters that mean nothing here.
    Unknown,
    /// A block that stood in the text before ([`crate::parse_over`]); no text has one by itself.
    Known,
}

impl Kind {
    /// White space or comment.
    pub fn is_trivia(self) -> bool {
        matches!(self, Kind::Space | Kind::LineComment | Kind::BlockComment)
    }

    /// Not a token of the language; reported by the lexer's caller once.
    pub fn is_error(self) -> bool {
        matches!(self, Kind::OpenQuote | Kind::OpenComment | Kind::Unknown)
    }
}

/// Set once no `*/` is left ahead, so that a file full of `/*` is not searched to its end for each.
#[derive(Default)]
pub struct NoClose(bool);

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

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub span: Span,
}

/// All tokens of `text` in order; it must be shorter than 4 GiB (the parser's cap is far below). Where a token would start at the
/// start of one of `known`, all of that stretch is one token; `known` is in order, and each of them ends where a token does.
pub fn tokens(text: &str, known: impl IntoIterator<Item = Span>, mut see: impl FnMut(Token)) {
    let mut known = known.into_iter().peekable();
    let mut lexer = Kind::lexer(text);
    let mut open: Option<Token> = None;
    loop {
        let at = lexer.span().end;
        // Inside of a comment or of quotes it is none.
        while known.next_if(|span| (span.start as usize) < at).is_some() {}
        let token = if let Some(span) = known.next_if(|span| span.start as usize == at) {
            lexer.bump(span.range().len());
            Token { kind: Kind::Known, span }
        } else {
            let Some(read) = lexer.next() else { break };
            let range = lexer.span();
            let span = Span { start: range.start as u32, end: range.end as u32 };
            let kind = read
                .unwrap_or_else(|()| if lexer.slice() == "/*" { Kind::OpenComment } else { Kind::Unknown });
            Token { kind, span }
        };
        match &mut open {
            Some(last) if last.kind == Kind::Unknown && token.kind == Kind::Unknown => {
                last.span.end = token.span.end;
            }
            _ => open.replace(token).into_iter().for_each(&mut see),
        }
    }
    open.into_iter().for_each(see);
}
