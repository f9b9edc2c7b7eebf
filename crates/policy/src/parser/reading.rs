//! Reading of a policy text, by itself or over the policy that was loaded before (docs/design/0021).

use std::sync::Arc;

use super::Parser;
use crate::ast::Span;
use crate::diagnostic::{Code, Diagnostic, Sink};
use crate::host::{Host, NoHost};
use crate::parsed::{Parsed, TestCounts};
use crate::tree::Tree;
use crate::unit::PlacedBlock;
use crate::{Compiled, MAX_TEXT, check, expectations, recognise};

/// Reads a policy as [`parse_for`] does, for a host of which nothing is known: users are numbers, and no unit has a
/// file.
pub fn parse(file: &str, text: &str) -> Parsed {
    parse_for(file, text, &NoHost)
}

/// Reads a policy for a host, and runs its tests. It never fails: what is wrong is in [`Parsed::diagnostics`], what is
/// sound in [`Parsed::blocks`].
pub fn parse_for(file: &str, text: &str, host: &dyn Host) -> Parsed {
    if text.len() > MAX_TEXT {
        return too_long(file, text.len());
    }
    read(file, &text.into(), host, true, None)
}

/// Reads a policy as [`parse_bytes_for`] does, for a caller that loads it over another. There is no tree, and blocks
/// that stand in the text of `before` as they stand in this one are not read again. Everything else is as if they were,
/// except the places in them ([`PlacedBlock::place`]).
pub fn parse_over(file: &str, bytes: &[u8], host: &dyn Host, before: &Compiled) -> Parsed {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.len() > MAX_TEXT => return too_long(file, text.len()),
        Ok(text) => Arc::from(text),
        Err(error) => return not_text(file, bytes, error.valid_up_to()),
    };
    read(file, &text, host, false, Some(before))
}

/// Reads a text over the earlier policy. With an error, or with a block that cannot be taken over after all, it is read
/// as if there were none.
fn read(file: &str, text: &Arc<str>, host: &dyn Host, with_tree: bool, before: Option<&Compiled>) -> Parsed {
    let known = before.map_or_else(Vec::new, |before| recognise::recognise(text, &before.rules));
    let over = before.filter(|_| !known.is_empty());
    let parsed = read_over(file, text, host, with_tree, &known, over);
    // What was read in vain is gone by now.
    parsed.unwrap_or_else(|| read(file, text, host, with_tree, None))
}

/// Reads a text over what is known. `None` if what is known of the earlier text does not fit this one, or there is an
/// error. That happens only where something is known.
fn read_over(
    file: &str,
    text: &Arc<str>,
    host: &dyn Host,
    with_tree: bool,
    known: &[PlacedBlock],
    before: Option<&Compiled>,
) -> Option<Parsed> {
    let in_vain = |fits: bool, sink: &Sink| before.is_some() && (!fits || sink.has_errors());
    let mut sink = Sink::default();
    let mut parser = Parser::new(text, known, with_tree, &mut sink, host);
    parser.file();
    if let Some(full) = parser.full.take() {
        let mut sink = Sink::default();
        sink.push(full);
        let diagnostics = sink.finish(file, text);
        return before.is_none().then(|| Parsed::nothing(file, Arc::clone(text), diagnostics));
    }
    let takes_all = parser.takes_all();
    let Parser { candidates, shared, tests, test_errors, syntax, tree, stream, .. } = parser;
    let tree = stream.leaves().map_or_else(Tree::default, |leaves| tree.finish(leaves));
    let top = (!shared.iter().any(|own| own.broken))
        .then(|| shared.iter().map(|own| own.protection.span.of(text).to_owned()).collect());
    let fits = before.is_none_or(|before| {
        before.syntax == syntax
            && (before.top == top || !known.iter().any(|placed| placed.unit.has_protections()))
    });
    if in_vain(takes_all && fits, &sink) {
        return None;
    }
    let checked = check::policy(candidates, shared, &mut sink, host, text);
    if in_vain(checked.fits, &sink) {
        return None;
    }
    let mut parsed = Parsed {
        syntax,
        protections: checked.protections,
        blocks: checked.blocks,
        broken: checked.broken,
        tests,
        tested: TestCounts { failed: test_errors, ..TestCounts::default() },
        tree,
        top,
        ..Parsed::nothing(file, Arc::clone(text), Vec::new())
    };
    expectations::run(&mut parsed, &mut sink);
    if in_vain(true, &sink) {
        return None;
    }
    parsed.diagnostics = sink.finish(file, text);
    Some(parsed)
}

fn too_long(file: &str, octets: usize) -> Parsed {
    let mut sink = Sink::default();
    let message = format!("the policy is {octets} octets long; at most {MAX_TEXT} are read");
    sink.push(
        Diagnostic::new(Code::TooLong, Span::default(), message)
            .label("nothing of it was read")
            .help("use prefixes and lists of applications instead of one line per host or program"),
    );
    Parsed::nothing(file, "".into(), sink.finish(file, ""))
}

/// The tree of a text; `None` if it is too long to be read.
pub(crate) fn tree(text: &str) -> Option<Tree> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let mut sink = Sink::default();
    let mut parser = Parser::new(text, &[], true, &mut sink, &NoHost);
    parser.file();
    let Parser { full, tree, stream, .. } = parser;
    stream.leaves().filter(|_| full.is_none()).map(|leaves| tree.finish(leaves))
}

/// Reads a policy as [`parse`] does, from octets that may not be text.
pub fn parse_bytes(file: &str, bytes: &[u8]) -> Parsed {
    parse_bytes_for(file, bytes, &NoHost)
}

/// Reads a policy as [`parse_for`] does, from octets that may not be text.
pub fn parse_bytes_for(file: &str, bytes: &[u8], host: &dyn Host) -> Parsed {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_for(file, text, host),
        Err(error) => not_text(file, bytes, error.valid_up_to()),
    }
}

fn not_text(file: &str, bytes: &[u8], good: usize) -> Parsed {
    let good = bytes.get(..good.min(MAX_TEXT)).unwrap_or_default();
    let text = String::from_utf8_lossy(good);
    let at = Span { start: text.len() as u32, end: text.len() as u32 };
    let mut sink = Sink::default();
    sink.push(
        Diagnostic::new(Code::NotUtf8, at, "the octets here are not UTF-8 text")
            .label("behind this place")
            .help("save the file as UTF-8; check that it is a policy at all"),
    );
    let diagnostics = sink.finish(file, &text);
    Parsed::nothing(file, text.into(), diagnostics)
}
