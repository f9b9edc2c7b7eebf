//! The report of a cipher as one page of HTML that needs nothing beside it: verdicts, controls, drawings, and where the
//! cipher comes from (issue 23 item 8).
//!
//! What enters: the documents of `ravelin cipher check`, `stats` and `ct`, and lines of provenance. What leaves: text.
//! Every word of others is escaped; the page has no script and loads nothing.

mod drawing;

use std::fmt::Write;

use api::{CipherChecked, CipherCt, CipherStats};

use crate::battery::STATEMENT;

/// What a page is made of.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The name of the cipher.
    pub cipher: String,
    /// Source, compiler, digests: each a name and a value.
    pub provenance: Vec<(String, String)>,
    /// The document of `ravelin cipher check`.
    pub check: Option<CipherChecked>,
    /// The document of `ravelin cipher stats`.
    pub stats: Option<CipherStats>,
    /// The document of `ravelin cipher ct`.
    pub ct: Option<CipherCt>,
}

/// The look of the page.
const STYLE: &str = "body{font:16px/1.45 sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;\
vertical-align:top}.ok{color:#17643a}.bad{color:#a31515;font-weight:bold}.out{color:#666}svg{margin:.5rem 1rem .5rem 0}\
.statement{border-left:4px solid #a31515;padding:.4rem 1rem;background:#faf3f3}code{overflow-wrap:anywhere}";

impl Page {
    /// The report as a page of HTML.
    pub fn html(&self) -> String {
        let name = escape(&self.cipher);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Cipher {name}</title>\n\
             <style>{STYLE}</style></head><body>\n<h1>Cipher {name}</h1>\n<p class=\"statement\">{}</p>\n",
            escape(STATEMENT)
        );
        self.verdicts(&mut out);
        self.provenance(&mut out);
        if let Some(check) = &self.check {
            checks(&mut out, check);
        }
        if let Some(stats) = &self.stats {
            statistics(&mut out, stats);
        }
        if let Some(ct) = &self.ct {
            timing(&mut out, ct);
        }
        out + "</body></html>\n"
    }

    /// The verdict of each part, or that there is none.
    fn verdicts(&self, out: &mut String) {
        let rows = [
            ("check", self.check.as_ref().map(|check| (check.ok, false))),
            ("stats", self.stats.as_ref().map(|stats| (stats.ok, stats.void))),
            ("ct", self.ct.as_ref().map(|ct| (ct.ok, ct.void))),
        ];
        let rows = rows.map(|(part, verdict)| {
            let verdict = match verdict {
                None => Cell::Out("not part of this report"),
                Some((_, true)) => Cell::Bad("VOID: a control did not behave as it must"),
                Some((true, false)) => Cell::Ok("passed"),
                Some((false, false)) => Cell::Bad("did NOT pass"),
            };
            vec![Cell::Text(part), verdict]
        });
        table(out, "Verdicts", &["Part", "Verdict"], rows);
    }

    fn provenance(&self, out: &mut String) {
        let rows = self.provenance.iter().map(|(name, value)| vec![Cell::Text(name), Cell::Code(value)]);
        table(out, "Provenance", &["What", "Value"], rows);
    }
}

fn checks(out: &mut String, check: &CipherChecked) {
    let rows = check.checks.iter().map(|one| {
        let verdict =
            if check.left_out.contains(&one.name) { Cell::Out("left out") } else { verdict(one.ok) };
        vec![Cell::Text(&one.name), verdict, Cell::Text(&one.detail)]
    });
    table(out, "Checks", &["Check", "Verdict", "Detail"], rows);
}

