//! A page of Markdown as roff: man(7) macros, tables for tbl(1).
//!
//! Rendered are headings, paragraphs, lists, quotations, code and tables; of a link its text, with its address or the
//! page that it leads to. Pictures and HTML are left out: no page has them.

use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::pages::{PAGES, Page};

/// A cell longer than this is broken by tbl.
const LONG_CELL: usize = 24;
/// A word longer than this may not fit a column.
const LONG_WORD: usize = 12;

/// The page in roff.
pub fn page(page: &Page, markdown: &str, date: &str) -> String {
    let (title, body) = title(markdown);
    let name = page.name.to_uppercase();
    let mut out = format!("'\\\" t\n.TH {name} {} {date} \"Ravelin\" \"Ravelin\"\n", page.section);
    if page.section == 7 {
        let title = escape(&references(title), Place::Text);
        out.push_str(&format!(".SH NAME\n{} \\- {title}\n.SH DESCRIPTION\n", escape(page.name, Place::Text)));
    }
    let mut writer = Writer { out, fresh: true, ..Writer::default() };
    for event in Parser::new_ext(body, Options::ENABLE_TABLES) {
        writer.event(event);
    }
    let mut out = writer.out;
    if page.section == 7 {
        out.push_str(".SH SEE ALSO\n.BR ravelin (1),\n.BR ravelin\\-policy (5)\n");
    }
    out
}

/// The heading of the first level, and what comes after it.
fn title(markdown: &str) -> (&str, &str) {
    let (first, rest) = markdown.split_once('\n').unwrap_or((markdown, ""));
    match first.strip_prefix("# ") {
        Some(title) => (title, rest),
        None => ("", markdown),
    }
}

/// The folder where packages put the pages of docs/ that are no manual pages.
const DOCUMENTS: &str = "/usr/share/doc/ravelin/";

/// Text in which files of docs/ are the pages that they become, or stand where packages put them.
fn references(text: &str) -> String {
    let mut text = text.to_owned();
    for page in &PAGES {
        text = text.replace(&format!("docs/{}", page.file), &format!("{}({})", page.name, page.section));
    }
    for folder in ["design/", "papers/"] {
        text = text.replace(&format!("docs/{folder}"), &format!("{DOCUMENTS}{folder}"));
    }
    text
}

/// Where text stands, which decides what must not be changed by a formatter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    /// Code is copied from the page: a hyphen stays the ASCII one, an apostrophe too.
    Code,
}

/// Text that roff prints as it is. A line that would be a request gets a zero-width character in front.
fn escape(text: &str, place: Place) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' if place == Place::Code => out.push_str("\\(aq"),
            '`' if place == Place::Code => out.push_str("\\(ga"),
            '^' if place == Place::Code => out.push_str("\\(ha"),
            '~' if place == Place::Code => out.push_str("\\(ti"),
            c => out.push(c),
        }
    }
    out
}

/// A list that is open: the number of its next item, or none for one with bullets.
type List = Option<u64>;

#[derive(Default)]
struct Writer {
    out: String,
    /// Text of the block that is open.
    line: String,
    /// Nothing was written since a heading or the mark of an item, so that no paragraph macro is needed.
    fresh: bool,
    lists: Vec<List>,
    in_code: bool,
    in_heading: bool,
    /// The address of the link that is open, and where its text starts in `line`.
    link: Option<(String, usize)>,
    table: Option<Table>,
}

#[derive(Default)]
struct Table {
    columns: usize,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    row: Vec<String>,
}

