//! From what the policy room says of a text to what an editor shows.

use lsp_types::{
    CodeAction, CodeActionKind, CompletionItem, CompletionItemKind, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, DocumentSymbol, Hover, HoverContents, Location, MarkupContent, MarkupKind,
    NumberOrString, Range, SymbolKind, TextEdit, Uri, WorkspaceEdit,
};
use policy::tree::{NodeKind, Tree};
use policy::{Kind, Parsed, Severity, Span};
use std::collections::HashMap;

use super::document::{Analysis, Text};

/// The most symbols of a document that are shown.
const MAX_SYMBOLS: usize = 20_000;

/// What is wrong, as `ravelin policy check` says it.
pub fn diagnostics(uri: &Uri, text: &Text, analysis: &Analysis) -> Vec<Diagnostic> {
    analysis.parsed.diagnostics.iter().map(|found| diagnostic(uri, text, found)).collect()
}

fn diagnostic(uri: &Uri, text: &Text, found: &policy::Diagnostic) -> Diagnostic {
    let related = found.related.iter().map(|related| DiagnosticRelatedInformation {
        location: Location { uri: uri.clone(), range: text.range(related.span) },
        message: related.message.clone(),
    });
    let message = match found.help.as_str() {
        "" => found.message.clone(),
        help => format!("{}\nhelp: {help}", found.message),
    };
    Diagnostic {
        range: text.range(found.span),
        severity: Some(match found.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Note => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(found.code.to_string())),
        source: Some("ravelin".into()),
        message,
        related_information: Some(related.collect()).filter(|list: &Vec<_>| !list.is_empty()),
        ..Diagnostic::default()
    }
}

/// Mechanical remedies for what is wrong in a range.
#[allow(clippy::mutable_key_type, reason = "the protocol's own type has a URI as key")]
pub fn fixes(uri: &Uri, text: &Text, analysis: &Analysis, range: Range) -> Vec<CodeAction> {
    let touched = |found: &&policy::Diagnostic| {
        let place = text.range(found.span);
        place.start <= range.end && range.start <= place.end
    };
    let fix = |found: &policy::Diagnostic| {
        let (span, new_text) = found.fix()?;
        let title = match (span.start == span.end, new_text.trim()) {
            (true, sign) => format!("Write `{sign}` here"),
            (false, word) => format!("Write `{word}`"),
        };
        let edit = TextEdit { range: text.range(span), new_text };
        Some(CodeAction {
            title,
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![diagnostic(uri, text, found)]),
            edit: Some(WorkspaceEdit::new(HashMap::from([(uri.clone(), vec![edit])]))),
            is_preferred: Some(true),
            ..CodeAction::default()
        })
    };
    analysis.parsed.diagnostics.iter().filter(touched).filter_map(fix).collect()
}

/// What the statement at an octet means; `live` counts the flows it decides, where a daemon told of any.
pub fn hover(
    text: &Text,
    analysis: &Analysis,
    offset: usize,
    live: impl FnOnce(&policy::Meaning) -> Option<usize>,
) -> Option<Hover> {
    let meaning = policy::meaning(&analysis.parsed, &analysis.compiled, offset)?;
    let mut value = format!("```ravelin\n{}\n```\n", meaning.title.replace('`', "'"));
    for line in &meaning.lines {
        value.push_str("- ");
        value.push_str(&escaped(line));
        value.push('\n');
    }
    if let Some(count) = live(&meaning) {
        let (flows, match_) = if count == 1 { ("flow", "matches") } else { ("flows", "match") };
        value.push_str(&format!("\n{count} live {flows} {match_}\n"));
    }
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(text.range(meaning.span)) })
}

