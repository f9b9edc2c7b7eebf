//! The canonical layout, that of the paper's Figure 3. It works on the tokens of the lossless tree, so that every
//! comment stays. A comment behind a statement stays behind it, one on a line of its own stays in front of what
//! follows, and one inside a statement moves in front of it. Apart from such moves, only white space changes. A
//! statement that cannot be read is printed as it is.

use crate::lexer::{Kind, Span, Token};
use crate::parser;
use crate::tree::{NodeKind, Tree};

/// Lays out `text` canonically; statements that cannot be read (codes P0xx to P2xx) stay as they are. A text that is
/// too long to be read comes back unchanged. So does one whose broken statements would be read differently in the new
/// layout.
pub fn format(text: &str) -> String {
    let Some(tree) = parser::tree(text) else { return text.into() };
    let once = layout(text, &tree);
    if tree.broken().is_empty() {
        return once;
    }
    let stays = |again: &Tree| essence(text, &tree) == essence(&once, again) && layout(&once, again) == once;
    if parser::tree(&once).as_ref().is_some_and(stays) { once } else { text.into() }
}

/// The parts that a layout must not change: statements and whether they are broken, what is written, and comments.
fn essence<'t>(text: &'t str, tree: &Tree) -> (Vec<(NodeKind, bool)>, String, Vec<&'t str>) {
    let mut written = String::with_capacity(text.len());
    let mut comments = Vec::new();
    for token in tree.tokens() {
        match token.kind {
            Kind::Space => {}
            Kind::LineComment | Kind::BlockComment => comments.push(token.span.of(text).trim_end()),
            _ => written.push_str(token.span.of(text)),
        }
    }
    // Those inside broken statements stay there, others move: their order may change.
    comments.sort_unstable();
    (tree.nodes().iter().map(|node| (node.kind, node.damaged)).collect(), written, comments)
}

fn layout(text: &str, tree: &Tree) -> String {
    let mut layout = Layout { text, ..Layout::default() };
    let mut at = 0;
    for broken in tree.broken() {
        tree.tokens_in(at..broken.start).for_each(|token| layout.token(token));
        layout.verbatim(tree.span_of(broken.clone()));
        at = broken.end;
    }
    tree.tokens_in(at..usize::MAX).for_each(|token| layout.token(token));
    layout.finish()
}

/// The kind of a line, as far as its neighbours depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// The line is a network setting.
    Network,
    /// The line is a comment by itself.
    Comment,
    /// The line ends with a brace that opens.
    Open,
    /// The line is a brace that closes a protection.
    Close,
    /// The line is the brace that closes a block.
    BlockEnd,
    /// The line is anything else.
    Other,
}

struct Out {
    kind: Line,
    /// Whether an empty line precedes it.
    gap: bool,
    text: String,
    /// The range of a network setting and what follows it, to be set in columns.
    columns: Option<(String, String)>,
}

#[derive(Default)]
struct Layout<'t> {
    text: &'t str,
    lines: Vec<Out>,
    depth: usize,
    /// The words of the statement being read.
    words: Vec<&'t str>,
    /// The comments met inside the statement.
    inside: Vec<&'t str>,
    /// Number of line ends since the last token or comment.
    newlines: usize,
    /// Whether an empty line stood before the statement.
    gap: bool,
    /// Whether the statement is in a test.
    is_test: bool,
}

impl<'t> Layout<'t> {
    fn token(&mut self, token: Token) {
        let written = token.span.of(self.text);
        match token.kind {
            Kind::Space => {
                self.newlines += written.matches('\n').count();
                return;
            }
            Kind::LineComment | Kind::BlockComment => self.comment(written.trim_end()),
            Kind::Open => self.open(),
            Kind::Close => self.close(),
            Kind::Semicolon => self.statement(),
            _ => {
                if self.words.is_empty() {
                    self.gap = self.newlines > 1;
                }
                self.words.push(written);
            }
        }
        self.newlines = 0;
    }

    fn comment(&mut self, written: &'t str) {
        if !self.words.is_empty() {
            self.inside.push(written);
        } else if self.newlines == 0
            && let Some(last) = self.lines.last_mut()
        {
            // Behind a statement or a brace, or behind a comment there (not one that runs to the line's end: a line
            // end follows that).
            let tail = last.columns.as_mut().map_or(&mut last.text, |(_, rest)| rest);
            tail.push(' ');
            tail.push_str(written);
        } else {
            let gap = self.newlines > 1;
            self.push(Line::Comment, gap, written.into());
        }
    }

    /// Writes a broken statement as it is.
    fn verbatim(&mut self, span: Span) {
        let text = span.of(self.text);
        let gap = self.newlines > 1;
        self.push(Line::Other, gap, text.into());
        self.newlines = 0;
    }

