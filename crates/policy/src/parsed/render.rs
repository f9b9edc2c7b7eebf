//! Problems as a person reads them: the line of the file, a mark below it, what was expected, and what to do.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Lines, Severity, as_far_as};
use crate::lexer::Span;
use crate::parsed::Parsed;

/// The longest line, in octets, that is shown. A longer one is only named.
const LONGEST_LINE: usize = 2000;

impl Parsed {
    /// Every problem with its source line, ready for a terminal; empty if there is none.
    pub fn render(&self, color: bool) -> String {
        let text = as_far_as(&self.text, &self.diagnostics);
        let lines = Lines::new(text);
        let mut out = String::new();
        for diagnostic in &self.diagnostics {
            out.push_str(&one(diagnostic, text, &lines, color));
            out.push_str("\n\n");
        }
        out.truncate(out.trim_end().len());
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }
}

fn one(diagnostic: &Diagnostic, text: &str, lines: &Lines, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.as_str());
    let mut group = Group::with_title(title);
    let label = diagnostic.label.as_str();
    group = place(group, diagnostic, diagnostic.span, Some(label), AnnotationKind::Primary, text, lines);
    for related in &diagnostic.related {
        let kind = AnnotationKind::Context;
        group = place(group, diagnostic, related.span, Some(&related.message), kind, text, lines);
    }
    if !diagnostic.help.is_empty() {
        group = group.element(Level::HELP.message(diagnostic.help.as_str()));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(&[group])
}

fn place<'g>(
    group: Group<'g>,
    diagnostic: &'g Diagnostic,
    span: Span,
    label: Option<&'g str>,
    kind: AnnotationKind,
    text: &'g str,
    lines: &Lines,
) -> Group<'g> {
    let (start, end) = (span.start as usize, span.end as usize);
    let (source, offset, first) = lines.around(text, start, start);
    if source.is_empty() || source.len() > LONGEST_LINE {
        let at = lines.position(text, start);
        let origin = Origin::path(diagnostic.file.as_str()).line(at.line).char_column(at.column);
        return group.element(origin);
    }
    // A place that runs over several lines is marked on its first.
    let marked = start - offset..end.min(offset + source.trim_end().len()).max(start) - offset;
    let annotation = kind.span(marked).label(label.filter(|l| !l.is_empty()));
    group.element(
        Snippet::source(source).path(diagnostic.file.as_str()).line_start(first).annotation(annotation),
    )
}
