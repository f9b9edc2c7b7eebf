//! The words that can stand at a place of the text. Only tokens are read, so that there is an answer in the middle of a
//! statement.

use crypto::{SuiteId, Suites};
use qos::graph::Aggregates;
use scrub::Profile;

use crate::lexer::Kind;
use crate::services;
use crate::tree::{NodeKind, Tree};

const TOP: [&str; 6] = ["application", "default", "guard", "protection", "syntax", "test"];
const SETTINGS: [&str; 4] = ["limit", "network", "observe", "protection"];
const RATES: [&str; 5] = ["bit/s", "gbit/s", "kbit/s", "mbit/s", "packets/s"];
const TYPES: [&str; 3] = ["protected", "trusted", "untrusted"];
const WATCHED_OR_NOT: [&str; 4] = ["observe", "protected", "trusted", "untrusted"];
const ITEM: [&str; 6] = ["authentication", "encryption", "localport", "never", "protocol", "remoteport"];
const LEVELS: [&str; 5] = ["accept-only", "mandatory", "optional", "prefer", "require"];
/// The options of an item; `class` needs a graph.
const OPTIONS: [&str; 4] = ["class", "on-failure", "suite", "while-negotiating"];
/// The options of an item in whose level nothing passes in clear.
const OPTIONS_PROTECTED: [&str; 5] = ["class", "on-failure", "scrub", "suite", "while-negotiating"];
const QUALIFIERS: [&str; 5] = ["cgroup", "from", "sha256", "uid", "unit"];
const LINE: [&str; 6] = ["cgroup", "from", "from-program", "to", "uid", "unit"];
const WANTS: [&str; 6] = ["authentication", "encryption", "localport", "never", "trusted", "untrusted"];

/// The construct that a brace encloses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Construct {
    File,
    Block,
    Guard,
    Protection,
    Test,
}

/// The words that can stand where the word at `offset` stands or would start, in alphabetical order. `text` is that of
/// the tree; `suites` and `classes` are what it may name behind `suite` and `class`.
pub fn choices(tree: &Tree, text: &str, offset: usize, suites: &Suites, classes: &Aggregates) -> Vec<String> {
    let mut inside = vec![Construct::File];
    let mut words: Vec<&str> = Vec::new();
    // Where the last of them ends: what stands behind it may be in no statement yet.
    let mut behind = 0;
    for token in tree.tokens() {
        let range = token.span.range();
        let is_here =
            range.end >= offset && matches!(token.kind, Kind::Word | Kind::Quoted | Kind::OpenQuote);
        let is_comment = matches!(token.kind, Kind::LineComment | Kind::BlockComment);
        if range.start < offset
            && is_comment
            && (offset < range.end || token.kind == Kind::LineComment && offset == range.end)
        {
            return Vec::new();
        }
        if range.start >= offset || is_here {
            break;
        }
        match token.kind {
            Kind::Open => {
                inside.push(match (words.first(), inside.last()) {
                    (Some(&"protection"), _) => Construct::Protection,
                    (Some(&"test"), Some(Construct::File)) => Construct::Test,
                    (Some(&"guard"), Some(Construct::File)) => Construct::Guard,
                    _ => Construct::Block,
                });
                words.clear();
            }
            Kind::Close => {
                inside.pop();
                words.clear();
            }
            Kind::Semicolon => words.clear(),
            kind if kind.is_trivia() => {}
            _ => {
                words.push(token.span.of(text));
                behind = range.end;
            }
        }
    }
    let fixed = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let last = words.last().copied();
    match (inside.last().unwrap_or(&Construct::File), words.first().copied()) {
        (Construct::File, None) => fixed(&TOP),
        (Construct::File, Some("syntax")) => fixed(&["2005", "2026"]),
        (Construct::File, Some("application")) if words.len() > 1 && last != Some(",") => fixed(&QUALIFIERS),
        (Construct::File, _) => Vec::new(),
        (Construct::Block, None) => fixed(&SETTINGS),
        (Construct::Block, Some("network")) => match last {
            Some("network" | ",") => Vec::new(),
            Some("protected") => protections(tree, text, behind),
            Some("observe") => fixed(&TYPES),
            _ => fixed(&WATCHED_OR_NOT),
        },
        (Construct::Guard, None) => fixed(&["network"]),
        (Construct::Guard, Some("network")) => match last {
            Some("network" | ",") => Vec::new(),
            _ => fixed(&["trusted", "untrusted"]),
        },
        (Construct::Guard, _) => Vec::new(),
        (Construct::Block, Some("limit")) => match words.len() {
            1 => fixed(&["accept", "clear"]),
            3 => fixed(&RATES),
            4 => fixed(&["burst"]),
            _ => Vec::new(),
        },
        (Construct::Block, _) => Vec::new(),
        (Construct::Protection, _) => item(&words, suites, classes),
        (Construct::Test, None) => Vec::new(),
        (Construct::Test, _) => match last {
            Some("encryption" | "authentication") => fixed(&LEVELS),
            _ if words.iter().any(|word| matches!(*word, "to" | "from")) => fixed(&WANTS),
            _ => fixed(&LINE),
        },
    }
}

/// The words of an item that can follow these words.
fn item(words: &[&str], suites: &Suites, classes: &Aggregates) -> Vec<String> {
    let options = |list: &[&str]| {
        let there = list.iter().filter(|word| **word != "class" || !classes.is_empty());
        there.map(ToString::to_string).collect()
    };
    let fixed = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let selector = words.iter().rev().find(|word| matches!(**word, "protocol" | "localport" | "remoteport"));
    match (words.last().copied(), selector.copied()) {
        (Some("="), Some("protocol")) => sorted(services::PROTOCOLS.map(String::from).to_vec()),
        (Some("=" | ","), Some(_)) => {
            sorted(std::iter::once("any").chain(services::names()).map(String::from).collect())
        }
        (Some("encryption" | "authentication"), _) => fixed(&LEVELS),
        (Some("suite"), _) => {
            sorted(suites.all().filter(|suite| !suite.is_legacy()).map(|suite| suite.to_string()).collect())
        }
        (Some("while-negotiating"), _) => fixed(&["drop", "hold", "pass"]),
        (Some("on-failure"), _) => fixed(&["drop", "pass"]),
        (Some("class"), _) => sorted(classes.iter().map(|(_, name)| name.to_string()).collect()),
        (Some("scrub"), _) => sorted(Profile::ALL.map(|profile| profile.name().to_string()).to_vec()),
        // Nothing else may stand behind a suite that rests on the cipher of one's own alone.
        (Some(word), _) if words.iter().rev().nth(1) == Some(&"suite") && needs_alone(suites, word) => {
            fixed(&["alone"])
        }
        _ if words.iter().any(|word| matches!(*word, "mandatory" | "require")) => options(&OPTIONS_PROTECTED),
        _ if words.iter().any(|word| LEVELS.contains(word)) => options(&OPTIONS),
        _ => fixed(&ITEM),
    }
}

fn needs_alone(suites: &Suites, word: &str) -> bool {
    suites.find(word).is_ok_and(SuiteId::is_alone)
}

/// The protections that a network at this place can name.
fn protections(tree: &Tree, text: &str, offset: usize) -> Vec<String> {
    let block = tree.around(tree.at(offset), NodeKind::Block);
    let own = block.into_iter().flat_map(|block| tree.definitions(block));
    let shared = tree.definitions(0);
    sorted(own.chain(shared).map(|span| span.of(text).to_string()).collect())
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list.dedup();
    list
}
