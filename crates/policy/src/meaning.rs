//! The meaning of the statement at a place of the text, in the words of `explain`, and the flows that it decides.

use std::fmt::Write;

use scrub::Profile;
use wire::Flow;

use crate::ast::{
    Block, Demand, Executable, Item, Limit, Network, NetworkKind, Protection, Quantity, Service, Span,
    executables,
};
use crate::explain::{demanded, sentences};
use crate::tree::NodeKind;
use crate::{Compiled, Parsed, RuleKind, prefixes};

/// The most lines that are shown of one statement.
const MAX_LINES: usize = 32;

/// The meaning of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The statement on one line.
    pub title: String,
    /// The meaning, in lines.
    pub lines: Vec<String>,
    /// The octets of the statement.
    pub span: Span,
    part: Part,
}

/// The flows that a statement decides.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// The statement is not part of the policy, and decides none.
    Nothing,
    /// The flows of these applications.
    Applications(Vec<String>),
    /// The flows whose rule stands at this place and has this text.
    Rule(Span, Option<String>),
    /// The flows of networks that name this protection, of the block at this place, or of any block.
    Protection(String, Option<Vec<String>>),
}

/// The meaning of the statement around the octet `offset`; `None` if there is none. `compiled` is the policy of
/// `parsed`.
pub fn meaning(parsed: &Parsed, compiled: &Compiled, offset: usize) -> Option<Meaning> {
    let tree = &parsed.tree;
    let node = tree.at(offset);
    let around = |kind| tree.around(node, kind).map(|node| tree.span(node));
    let Some(whole) = around(NodeKind::Block) else {
        let span = around(NodeKind::Protection)?;
        let shared = parsed.protections.iter().find(|p| p.span.start == span.start);
        return Some(match shared {
            Some(protection) => in_protection(protection, None, around(NodeKind::Item)),
            None => left_out(span, "this protection for every block"),
        });
    };
    let Some(block) = parsed.blocks.iter().find(|b| b.header.start == whole.start) else {
        return Some(left_out(whole, "this block"));
    };
    if let Some(span) = around(NodeKind::Network) {
        let settings = || block.networks.iter().filter(|n| n.span.start == span.start);
        let exact = settings().find(|n| n.range_span.range().contains(&offset));
        return exact.or_else(|| settings().next()).map(|n| of_network(block, n));
    }
    if let Some(span) = around(NodeKind::Limit) {
        let limit = block.limits.iter().find(|limit| limit.span.start == span.start)?;
        return Some(of_limit(block, limit));
    }
    if let Some(span) = around(NodeKind::Protection) {
        let protection = block.protections.iter().find(|p| !p.shared && p.span.start == span.start)?;
        return Some(in_protection(protection, Some(block), around(NodeKind::Item)));
    }
    let names: Vec<String> = block.subjects.iter().map(|s| s.name()).collect();
    let pinned =
        block.subjects.iter().flat_map(executables).filter(|executable| !executable.digests.is_empty());
    let mut lines: Vec<String> = pinned.map(of_pin).collect();
    let networks = block.networks.iter().map(|n| format!("{}: {}", n.text(), class(n)));
    lines.extend(networks);
    lines.push("a peer in none of its networks: the host's default is bypass".into());
    let number = |name: &String| compiled.applications.iter().find(|a| a.name == *name).map(|a| a.id.0);
    if names.iter().filter_map(number).count() < names.len() {
        lines.push("not all of its applications have a number: those have no policy".into());
    }
    Some(Meaning::of(block.header_text(), lines, block.header, Part::Applications(names)))
}

impl Meaning {
    fn of(title: String, mut lines: Vec<String>, span: Span, part: Part) -> Meaning {
        if lines.len() > MAX_LINES {
            let rest = lines.len() - MAX_LINES;
            lines.truncate(MAX_LINES);
            lines.push(format!("... and {rest} more"));
        }
        Meaning { title, lines, span, part }
    }

    /// Whether the statement decides a flow of the application of this name.
    pub fn decides(&self, compiled: &Compiled, application: &str, flow: &Flow) -> bool {
        if let Part::Applications(names) = &self.part {
            return names.iter().any(|name| name == application);
        }
        let Some(app) = compiled.applications.iter().find(|app| app.name == application) else {
            return false;
        };
        let decision = compiled.spd.decide(app.id, flow);
        let (network, item) = (compiled.rule(decision.network), compiled.rule(decision.item));
        match &self.part {
            Part::Nothing | Part::Applications(_) => false,
            Part::Rule(span, text) => [network, item]
                .into_iter()
                .flatten()
                .any(|rule| rule.span == *span && text.as_ref().is_none_or(|text| *text == rule.text)),
            Part::Protection(name, of) => {
                let named = network.is_some_and(|r| r.kind == RuleKind::Network(Some(name.clone())));
                named && of.as_ref().is_none_or(|names| names.iter().any(|name| name == application))
            }
        }
    }
}

