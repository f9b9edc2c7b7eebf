//! An open document: its text as the client edits it, and what the policy room says of it.

use crypto::Suites;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent};
use policy::{AppTable, Compiled, Parsed, Span};
use qos::graph::Aggregates;

/// The longest text that is kept, in octets. All of it is read at each change, so longer ones, which only programs write, are for
/// `ravelin policy check`.
pub const MAX_DOCUMENT: usize = 8 << 20;

/// What a client counts in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The client counts octets.
    Utf8,
    /// The client counts units of 16 bits, which every client knows.
    Utf16,
}

impl Encoding {
    /// What the octets of a text count for; those that continue a character for nothing.
    fn units(self, octets: &[u8]) -> usize {
        let unit = |octet: &u8| match (self, octet) {
            (Encoding::Utf8, _) | (_, ..0x80 | 0xc0..0xf0) => 1,
            (Encoding::Utf16, 0x80..0xc0) => 0,
            (Encoding::Utf16, 0xf0..) => 2,
        };
        octets.iter().map(unit).sum()
    }
}

/// Octets between places whose count is kept, so that a place is found at once however long a line is.
const BLOCK: usize = 256;

/// A text and where its lines start. Lines end with `\n`, `\r\n` or `\r`, as LSP has it.
#[derive(Debug)]
pub struct Text {
    text: String,
    starts: Vec<usize>,
    /// Units before each block.
    sums: Vec<usize>,
    encoding: Encoding,
}