    fn push(&mut self, kind: Line, gap: bool, text: String) {
        let text = format!("{:indent$}{text}", "", indent = 2 * self.depth);
        self.lines.push(Out { kind, gap, text, columns: None });
    }

    /// Writes the comments met inside a statement before it. The answer tells whether the statement itself still needs
    /// its gap.
    fn lead(&mut self) -> bool {
        let mut gap = std::mem::take(&mut self.gap);
        for comment in std::mem::take(&mut self.inside) {
            self.push(Line::Comment, gap, comment.into());
            gap = false;
        }
        gap
    }

    fn open(&mut self) {
        let gap = self.lead();
        let words = std::mem::take(&mut self.words);
        if self.depth == 0 && words.first() == Some(&"application") {
            self.push(Line::Other, gap, glue(&words, ", "));
            self.push(Line::Open, false, "{".into());
        } else {
            self.push(Line::Open, gap, format!("{} {{", glue(&words, ", ")));
        }
        self.is_test = self.depth == 0 && words.first() == Some(&"test");
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        let kind = if self.depth == 0 { Line::BlockEnd } else { Line::Close };
        self.push(kind, false, "}".into());
    }

    fn statement(&mut self) {
        let gap = self.lead();
        let words = std::mem::take(&mut self.words);
        if words.first() == Some(&"network") {
            let (range, rest) = split_network(&words);
            self.push(Line::Network, gap, "network".into());
            if let Some(last) = self.lines.last_mut() {
                last.columns = Some((range, format!("{rest};")));
            }
            return;
        }
        // Lines of tests, and `syntax`.
        if self.is_test || self.depth == 0 {
            return self.push(Line::Other, gap, format!("{};", glue(&words, ",")));
        }
        // protocol = P localport = P, P remoteport = P TYPE LEVEL OPTIONS
        let demands = |word: &&str| matches!(*word, "encryption" | "authentication" | "never");
        let (flows, demand) = words.split_at(words.iter().position(demands).unwrap_or(0));
        if flows.is_empty() {
            return self.push(Line::Other, gap, format!("{};", glue(demand, ",")));
        }
        self.push(Line::Other, gap, glue(flows, ","));
        self.push(Line::Other, false, format!("{};", glue(demand, ",")));
    }

    fn finish(mut self) -> String {
        align(&mut self.lines);
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut before = Line::Open;
        for line in &self.lines {
            let closes = matches!(line.kind, Line::Close | Line::BlockEnd);
            if before == Line::BlockEnd || (line.gap && before != Line::Open && !closes) {
                out.push('\n');
            }
            out.push_str(&line.text);
            out.push('\n');
            before = line.kind;
        }
        out
    }
}

/// Joins the words of a statement with a blank between them, none around `=`, and `comma` for a comma.
fn glue(words: &[&str], comma: &str) -> String {
    let mut out = String::new();
    let mut tight = true;
    for word in words {
        match *word {
            "," => out.push_str(comma),
            "=" => out.push('='),
            word => {
                if !tight {
                    out.push(' ');
                }
                out.push_str(word);
            }
        }
        tight = matches!(*word, "," | "=");
    }
    out
}

/// Splits a network setting into its ranges, whose parts the parser glues together, and the rest.
fn split_network(words: &[&str]) -> (String, String) {
    let mut out = String::new();
    let mut range = String::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let glued = range.is_empty()
            || range.ends_with(['-', '/'])
            || (word.starts_with(['-', '/']) && !range.contains(['-', '/']));
        if *word == "," {
            out.push_str(&std::mem::take(&mut range));
            out.push_str(", ");
        } else if glued {
            range.push_str(word);
        } else {
            break;
        }
        at += 1;
    }
    (out + &range, words.get(at..).unwrap_or_default().join(" "))
}

/// Aligns the types of networks that stand together in a column.
fn align(lines: &mut [Out]) {
    let mut start = 0;
    while start < lines.len() {
        let mut end = start + 1;
        let joins = |l: &Out| matches!(l.kind, Line::Network | Line::Comment) && !l.gap;
        if lines[start].kind == Line::Network {
            while lines.get(end).is_some_and(joins) {
                end += 1;
            }
        }
        let group = &mut lines[start..end];
        let width = group.iter().filter_map(|l| l.columns.as_ref()).map(|c| c.0.len()).max().unwrap_or(0);
        for line in group {
            if let Some((range, rest)) = line.columns.take() {
                line.text = format!("{} {range:<width$} {rest}", line.text);
            }
        }
        start = end;
    }
}