/// Text as Markdown that shows it; backquotes stay what they are.
fn escaped(line: &str) -> String {
    line.chars().flat_map(|c| "<>*_[]\\".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Where the protection is defined whose name stands at an octet.
pub fn definition(tree: &Tree, text: &str, offset: usize) -> Option<Span> {
    let node = named_at(tree, offset)?;
    match tree.nodes().get(node)?.kind {
        NodeKind::Definition => Some(tree.span(node)),
        _ => defined_by(tree, text, node),
    }
}

/// Every place that names the protection whose name stands at an octet, its definition first if that is asked for.
pub fn references(tree: &Tree, text: &str, offset: usize, with_definition: bool) -> Vec<Span> {
    let Some(definition) = definition(tree, text, offset) else { return Vec::new() };
    let name = name(definition.of(text));
    let uses = (0..tree.nodes().len()).filter(|node| {
        tree.nodes()[*node].kind == NodeKind::Reference
            && self::name(tree.span(*node).of(text)) == name
            && defined_by(tree, text, *node) == Some(definition)
    });
    with_definition.then_some(definition).into_iter().chain(uses.map(|node| tree.span(node))).collect()
}

fn named_at(tree: &Tree, offset: usize) -> Option<usize> {
    let node = tree.at(offset);
    let is_name = |node: usize| matches!(tree.nodes()[node].kind, NodeKind::Definition | NodeKind::Reference);
    is_name(node).then_some(node)
}

/// The definition that a reference means: its block's own, else that for every block.
fn defined_by(tree: &Tree, text: &str, reference: usize) -> Option<Span> {
    let wanted = name(tree.span(reference).of(text));
    let block = tree.around(reference, NodeKind::Block);
    let mut known = block.into_iter().chain([0]).flat_map(|node| tree.definitions(node));
    known.find(|span| name(span.of(text)) == wanted)
}

/// A name without its quotes.
fn name(written: &str) -> String {
    match written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => written.into(),
    }
}

/// Blocks, protections, networks and tests.
pub fn symbols(tree: &Tree, text: &Text) -> Vec<DocumentSymbol> {
    let mut left = MAX_SYMBOLS;
    symbols_in(tree, text, 0, &mut left)
}

#[allow(deprecated, reason = "the protocol's type has a field that it no longer wants, and no default")]
fn symbols_in(tree: &Tree, text: &Text, node: usize, left: &mut usize) -> Vec<DocumentSymbol> {
    let mut out = Vec::new();
    for inner in tree.nodes_of(node) {
        let kind = match tree.nodes()[inner].kind {
            NodeKind::Block => SymbolKind::CLASS,
            NodeKind::Protection => SymbolKind::INTERFACE,
            NodeKind::Network => SymbolKind::FIELD,
            NodeKind::Limit => SymbolKind::NUMBER,
            NodeKind::Test => SymbolKind::METHOD,
            _ => continue,
        };
        let Some(rest) = left.checked_sub(1) else { break };
        *left = rest;
        let span = tree.span(inner);
        let head = head(tree, text.as_str(), inner);
        let children = symbols_in(tree, text, inner, left);
        out.push(DocumentSymbol {
            name: squeezed(head.of(text.as_str())),
            detail: None,
            kind,
            tags: None,
            deprecated: None,
            range: text.range(span),
            selection_range: text.range(head),
            children: (!children.is_empty()).then_some(children),
        });
    }
    out
}

/// A statement up to its brace or semicolon.
fn head(tree: &Tree, text: &str, node: usize) -> Span {
    let span = tree.span(node);
    let ends = |kind| matches!(kind, Kind::Open | Kind::Semicolon);
    let end = tree.words(node).find(|token| ends(token.kind)).map_or(span.end, |token| token.span.start);
    let written = Span { start: span.start, end }.of(text).trim_end();
    Span { start: span.start, end: span.start + written.len() as u32 }
}

/// The text on one line, not too long, and `?` for none: an editor refuses an empty name.
fn squeezed(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(120).collect();
    if line.is_empty() { "?".into() } else { line }
}

/// Words that can stand at an octet.
pub fn completions(analysis: &Analysis, offset: usize) -> Vec<CompletionItem> {
    let item = |label: String| CompletionItem {
        label,
        kind: Some(CompletionItemKind::KEYWORD),
        ..CompletionItem::default()
    };
    let Parsed { tree, text, .. } = &analysis.parsed;
    policy::choices(tree, text, offset, &analysis.suites, &analysis.classes).into_iter().map(item).collect()
}

/// The whole text in the usual form, if it is not.
pub fn formatting(text: &Text) -> Vec<TextEdit> {
    let new_text = policy::format(text.as_str());
    if new_text == text.as_str() { Vec::new() } else { vec![TextEdit { range: text.whole(), new_text }] }
}