impl Text {
    pub fn new(text: String, encoding: Encoding) -> Text {
        let octets = text.as_bytes();
        let ends = octets.iter().enumerate().filter(|(at, octet)| match octet {
            b'\n' => true,
            b'\r' => octets.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        let sum = |sum: &mut usize, block| {
            *sum += encoding.units(block);
            Some(*sum)
        };
        let sums = std::iter::once(0).chain(octets.chunks(BLOCK).scan(0, sum)).collect();
        Text { text, starts, sums, encoding }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Units before an octet.
    fn units(&self, offset: usize) -> usize {
        let block = (offset / BLOCK).min(self.sums.len() - 1);
        let rest = self.text.as_bytes().get(block * BLOCK..offset).unwrap_or_default();
        self.sums[block] + self.encoding.units(rest)
    }

    /// The octet of a place; one behind a line's end is the line's end, one behind the last line the text's.
    pub fn offset(&self, at: Position) -> usize {
        let line = at.line as usize;
        let Some(start) = self.starts.get(line).copied() else { return self.text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        let written = self.text.get(start..end).unwrap_or("").trim_end_matches(['\r', '\n']);
        let end = start + written.len();
        let wanted = self.units(start) + at.character as usize;
        if wanted >= self.units(end) {
            return end;
        }
        let block = self.sums.partition_point(|sum| *sum <= wanted).saturating_sub(1);
        let mut units = self.sums[block];
        let mut offset = block * BLOCK;
        for octet in self.text.as_bytes().get(offset..end).unwrap_or_default() {
            units += self.encoding.units(std::slice::from_ref(octet));
            if units > wanted {
                break;
            }
            offset += 1;
        }
        self.boundary(offset)
    }

    /// A place inside a character is in front of it.
    fn boundary(&self, mut offset: usize) -> usize {
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    /// The place of an octet.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.boundary(offset.min(self.text.len()));
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        Position { line: line as u32, character: (self.units(offset) - self.units(start)) as u32 }
    }

    pub fn range(&self, span: Span) -> Range {
        Range { start: self.position(span.start as usize), end: self.position(span.end as usize) }
    }

    /// The range of the whole text.
    pub fn whole(&self) -> Range {
        Range { start: Position::default(), end: self.position(self.text.len()) }
    }

    /// The text with some edits made, one behind the other; `None`: it is too long then.
    pub fn edited(&self, changes: Vec<TextDocumentContentChangeEvent>) -> Option<Text> {
        let mut changes = changes.into_iter();
        let mut out = self.one_edit(changes.next()?)?;
        for change in changes {
            out = out.one_edit(change)?;
        }
        Some(out)
    }

    fn one_edit(&self, change: TextDocumentContentChangeEvent) -> Option<Text> {
        let text = match change.range {
            None => change.text,
            Some(range) => {
                let start = self.offset(range.start);
                let end = self.offset(range.end).max(start);
                let (before, after) = (self.text.get(..start)?, self.text.get(end..)?);
                [before, &change.text, after].concat()
            }
        };
        (text.len() <= MAX_DOCUMENT).then(|| Text::new(text, self.encoding))
    }
}

/// What the policy room says of a text.
pub struct Analysis {
    pub parsed: Parsed,
    pub compiled: Compiled,
    /// The suites that the text may name.
    pub suites: Suites,
    /// The classes that the text may name.
    pub classes: Aggregates,
}

/// A document that the client has open.
pub struct Document {
    pub version: i32,
    /// `None`: it became too long, and is not followed until the client sends all of it again.
    pub text: Option<Text>,
    analysis: Option<Analysis>,
    /// Whether the document's diagnostics are yet to be sent.
    pub dirty: bool,
}

impl Document {
    pub fn new(version: i32, text: Option<Text>) -> Document {
        Document { version, text, analysis: None, dirty: true }
    }

    /// The text as of now and what is said of it.
    pub fn analysed(
        &mut self,
        name: &str,
        suites: &Suites,
        classes: &Aggregates,
    ) -> Option<(&Text, &Analysis)> {
        let text = self.text.as_ref()?;
        let analysis = self.analysis.get_or_insert_with(|| {
            let host = host_files::HostFiles::here(suites, classes);
            let parsed = policy::parse_for(name, text.as_str(), &host);
            let compiled = policy::compile(&parsed, &mut AppTable::new(), 1);
            Analysis { parsed, compiled, suites: suites.clone(), classes: classes.clone() }
        });
        Some((text, analysis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &Text, from: (u32, u32), to: (u32, u32), new: &str) -> Text {
        let position = |(line, character)| Position { line, character };
        let range = Some(Range { start: position(from), end: position(to) });
        text.edited(vec![TextDocumentContentChangeEvent { range, range_length: None, text: new.into() }])
            .unwrap()
    }

    #[test]
    fn places_and_octets() {
        // A lock is two units of UTF-16 and four octets.
        let written = "a\u{1f512}b\r\nc\u{e9}\rd\n";
        for (encoding, b) in [(Encoding::Utf16, 3), (Encoding::Utf8, 5)] {
            let text = Text::new(written.into(), encoding);
            assert_eq!(text.position(5), Position { line: 0, character: b });
            assert_eq!(text.offset(Position { line: 0, character: b }), 5);
            // Inside the lock; behind the line; behind the text.
            assert_eq!(text.offset(Position { line: 0, character: 2 }), 1);
            assert_eq!(text.offset(Position { line: 0, character: 99 }), 6);
            assert_eq!(text.offset(Position { line: 99, character: 0 }), written.len());
            assert_eq!(text.offset(Position { line: 2, character: 0 }), written.find('d').unwrap());
            let letters = written.char_indices().filter(|(_, c)| !c.is_control());
            for (offset, c) in letters {
                assert_eq!(text.offset(text.position(offset)), offset, "{c}");
            }
        }
    }

    #[test]
    fn edits() {
        let text = Text::new("\u{1f512}abc\nx".into(), Encoding::Utf16);
        assert_eq!(edit(&text, (0, 2), (0, 3), "Z").as_str(), "\u{1f512}Zbc\nx");
        assert_eq!(edit(&text, (0, 5), (1, 0), "").as_str(), "\u{1f512}abcx");
        assert_eq!(edit(&text, (9, 9), (0, 0), "!").as_str(), "\u{1f512}abc\nx!");
    }
}