impl Writer {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.line.push_str(&text),
            Event::Text(text) => self.line.push_str(&escape(&references(&text), Place::Text)),
            Event::Code(code) if self.in_heading => self.line.push_str(&escape(&code, Place::Code)),
            Event::Code(code) => {
                let code = escape(&references(&code), Place::Code);
                self.line.push_str(&format!("\\fB{code}\\fR"));
            }
            Event::SoftBreak if self.table.is_some() || self.in_heading => self.line.push(' '),
            Event::SoftBreak => self.line.push('\n'),
            Event::HardBreak => self.line.push_str("\n.br\n"),
            Event::Rule => self.out.push_str(".PP\n* * *\n"),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph if !self.fresh => {
                self.out.push_str(if self.lists.is_empty() { ".PP\n" } else { ".sp\n" });
            }
            Tag::Heading { .. } => {
                self.in_heading = true;
                self.line.clear();
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.in_code = true;
            }
            Tag::List(first) => {
                self.flush();
                if !self.lists.is_empty() {
                    self.out.push_str(".RS 2\n");
                }
                self.lists.push(first);
            }
            Tag::Item => match self.lists.last_mut() {
                Some(Some(number)) => {
                    self.out.push_str(&format!(".IP {number}. 4\n"));
                    *number += 1;
                    self.fresh = true;
                }
                _ => {
                    self.out.push_str(".IP \\(bu 2\n");
                    self.fresh = true;
                }
            },
            Tag::BlockQuote(_) => self.out.push_str(".RS 4\n"),
            Tag::Emphasis if !self.in_heading => self.line.push_str("\\fI"),
            Tag::Strong if !self.in_heading => self.line.push_str("\\fB"),
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.to_string(), self.line.len())),
            Tag::Table(columns) => {
                self.flush();
                let columns: Vec<Alignment> = columns;
                self.table = Some(Table { columns: columns.len(), ..Table::default() });
            }
            Tag::TableCell => self.line.clear(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::CodeBlock => self.code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                if !self.lists.is_empty() {
                    self.out.push_str(".RE\n");
                }
                self.fresh = false;
            }
            TagEnd::Item => self.flush(),
            TagEnd::BlockQuote(_) => {
                self.out.push_str(".RE\n");
                self.fresh = false;
            }
            TagEnd::Emphasis | TagEnd::Strong if !self.in_heading => self.line.push_str("\\fR"),
            TagEnd::Link => self.link(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                self.table.iter_mut().for_each(|table| table.row.push(cell.clone()));
            }
            TagEnd::TableHead => {
                self.table.iter_mut().for_each(|table| table.head = std::mem::take(&mut table.row));
            }
            TagEnd::TableRow => {
                self.table.iter_mut().for_each(|table| {
                    let row = std::mem::take(&mut table.row);
                    table.rows.push(row);
                });
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.out.push_str(&if self.fresh {
                        table.roff()
                    } else {
                        format!(".PP\n{}", table.roff())
                    });
                    self.fresh = false;
                }
            }
            _ => {}
        }
    }

    /// Write the open text as lines of which none is a request.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.line);
        if text.trim().is_empty() {
            return;
        }
        for line in text.lines() {
            self.out.push_str(&plain_line(line.trim()));
            self.out.push('\n');
        }
        self.fresh = false;
    }

    fn heading(&mut self, level: HeadingLevel) {
        let text = std::mem::take(&mut self.line);
        self.in_heading = false;
        // A page of section 7 is one section with subsections; the others have the sections of a manual page.
        match level {
            HeadingLevel::H1 | HeadingLevel::H2 => {
                self.out.push_str(&format!(".SH {}\n", text.to_uppercase()))
            }
            _ => self.out.push_str(&format!(".SS {text}\n")),
        }
        self.fresh = true;
    }

    fn code(&mut self) {
        let code = std::mem::take(&mut self.line);
        self.in_code = false;
        if !self.fresh {
            self.out.push_str(".PP\n");
        }
        self.out.push_str(".RS 4\n.nf\n");
        for line in references(code.trim_end()).lines() {
            self.out.push_str(&plain_line(&escape(line, Place::Code)));
            self.out.push('\n');
        }
        self.out.push_str(".fi\n.RE\n");
        self.fresh = false;
    }

    /// Close a link: its address, where the text does not say it already.
    fn link(&mut self) {
        let Some((address, start)) = self.link.take() else { return };
        let text = self.line.get(start..).unwrap_or_default().to_owned();
        if address.contains("://") {
            let address = escape(&address, Place::Code);
            if !text.contains(&address) {
                self.line.push_str(&format!(" <{address}>"));
            }
            return;
        }
        let file = address.split('#').next().unwrap_or_default().trim_start_matches("../");
        let target =
            PAGES.iter().find(|page| page.file == file || page.file.strip_prefix("man/") == Some(file));
        if let Some(target) = target {
            let name = format!("{}({})", escape(target.name, Place::Text), target.section);
            // A text that is the file itself gives way to the page.
            if text.contains(&escape(file, Place::Code)) {
                self.line.truncate(start);
                self.line.push_str(&name);
            } else if !text.contains(&name) {
                self.line.push_str(&format!(" ({name})"));
            }
        }
    }
}

