//! The run of a file's own tests against its tables.

use std::collections::HashSet;

use sadb::spd::{Action, Decision, DecisionReason};
use wire::AppId;

use crate::ast::{Expectation, ExpectedTreatment, Service, level_word};
use crate::compile::compile_some;
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::parsed::{BrokenBlock, Parsed};
use crate::subjects::{RunningProgram, Subjects};
use crate::{AppTable, Compiled};

/// Runs every expectation of the file's tests; one that does not come true is an error.
pub(crate) fn run(parsed: &mut Parsed, sink: &mut Sink) {
    if parsed.tests.is_empty() {
        return;
    }
    let asked = asked(parsed);
    let compiled = compile_some(parsed, &mut AppTable::new(), 1, None, |block| asked.contains(&block));
    for test in &parsed.tests {
        for line in &test.expectations {
            let flow = line.target.flow(None, line.local_port);
            let app = compiled.subjects.choose(&line.process).unwrap_or(AppId::NONE);
            let decision = compiled.spd.decide(app, &flow);
            if comes_true(line.wants, &decision) {
                parsed.tested.passed += 1;
            } else if parsed.broken.iter().any(|broken| may_concern(broken, line)) {
                parsed.tested.skipped += 1;
            } else {
                parsed.tested.failed += 1;
                sink.push(failure(&test.name.text, line, &compiled, app, &decision));
            }
        }
    }
}

/// The places of the blocks that the tests ask about. No other block can decide.
fn asked(parsed: &Parsed) -> HashSet<usize> {
    let mut whose = Vec::new();
    let mut list = Vec::new();
    for (block, placed) in parsed.blocks.iter().enumerate() {
        for selector in &placed.selectors {
            // As many subjects as there are numbers, at most.
            list.push((selector.clone(), AppId(u16::try_from(whose.len()).unwrap_or(u16::MAX))));
            whose.push(block);
        }
    }
    let subjects = Subjects::new(list);
    let lines = parsed.tests.iter().flat_map(|test| &test.expectations);
    lines
        .filter_map(|line| subjects.choose(&line.process))
        .filter_map(|subject| whose.get(usize::from(subject.0)).copied())
        .collect()
}

fn comes_true(wants: ExpectedTreatment, decision: &Decision) -> bool {
    match (wants, decision.action) {
        (ExpectedTreatment::Trusted, Action::Bypass) => decision.why != DecisionReason::Item,
        (ExpectedTreatment::Never, Action::Bypass) => decision.why == DecisionReason::Item,
        (ExpectedTreatment::Untrusted, Action::Discard) => true,
        (ExpectedTreatment::Protect(service, level), Action::Protect { services, level: own }) => {
            level == own && (service == Service::Encryption) == services.encrypts()
        }
        _ => false,
    }
}

/// Whether a block that is left out could have spoken for the process.
fn may_concern(broken: &BrokenBlock, line: &Expectation) -> bool {
    let RunningProgram::Program(program) = &line.process.program else { return true };
    let file = program.rsplit_once('/').map_or(program.as_str(), |p| p.1);
    !broken.is_plain || broken.names.iter().any(|name| name.text == *program || name.text == file)
}

fn failure(
    test: &str,
    line: &Expectation,
    compiled: &Compiled,
    app: AppId,
    decision: &Decision,
) -> Diagnostic {
    let gets = match decision.action {
        Action::Bypass if decision.why == DecisionReason::Item => "never: it is in clear".to_string(),
        Action::Bypass => "trusted: it is in clear".to_string(),
        Action::Discard => "untrusted: it is refused".to_string(),
        Action::Protect { services, level } => {
            let service = if services.encrypts() { "encryption" } else { "authentication" };
            format!("{service} {}", level_word(level))
        }
    };
    let message = format!("test `{}`: the flow gets {gets}", show(test));
    let rule = compiled.rule(decision.rule());
    let block = compiled.application(app);
    let why = match (&rule, block) {
        (Some(rule), _) => format!("line {} says so: {}", rule.line, show_line(&rule.text)),
        (None, Some(block)) => {
            format!("no network of the block at line {} covers the peer", block.block_line)
        }
        (None, None) => "no block speaks for the program".to_string(),
    };
    let mut diagnostic = Diagnostic::new(Code::FailedTest, line.wants_span, message)
        .label("does not come true")
        .help(format!("{why}; correct the policy, or the test if the policy is meant"));
    if let Some(rule) = rule {
        diagnostic = diagnostic.related(rule.span, "this rule decides");
    }
    diagnostic
}

/// A statement made fit for a message.
fn show_line(text: &str) -> String {
    let mut out: String = text.chars().take(160).collect();
    if text.chars().nth(160).is_some() {
        out.push_str("...");
    }
    out
}
