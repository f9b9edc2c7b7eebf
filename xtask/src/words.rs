//! Doc comments that cannot be read alone, and long lines of prose: a list, and a limit for each room that only falls.
//!
//! What enters: the Rust and Markdown files that Git tracks. What leaves: each doc comment (`///`, `//!`) whose first
//! sentence has fewer than [`FEWEST`] words or begins with one of [`HANGING`], each line of prose in Markdown that is
//! longer than [`COLUMNS`], and both counts for each room. The task fails where a room has more than [`ALLOWED`] says,
//! and where names of files or types are not those of the house (`names.rs`).

mod names;

use crate::house::House;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A first sentence with fewer words than this is taken for a fragment.
const FEWEST: usize = 4;

/// First words of sentences that hang on the item or the line above.
const HANGING: &[&str] = &["Of", "As", "By", "Whose"];

/// The longest line of prose that a Markdown file may have, in characters.
const COLUMNS: usize = 120;

/// The most that each room may have: doc comments, and lines of prose. A room that is not here may have none. Lower a
/// number when the count has fallen, and never raise one.
const ALLOWED: &[(&str, Counts)] = &[];

/// The number of findings of each kind in one room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    comments: usize,
    prose: usize,
}

/// One doc comment or one line of prose that should be written anew.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// The line where the text begins, counted from 1.
    line: usize,
    text: String,
}

/// Print every finding and the counts of each room. The answer is whether every room keeps within [`ALLOWED`].
pub fn run() -> Result<bool> {
    let root = House::survey()?.root;
    let mut rooms: BTreeMap<String, Counts> = BTreeMap::new();
    let mut named = names::Names::default();
    for path in tracked(&root)? {
        // A file that is deleted and not yet committed is still tracked.
        if !root.join(&path).is_file() {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        let counts = rooms.entry(room(&path).to_string()).or_default();
        if path.ends_with(".rs") {
            named.add(&path, &text);
        }
        let findings = if path.ends_with(".rs") { comments(&text) } else { prose(&text) };
        for Finding { line, text } in &findings {
            println!("{path}:{line}: {text}");
        }
        let kind = if path.ends_with(".rs") { &mut counts.comments } else { &mut counts.prose };
        *kind += findings.len();
    }
    println!("\n{:<12} {:>8} {:>8} {:>8} {:>8}", "room", "comments", "allowed", "prose", "allowed");
    for (room, found) in &rooms {
        let most = allowed(room);
        let Counts { comments, prose } = found;
        println!("{room:<12} {comments:>8} {:>8} {prose:>8} {:>8}", most.comments, most.prose);
    }
    let mut refusals: Vec<_> =
        rooms.iter().flat_map(|(room, found)| refusals(room, *found, allowed(room))).collect();
    let list = root.join(names::FILE);
    let list = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    refusals.extend(names::Allowed::parse(&list)?.refusals(&named));
    refusals.iter().for_each(|refusal| eprintln!("error: {refusal}"));
    Ok(refusals.is_empty())
}

/// The paths of the Rust and Markdown files that Git tracks, relative to the root.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z", "--", "*.rs", "*.md"]);
    let output = git.output().context("cannot run `git ls-files`")?;
    if !output.status.success() {
        bail!("`git ls-files` failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8(output.stdout).context("a tracked file's name is not UTF-8")?;
    Ok(text.split_terminator('\0').map(str::to_string).collect())
}

/// The room that a path belongs to: the folder below `crates`, else the first folder, else `.`.
fn room(path: &str) -> &str {
    let inner = path.strip_prefix("crates/").unwrap_or(path);
    inner.split_once('/').map_or(".", |(first, _)| first)
}

/// The row of [`ALLOWED`] for this room, or none of either kind.
fn allowed(room: &str) -> Counts {
    ALLOWED.iter().find(|(name, _)| *name == room).map(|(_, counts)| *counts).unwrap_or_default()
}

/// One sentence for each kind of which a room has more than is allowed.
fn refusals(room: &str, found: Counts, most: Counts) -> Vec<String> {
    let mut refusals = Vec::new();
    if found.comments > most.comments {
        refusals.push(format!(
            "room `{room}` has {} doc comments that cannot be read alone, {} allowed: begin each with a whole \
             sentence, or a noun phrase of {FEWEST} words",
            found.comments, most.comments
        ));
    }
    if found.prose > most.prose {
        refusals.push(format!(
            "room `{room}` has {} lines of prose beyond {COLUMNS} columns, {} allowed: break them",
            found.prose, most.prose
        ));
    }
    refusals
}

/// The marker that a line of doc comment begins with, and its text.
fn doc(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    // Four slashes are a plain comment.
    if line.starts_with("////") {
        return None;
    }
    ["///", "//!"].into_iter().find_map(|marker| Some((marker, line.strip_prefix(marker)?)))
}

/// The doc comments of a Rust file that should be written anew. Lines of the same marker are one comment, also where
/// attributes stand between them, as for rustdoc.
fn comments(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut lines: Vec<(usize, &str)> = Vec::new();
    let mut marker = None;
    let mut depth = 0_i32;
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if depth == 0
            && let Some((its, text)) = doc(line)
        {
            if marker != Some(its) {
                found.extend(judge(&lines));
                lines.clear();
                marker = Some(its);
            }
            lines.push((index + 1, text));
        } else if marker.is_some() && (depth > 0 || code.starts_with("#[") || code.starts_with("#![")) {
            depth += brackets(code);
        } else {
            found.extend(judge(&lines));
            lines.clear();
            (marker, depth) = (None, 0);
        }
    }
    found.extend(judge(&lines));
    found
}

/// The number of brackets that a line opens and does not close.
fn brackets(code: &str) -> i32 {
    code.bytes().fold(0, |depth, byte| match byte {
        b'[' => depth + 1,
        b']' => depth - 1,
        _ => depth,
    })
}

/// What is wrong with the first sentence of a doc comment's numbered lines, if anything.
fn judge(lines: &[(usize, &str)]) -> Option<Finding> {
    let (first, _) = lines.first()?;
    let (line, sentence) = first_sentence(lines).unwrap_or((*first, String::new()));
    let words = words(&sentence);
    let hangs = words.first().is_some_and(|word| HANGING.contains(&word.as_str()));
    (words.len() < FEWEST || hangs).then_some(Finding { line, text: sentence })
}

/// The first sentence outside of code blocks and headings, with the number of its first line. A blank line, a heading,
/// a code block and the next item of a list end a sentence as a full stop does.
fn first_sentence(lines: &[(usize, &str)]) -> Option<(usize, String)> {
    let mut fence = None;
    let mut start = None;
    let mut paragraph = String::new();
    for (number, text) in lines {
        let text = text.trim();
        let was_code = fence.is_some();
        fence = after(fence, text);
        let apart = was_code || fence.is_some() || text.is_empty() || is_heading(text);
        if apart || (start.is_some() && is_item(text)) {
            if start.is_some() {
                break;
            }
            continue;
        }
        start.get_or_insert(*number);
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(text);
    }
    let end = sentence_end(&paragraph);
    paragraph.truncate(end);
    Some((start?, paragraph))
}

/// The characters that fence a code block, or nothing outside of one, after this line.
fn after(fence: Option<&'static str>, line: &str) -> Option<&'static str> {
    match fence {
        Some(fence) if line.starts_with(fence) => None,
        Some(fence) => Some(fence),
        None => ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence)),
    }
}