fn of_pin(executable: &Executable) -> String {
    let digests: Vec<String> = executable.digests.iter().map(|(digest, _)| digest.to_string()).collect();
    format!(
        "{}: only a file with the SHA-256 {}; another one is refused every peer",
        executable.name.text,
        digests.join(" or ")
    )
}

fn left_out(span: Span, what: &str) -> Meaning {
    let lines =
        vec![format!("{what} has errors and is left out; a running daemon keeps its last good version")];
    Meaning::of("not part of the policy".into(), lines, span, Part::Nothing)
}

fn class(network: &Network) -> &'static str {
    match network.kind {
        NetworkKind::Trusted => sentences::TRUSTED,
        NetworkKind::Untrusted => sentences::UNTRUSTED,
        NetworkKind::Protected(_) => "the items of its protection decide, the first that matches",
    }
}

fn of_limit(block: &Block, limit: &Limit) -> Meaning {
    let names = block.subjects.iter().map(|s| s.name()).collect();
    let what = match limit.quantity {
        Quantity::Bits => "octets",
        Quantity::Packets => "packets",
    };
    let sadb::spd::Limit { rate, burst } = limit.compiled();
    let lines = vec![
        sentences::limit(limit.limited).to_string(),
        format!("{rate} {what} a second, {burst} at once after a rest"),
    ];
    Meaning::of(limit.text(), lines, limit.span, Part::Applications(names))
}

fn of_network(block: &Block, network: &Network) -> Meaning {
    let mut lines = vec![class(network).to_string()];
    if block.observed.is_some() || network.observed {
        lines.insert(0, format!("only watched: {}", sentences::OBSERVED));
    }
    if let NetworkKind::Protected(name) = &network.kind
        && let Some(protection) = block.protections.iter().find(|p| p.name.text == name.text)
    {
        lines.extend(items(protection));
    }
    let own = prefixes::of(&network.range);
    if own.is_empty() {
        lines.push("a host name is not resolved yet: it matches nothing".into());
    }
    let longer = block.networks.iter().filter(|other| {
        let mut pieces = prefixes::of(&other.range).into_iter();
        pieces.any(|piece| own.iter().any(|own| own.covers(piece) && *own != piece))
    });
    lines.extend(
        longer.map(|other| {
            format!("not for {}: the longer prefix decides, {}", other.range, other.kind.text())
        }),
    );
    let text = network.text();
    Meaning::of(text.clone(), lines, network.span, Part::Rule(network.span, Some(text)))
}

fn in_protection(protection: &Protection, block: Option<&Block>, item: Option<Span>) -> Meaning {
    let item = item.and_then(|span| protection.items.iter().find(|item| item.span.start == span.start));
    if let Some(item) = item {
        return Meaning::of(item.text(), of_item(item), item.span, Part::Rule(item.span, None));
    }
    let name = protection.name.text.clone();
    let of = block.map(|block| block.subjects.iter().map(|s| s.name()).collect());
    let title = format!("protection {}", crate::ast::quoted(&name));
    Meaning::of(title, items(protection), protection.name.span, Part::Protection(name, of))
}

fn items(protection: &Protection) -> Vec<String> {
    let mut lines: Vec<String> = protection.items.iter().map(Item::text).collect();
    let is_all = |item: &Item| {
        let any =
            |ports: &[sadb::spd::PortRange]| ports.is_empty() || ports.contains(&sadb::spd::PortRange::ANY);
        item.protocol.is_none() && any(&item.local) && any(&item.remote)
    };
    if !protection.items.iter().any(is_all) {
        lines.push(sentences::NO_ITEM.into());
    }
    lines
}

fn of_item(item: &Item) -> Vec<String> {
    let &Demand::Protect { service, .. } = &item.demand else {
        return vec![
            "never protected: clear, and a packet that arrives protected is accepted all the same".into(),
        ];
    };
    let (_, level, terms) = crate::compile::demand(&item.demand);
    let mut lines = demanded(level, &terms);
    lines.extend(item.class().map(|class| sentences::class(&class.name)));
    lines.extend(Profile::of_id(terms.scrub).map(crate::scrubbed::said));
    let mut flows = String::from("of the flows of its networks those");
    if let Some(number) = item.protocol {
        let _ = write!(flows, " of {}", crate::ast::protocol_text(number));
    }
    for (ports, whose) in [(&item.local, "here"), (&item.remote, "at the peer")] {
        if !ports.is_empty() {
            let _ = write!(flows, " with port {} {whose}", crate::ast::ports_text(ports));
        }
    }
    if !flows.ends_with("those") {
        flows.push_str(", where no item before it matches");
        lines.insert(0, flows);
    }
    if service == Service::Authentication {
        lines.push(sentences::AUTHENTICATION.into());
    }
    lines
}