fn statistics(out: &mut String, stats: &CipherStats) {
    let controls = stats.controls.iter().map(|control| {
        let must = control.must_fail.as_deref().unwrap_or("nothing: it must pass all");
        vec![Cell::Text(&control.name), Cell::Text(must), did(control.ok), Cell::Text(&control.detail)]
    });
    table(out, "Controls of the statistics", &["Control", "Must fail", "Did", "Detail"], controls);
    for (what, avalanche) in [("input", &stats.input_avalanche), ("key", &stats.key_avalanche)]
        .iter()
        .filter(|(_, a)| a.trials > 0)
    {
        let _ = writeln!(
            out,
            "<h2>Avalanche over {what} bits</h2>\n<p>Each bit was flipped {} times; on average a share of {:.5} of the \
             output bits changed. The cells of the dependence matrix reach from {:.4} to {:.4}.</p>",
            avalanche.trials, avalanche.mean, avalanche.least, avalanche.greatest
        );
        drawing::by_bit(out, what, &avalanche.by_bit);
        drawing::weights(out, &avalanche.weights);
    }
    let values: Vec<f64> = stats.tests.iter().filter(|test| test.counts).map(|test| test.p).collect();
    let _ = writeln!(
        out,
        "<h2>Distribution of p values</h2>\n<p>{} values; p of their distribution {:.6}: {}. Seed <code>{}</code>, profile \
         {}; a test fails below p = {:e}.</p>",
        stats.distribution.values,
        stats.distribution.p,
        if stats.distribution.ok { "uniform" } else { "NOT uniform" },
        escape(&stats.seed),
        escape(&stats.profile),
        stats.limit
    );
    drawing::p_values(out, &values);
    let p: Vec<String> = stats.tests.iter().map(|test| format!("{:.6}", test.p)).collect();
    let rows = stats.tests.iter().zip(&p).map(|(test, p)| {
        vec![
            Cell::Text(&test.data),
            Cell::Text(&test.test),
            verdict(test.ok),
            Cell::Text(p),
            Cell::Text(&test.detail),
        ]
    });
    table(out, "Statistics", &["Data", "Test", "Verdict", "p", "Detail"], rows);
    let left = stats.left_out.iter().map(|left| vec![Cell::Text(&left.data), Cell::Text(&left.why)]);
    table(out, "Left out", &["Data", "Why"], left);
    let outside = stats.outside.iter().map(|suite| {
        let verdict = suite.ok.map_or(Cell::Out("not run"), verdict);
        vec![Cell::Text(&suite.suite), verdict, Cell::Text(&suite.detail)]
    });
    table(out, "Suites of others", &["Suite", "Verdict", "Detail"], outside);
}

fn timing(out: &mut String, ct: &CipherCt) {
    let rows = ct.checks.iter().map(|check| {
        let verdict = if check.left_out { Cell::Out("left out") } else { verdict(check.ok) };
        vec![Cell::Text(&check.method), verdict, Cell::Text(&check.detail)]
    });
    table(out, "Constant time", &["Method", "Verdict", "Detail"], rows);
    let _ = writeln!(
        out,
        "<p>Code path that valgrind checked: {}.</p>\n<p>{}</p>",
        escape(&ct.code_path),
        escape(&ct.statement)
    );
    let controls = ct.controls.iter().map(|control| {
        let must = if control.must_be_flagged { "be flagged" } else { "not be flagged" };
        vec![
            Cell::Text(&control.name),
            Cell::Text(&control.method),
            Cell::Text(must),
            did(control.ok),
            Cell::Text(&control.detail),
        ]
    });
    table(out, "Controls of constant time", &["Control", "Method", "Must", "Did", "Detail"], controls);
}

/// A cell of a table.
enum Cell<'a> {
    Text(&'a str),
    Code(&'a str),
    Ok(&'a str),
    Bad(&'a str),
    Out(&'a str),
}

fn verdict(ok: bool) -> Cell<'static> {
    if ok { Cell::Ok("ok") } else { Cell::Bad("FAILED") }
}

fn did(ok: bool) -> Cell<'static> {
    if ok { Cell::Ok("as it must") } else { Cell::Bad("NOT as it must") }
}

/// A table under a heading; nothing at all without rows.
fn table<'a>(out: &mut String, heading: &str, head: &[&str], rows: impl IntoIterator<Item = Vec<Cell<'a>>>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return;
    }
    let head: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    let _ = writeln!(out, "<h2>{heading}</h2>\n<table><tr>{head}</tr>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = match cell {
                Cell::Text(text) => write!(out, "<td>{}</td>", escape(text)),
                Cell::Code(text) => write!(out, "<td><code>{}</code></td>", escape(text)),
                Cell::Ok(text) => write!(out, "<td class=\"ok\">{}</td>", escape(text)),
                Cell::Bad(text) => write!(out, "<td class=\"bad\">{}</td>", escape(text)),
                Cell::Out(text) => write!(out, "<td class=\"out\">{}</td>", escape(text)),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// Text that means itself, in an element and in a quoted attribute. Control characters are shown as a question mark.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// The compilers that left their names in a library: what stands behind `GCC: `, `clang version` and `rustc version`, each
/// once. A library that was stripped of them names none.
pub fn compilers(library: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for text in library.split(|octet| !(0x20..0x7f).contains(octet)) {
        let text = String::from_utf8_lossy(text);
        let from =
            ["GCC: (", "clang version ", "rustc version "].iter().filter_map(|word| text.find(word)).min();
        let name: String =
            from.and_then(|from| text.get(from..)).unwrap_or_default().chars().take(100).collect();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests;