/// Whether a trimmed line is a Markdown heading.
fn is_heading(line: &str) -> bool {
    line.starts_with('#') && line.trim_start_matches('#').starts_with([' ', '\t'])
}

/// Whether a trimmed line begins an item of a list.
fn is_item(line: &str) -> bool {
    line.starts_with("- ") || line.starts_with("* ")
}

/// Where the first sentence of a paragraph ends, in octets: behind a full stop, question or exclamation mark that
/// stands at the end, or before a space and no small letter. What is in backticks ends nothing.
fn sentence_end(paragraph: &str) -> usize {
    let mut in_code = false;
    for (at, c) in paragraph.char_indices() {
        if c == '`' {
            in_code = !in_code;
        }
        if in_code || !matches!(c, '.' | '!' | '?') {
            continue;
        }
        let end = at + 1;
        let rest = paragraph.get(end..).unwrap_or_default();
        let next = rest.trim_start().chars().next();
        let begins = rest.starts_with(' ') && next.is_some_and(|next| !next.is_lowercase());
        let shortened =
            [" e.g.", " i.e.", " cf.", " vs."].iter().any(|word| paragraph[..end].ends_with(word));
        if next.is_none() || (begins && !shortened) {
            return end;
        }
    }
    paragraph.len()
}

/// The words of a sentence. A span in backticks is one word; a sign between words, like a dash, is none.
fn words(sentence: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut in_code = false;
    for c in sentence.chars() {
        in_code ^= c == '`';
        if c.is_whitespace() && !in_code {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let bare = words.iter().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`'));
    bare.filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// The lines of a Markdown file that are too long, outside of code blocks and tables.
fn prose(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut fence = None;
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        let was_code = fence.is_some();
        fence = after(fence, bare);
        let apart = was_code || fence.is_some() || bare.starts_with('|');
        if !apart && line.chars().count() > COLUMNS {
            found.push(Finding { line: index + 1, text: line.to_string() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(comments: usize, prose: usize) -> Counts {
        Counts { comments, prose }
    }

    fn found(text: &str) -> Vec<(usize, String)> {
        comments(text).into_iter().map(|finding| (finding.line, finding.text)).collect()
    }

    #[test]
    fn a_first_sentence_is_found_and_judged() {
        let table = [
            ("/// Octets.\nfn a() {}", "Octets."),
            ("//! The room. It is the largest of all.", "The room."),
            ("/// The number of octets.", ""),
            ("/// As the other one does it.", "As the other one does it."),
            ("/// Assembled from four parts.", ""),
            ("/// Whose key this is, or nobody's.", "Whose key this is, or nobody's."),
            ("/// By name, in the order of the list.", "By name, in the order of the list."),
            ("/// Of `a`, all four octets.", "Of `a`, all four octets."),
            ("/// Three words -", "Three words -"),
            ("/// One code span: `a b c d`.", ""),
            ("/// Code spans: `a b c d`.", "Code spans: `a b c d`."),
            ("/// See `a. B`, e.g. Section 4 there.", ""),
            ("/// RFC 4303 section 3.4.3 says how.", ""),
            ("//// Four slashes.\n// Two slashes.\nlet a = 1; /// behind code", ""),
        ];
        for (text, want) in table {
            let found = found(text);
            assert_eq!(found.iter().map(|(_, text)| text.as_str()).collect::<String>(), want, "{text}");
            assert!(found.iter().all(|(line, _)| *line == 1), "{text}");
        }
    }

    #[test]
    fn consecutive_lines_are_one_comment() {
        assert_eq!(found("/// The number of\n/// octets. These\n/// count.\nx: u8,"), []);
        let apart = "/// The field.\n    x: u8,\n    /// Another\n    /// field.\n    y: u8,\n";
        assert_eq!(found(apart), [(1, "The field.".into()), (3, "Another field.".into())]);
        assert_eq!(
            found("//! A module that does something.\n/// Its start.\nfn a() {}"),
            [(2, "Its start.".into())],
            "another marker is another comment"
        );
        assert_eq!(found("/// A title\n///\n/// The text that is below it."), [(1, "A title".into())]);
        assert_eq!(found("/// Two ways:\n/// - the first one;\n/// - the other."), [(1, "Two ways:".into())]);
    }

    #[test]
    fn attributes_between_do_not_part_a_comment() {
        assert_eq!(found("/// The number of\n#[serde(default)]\n/// octets there."), []);
        let attribute =
            "/// The number\n#[cfg(any(\n    feature = \"a\", // [b]\n))]\n/// of octets.\nx: u8,";
        assert_eq!(found(attribute), []);
        assert_eq!(
            found("/// Short.\n#[test]\nfn a() {}\n/// Shorter."),
            [(1, "Short.".into()), (4, "Shorter.".into())]
        );
    }

    #[test]
    fn code_blocks_and_headings_are_no_text() {
        let code = "/// ```\n/// one. Two.\n///\n/// # three\n/// ```\n/// The text that is below.";
        assert_eq!(found(code), []);
        assert_eq!(
            found("/// The text:\n/// ~~~text\n/// one two three\n/// ~~~"),
            [(1, "The text:".into())]
        );
        assert_eq!(
            found("/// ```\n/// one two three four\n/// ```"),
            [(1, String::new())],
            "nothing but code"
        );
        assert_eq!(found("/// # Errors\n/// Fails.\nfn a() {}"), [(2, "Fails.".into())]);
        assert_eq!(
            found("/// Reads it.\n///\n/// # Errors\n/// Whatever the kernel says."),
            [(1, "Reads it.".into())]
        );
        assert_eq!(found("/// The sum of all\n/// # Errors\n/// these four."), []);
    }

    #[test]
    fn long_prose_is_found_outside_of_code_and_tables() {
        let long = "é".repeat(COLUMNS + 1);
        let text = format!(
            "{long}\n| {long} |\n```sh\n{long}\n```\n{}\n  ~~~\n{long}\n  ~~~\n{long}",
            "é".repeat(COLUMNS)
        );
        assert_eq!(prose(&text).iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 10]);
    }

    #[test]
    fn a_room_may_not_have_more_than_its_row_says() {
        assert_eq!(room("crates/wire/src/lib.rs"), "wire");
        assert_eq!(room("tests/src/lib.rs"), "tests");
        assert_eq!(room("README.md"), ".");
        assert_eq!(refusals("a", counts(2, 1), counts(2, 1)), Vec::<String>::new());
        assert_eq!(refusals("a", counts(3, 0), counts(2, 1)).len(), 1);
        assert_eq!(refusals("a", counts(3, 2), counts(2, 1)).len(), 2);
        assert_eq!(allowed("a room that is not there"), Counts::default());
    }
}
