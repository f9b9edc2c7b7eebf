//! The answers of the policy room in the documents of the control API: decisions, and the lines that they come from.

use api::{Decision, Position};
use policy::{Application, Compiled};
use qos::Direction;
use qos::graph::{Description, classes_by_rules};
use sadb::spd::RuleId;

/// The place of a rule in a compiled policy.
pub fn rule_position(compiled: &Compiled, id: RuleId) -> Option<Position> {
    compiled.rule(id).map(|rule| Position {
        file: rule.file.clone(),
        line: rule.line,
        column: Some(rule.column),
        text: rule.text.clone(),
    })
}

/// The place of an application's block.
pub fn block_position(compiled: &Compiled, app: &Application) -> Position {
    Position { file: compiled.file.clone(), line: app.line, column: None, text: app.block.clone() }
}

/// A sentence about the class of outbound packets that get one by the rules of the graph; `unless` says what would go
/// before these.
pub fn class_by_graph(description: &Description, unless: &str) -> String {
    let classes = classes_by_rules(description, Direction::Outbound);
    format!("{unless}, the rules of the graph give one: {classes}")
}

/// An explanation of the policy room as the API says it.
pub fn decision(explanation: &policy::Explanation) -> Decision {
    let file = &explanation.file;
    let at = |line: &policy::RuleRef| Position {
        file: file.clone(),
        line: line.line,
        column: Some(line.column),
        text: line.text.clone(),
    };
    let block = explanation.application.as_ref().map(|app| Position {
        file: file.clone(),
        line: app.line,
        column: None,
        // A block with many subjects is shown with the subject that matched.
        text: match app.text.len() > app.name.len() + "application ".len() && app.text.contains(',') {
            true => format!("application {}, one of several in this block", app.name),
            false => app.text.clone(),
        },
    });
    let network = explanation.network.as_ref().map(at);
    let item = explanation.item.as_ref().map(at);
    Decision {
        verdict: match explanation.verdict {
            policy::Verdict::Bypass => api::Verdict::Bypass,
            policy::Verdict::Discard => api::Verdict::Discard,
            policy::Verdict::Protect => api::Verdict::Protect,
        },
        service: explanation.service.clone(),
        level: explanation.level.clone(),
        why: explanation.why.clone(),
        notes: explanation.notes.clone(),
        line: item.clone().or_else(|| network.clone()).or_else(|| block.clone()),
        block,
        network,
        protection: explanation.protection.clone(),
        item,
        observed: explanation.observed.clone(),
        class: explanation.class.clone(),
        scrub: explanation.scrub.as_ref().map(|by| api::ScrubbedBy {
            profile: by.profile.clone(),
            application: by.application.clone(),
            item: by.item.as_ref().map(at),
        }),
    }
}