/// A line that roff takes as text.
fn plain_line(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

impl Table {
    fn roff(&self) -> String {
        let layout = |word: &str| {
            let mut columns = vec![word.to_owned(); self.columns];
            if let Some(last) = columns.last_mut() {
                last.push('x');
            }
            columns.join(" ")
        };
        let mut out = format!(".ad l\n.TS\ntab(\t) nospaces;\n{}\n{}.\n", layout("lb"), layout("l"));
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
            out.push_str(&cells.join("\t"));
            out.push('\n');
        }
        out.push_str(".TE\n");
        out
    }
}

/// The text of a cell, as a block of its own where it is long. A long word may be broken behind its signs.
fn cell(text: &str) -> String {
    let text = text.trim();
    if text.len() <= LONG_CELL {
        return plain_line(text);
    }
    let breakable = |word: &str| match word.len() > LONG_WORD {
        true => word
            .replace('/', "/\\:")
            .replace('_', "_\\:")
            .replace(',', ",\\:")
            .replace('|', "|\\:")
            .replace('=', "=\\:"),
        false => word.to_owned(),
    };
    let words: Vec<String> = text.split(' ').map(breakable).collect();
    format!("T{{\n{}\nT}}", plain_line(&words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = Page { file: "x.md", name: "ravelin-x", section: 7 };

    fn body(markdown: &str) -> String {
        let whole = page(&PAGE, &format!("# About x\n{markdown}"), "2026-01-02");
        let (_, body) = whole.split_once(".SH DESCRIPTION\n").unwrap();
        body.strip_suffix(".SH SEE ALSO\n.BR ravelin (1),\n.BR ravelin\\-policy (5)\n").unwrap().to_owned()
    }

    #[test]
    fn the_head_names_page_section_and_date() {
        let whole = page(&PAGE, "# About x\n\nText.\n", "2026-01-02");
        let head = "'\\\" t\n.TH RAVELIN-X 7 2026-01-02 \"Ravelin\" \"Ravelin\"\n.SH NAME\nravelin\\-x \\- About x\n";
        assert!(whole.starts_with(head), "{whole}");
    }

    #[test]
    fn nothing_in_a_text_is_a_request() {
        assert_eq!(
            body("\n.one\n'two\na\\b `-x 'y'`\n"),
            "\\&.one\n\\&'two\na\\eb \\fB\\-x \\(aqy\\(aq\\fR\n"
        );
        assert_eq!(body("\n```\n.TH x\n'a\n```\n"), ".RS 4\n.nf\n\\&.TH x\n\\(aqa\n.fi\n.RE\n");
    }

    #[test]
    fn blocks_follow_one_another() {
        assert_eq!(
            body("\nOne.\n\nTwo.\n\n## Head `x`\n\n- a\n- b\n\n1. c\n"),
            "One.\n.PP\nTwo.\n.SH HEAD X\n.IP \\(bu 2\na\n.IP \\(bu 2\nb\n.IP 1. 4\nc\n"
        );
    }

    #[test]
    fn links_to_pages_become_their_names() {
        assert_eq!(
            body("\n[the rules](scrub.md#a), docs/firewall.md\n"),
            "the rules (ravelin\\-scrub(7)), ravelin\\-firewall(7)\n"
        );
        assert_eq!(body("\n[there](https://example.com/a)\n"), "there <https://example.com/a>\n");
    }

    #[test]
    fn files_of_the_repository_are_named_where_an_installed_host_has_them() {
        let page =
            body("See docs/design/0014 and [docs/pmtu.md](../pmtu.md).\n\n```sh\ncat docs/gateway.md\n```\n");
        assert!(page.contains("/usr/share/doc/ravelin/design/0014"), "{page}");
        assert!(page.contains("ravelin\\-pmtu(7)") && page.contains("ravelin\\-gateway(7)"), "{page}");
        assert!(!page.contains(" docs/"), "{page}");
    }

    #[test]
    fn a_long_cell_is_a_block() {
        let table = body("\n| a | b |\n|---|---|\n| x | a cell that is longer than a column |\n");
        assert_eq!(
            table,
            ".ad l\n.TS\ntab(\t) nospaces;\nlb lbx\nl lx.\na\tb\nx\tT{\na cell that is longer than a column\nT}\n.TE\n"
        );
    }
}
