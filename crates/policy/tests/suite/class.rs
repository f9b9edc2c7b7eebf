//! Tests of `class NAME` behind an item: what it compiles to, where it is refused, and how explain, comparison and the
//! language server tell it.

use crate::common;

use common::WithGraph;
use policy::{
    AppTable, Compiled, Explanation, Parsed, Target, choices, compare, compile, compile_over, explain, parse,
    parse_for, parse_over,
};
use qos::graph::Aggregates;
use sadb::spd::Order;
use wire::{AggregateId, Flow};

const TEXT: &str = "protection Backup {
  encryption require class bulk scrub observe;
}
application phone {
  network 192.0.2.0/24 protected P;
  network 198.51.100.0/24 trusted;
  network 203.0.113.0/24 observe protected P;
  protection P {
    protocol=udp remoteport=5004-5059 encryption require class voice suite aes256gcm;
    remoteport=5061 encryption prefer while-negotiating drop class ef;
    remoteport=22 authentication accept-only class bulk;
    remoteport=80 never;
    encryption require;
  }
}
application backup {
  network 192.0.2.0/24 protected Backup;
}
";

fn host() -> WithGraph {
    WithGraph::of(&["be", "ef", "voice", "bulk"])
}

fn read(text: &str) -> Parsed {
    parse_for("p", text, &host())
}

fn compiled(text: &str) -> Compiled {
    let parsed = read(text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn flow(to: &str) -> Flow {
    to.parse::<Target>().unwrap().flow(None, 40_000)
}

fn ask(program: &str, to: &str) -> Explanation {
    explain(&compiled(TEXT), program, &flow(to))
}

fn errors(parsed: &Parsed) -> Vec<(&str, String, String)> {
    let wrong = parsed.diagnostics.iter().filter(|found| found.is_error());
    wrong.map(|found| (found.code.as_str(), found.message.clone(), found.help.clone())).collect()
}

fn of_item(item: &str) -> String {
    format!("application a {{ network 192.0.2.0/24 protected P; protection P {{ {item}; }} }}")
}

/// Flows with the class that the items give them. Nothing gives one to flows in clear.
const FLOWS: [(&str, &str, Option<&str>); 9] = [
    ("phone", "192.0.2.1:5004/udp", Some("voice")),
    ("phone", "192.0.2.1:5004/tcp", None),
    ("phone", "192.0.2.1:5061/tcp", Some("ef")),
    ("phone", "192.0.2.1:22/tcp", Some("bulk")),
    ("phone", "192.0.2.1:80/tcp", None),
    ("phone", "198.51.100.1:5004/udp", None),
    ("phone", "203.0.113.1:5004/udp", None),
    ("backup", "192.0.2.1:5004/udp", Some("bulk")),
    ("nobody", "192.0.2.1:5004/udp", None),
];

#[test]
fn an_item_says_in_which_class_its_flows_are() {
    let compiled = compiled(TEXT);
    for (program, to, class) in FLOWS {
        let app = compiled.find(program).map(|app| app.id).unwrap_or_default();
        let decision = compiled.spd.decide(app, &flow(to));
        let number = class.map_or(AggregateId::DEFAULT, |class| host().0.find(class).unwrap());
        assert_eq!(decision.terms.class, number, "{program} {to}");
        assert_eq!(compiled.class(decision.item), class, "{program} {to}");
    }
    let named: Vec<_> = compiled.classes().into_iter().map(|(class, rule)| (class, rule.line)).collect();
    assert_eq!(named, [("bulk".to_owned(), 11), ("ef".to_owned(), 10), ("voice".to_owned(), 9)]);
    // A class by the name of the default is no other class.
    let best_effort = compile(&read(&of_item("encryption require class be")), &mut AppTable::new(), 1);
    let terms = best_effort.spd.decide(best_effort.applications[0].id, &flow("192.0.2.1:1/tcp")).terms;
    assert_eq!((terms.class, best_effort.classes().len()), (AggregateId::DEFAULT, 1));
}

#[test]
fn a_class_that_the_graph_lacks_is_refused_with_those_that_there_are() {
    for (item, message, help) in [
        (
            "encryption require class vioce",
            "the graph has no class `vioce`",
            "did you mean `voice`? the graph has",
        ),
        (
            "encryption prefer class interactive",
            "the graph has no class `interactive`",
            "the graph has `be`, `ef`",
        ),
        // Names are written as the graph has them, and the catalogue knows this one beside the graph.
        ("encryption require class Voice", "the graph has no class `Voice`", "did you mean `voice`?"),
        ("encryption require class af4", "the graph has no class `af4`", "`[qos]` in ravelin.toml"),
        ("encryption require class \"no name\"", "no class `\"no name\"`", "the graph has"),
    ] {
        let parsed = read(&of_item(item));
        let found = errors(&parsed);
        assert_eq!(found.len(), 1, "{item}\n{}", parsed.render(false));
        assert_eq!(found[0].0, "RVL-P311", "{item}");
        assert!(found[0].1.contains(message) && found[0].2.contains(help), "{item}: {found:?}");
        assert!(parsed.blocks.is_empty(), "{item}");
    }
    // Without a graph there is none, whatever names the catalogue has numbered.
    for name in ["be", "ef", "voice"] {
        let parsed = parse("p", &of_item(&format!("encryption require class {name}")));
        let found = errors(&parsed);
        assert_eq!((found.len(), found[0].0), (1, "RVL-P311"), "{}", parsed.render(false));
        assert_eq!(found[0].1, format!("`class {name}`: no graph is configured"));
        assert!(found[0].2.contains("`[qos]` in ravelin.toml"), "{found:?}");
        assert!(parsed.blocks.is_empty());
    }
}

#[test]
fn it_is_refused_where_it_would_be_without_effect_or_cannot_be_read() {
    for (item, code, says) in [
        ("never class voice", "RVL-P310", "in clear"),
        ("encryption require class", "RVL-P117", "a class"),
        ("encryption require class voice class ef", "RVL-P309", "`class` is given twice"),
        ("encryption require clas voice", "RVL-P117", "did you mean `class`?"),
    ] {
        let parsed = read(&of_item(item));
        let found = errors(&parsed);
        assert_eq!(found.len(), 1, "{item}\n{}", parsed.render(false));
        assert_eq!(found[0].0, code, "{item}");
        let whole = format!("{} {}", found[0].1, parsed.render(false));
        assert!(whole.contains(says) && !found[0].2.is_empty(), "{item}: {whole}");
    }
    let paper = "syntax 2005; application a { network ::/0 protected P;
        protection P { localport=any remoteport=any encryption mandatory class voice; } }";
    let found = read(paper);
    let found = errors(&found);
    assert!(
        found.iter().any(|(code, message, _)| *code == "RVL-P114" && message.contains("`class`")),
        "{found:?}"
    );
    assert!(found.iter().all(|(code, ..)| *code == "RVL-P114"), "{found:?}");
}

#[test]
fn the_names_of_classes_may_be_words_of_the_language() {
    let words = ["class", "scrub", "require", "drop", "suite"];
    let host = WithGraph::of(&words);
    for word in words {
        let text = of_item(&format!("encryption require class {word} while-negotiating drop"));
        let parsed = parse_for("p", &text, &host);
        assert_eq!(errors(&parsed), [], "{word}");
        let item = &parsed.blocks[0].protections[0].items[0];
        assert_eq!(item.class().unwrap().name, word);
        assert_eq!(item.text(), format!("encryption mandatory while-negotiating drop class {word};"));
    }
}

#[test]
fn explain_names_the_class_and_the_line_that_says_so() {
    for (program, to, class) in FLOWS {
        let got = ask(program, to);
        assert_eq!(got.class.as_deref(), class, "{program} {to}");
        let said = got.why.iter().filter(|why| why.starts_with("class ")).collect::<Vec<_>>();
        assert_eq!(said.len(), usize::from(class.is_some()), "{got}");
        if let Some(class) = class {
            assert!(said[0].starts_with(&format!("class {class}: ")), "{got}");
            assert!(got.item.unwrap().text.contains(&format!("class {class}")));
        }
        let json = serde_json::to_value(ask(program, to)).unwrap();
        assert_eq!(json.get("class").and_then(|class| class.as_str()), class);
    }
}

#[test]
fn another_class_is_a_difference_but_makes_nothing_stricter() {
    let with = |option: &str| {
        let compiled = compiled(&of_item(&format!("encryption require{option}")));
        compiled.spd.get(compiled.applications[0].id).unwrap().clone()
    };
    let all = ["", " class ef", " class voice", " class bulk"];
    for a in all {
        for b in all {
            assert_eq!(compare(&with(a), &with(b)), Order::Same, "{a}, {b}");
            assert_eq!(policy::differences(&with(a), &with(b)).len(), usize::from(a != b), "{a}, {b}");
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let parsed = read(TEXT);
    let items: Vec<String> = parsed.blocks.iter().flat_map(|block| block.items()).map(|i| i.text()).collect();
    assert_eq!(
        items[0],
        "protocol=udp remoteport=5004-5059 encryption mandatory suite aes256gcm class voice;"
    );
    assert_eq!(items[1], "remoteport=5061 encryption optional while-negotiating drop class ef;");
    assert_eq!(items[5], "encryption mandatory class bulk scrub observe;");
    assert!(parsed.summary().applications[0].protections[0].items[0].ends_with("class voice;"));
    let text = policy::format(TEXT);
    assert_eq!(policy::format(&text), text);
    assert_eq!(compiled(&text).spd, compiled(TEXT).spd);
    let said = policy::meaning(&parsed, &compiled(TEXT), TEXT.find("class ef").unwrap()).unwrap();
    assert!(said.lines.iter().any(|line| line.starts_with("class ef: ")), "{said:?}");
}

#[test]
fn it_is_offered_where_there_is_a_graph() {
    let offered = |item: &str, classes: &Aggregates| {
        let text = format!("application a {{ protection P {{ {item} ");
        choices(&parse("p", &text).tree, &text, text.len(), &crypto::Suites::standard(), classes)
    };
    let (graph, none) = (host().0, Aggregates::without_graph());
    for item in ["encryption require", "encryption prefer", "authentication accept-only suite aes128gcm"] {
        assert!(offered(item, &graph).contains(&"class".to_owned()), "{item}");
        assert!(!offered(item, &none).contains(&"class".to_owned()), "{item}");
    }
    assert_eq!(offered("encryption require class", &graph), ["be", "bulk", "ef", "voice"]);
    assert_eq!(offered("encryption require class", &none), [""; 0]);
    assert!(offered("encryption require class voice", &graph).contains(&"on-failure".to_owned()));
}

#[test]
fn a_block_whose_class_is_gone_is_not_taken_over() {
    let mut table = AppTable::new();
    let before = compile(&read(TEXT), &mut table, 1);
    let over = |host: &WithGraph| parse_over("p", TEXT.as_bytes(), host, &before);
    let same = compile_over(&over(&host()), &mut table, 2, &before);
    assert_eq!(same.spd.apps().count(), 2);
    assert_eq!(same.classes(), before.classes());
    // The same text, and a graph that lacks one class of the one block.
    let parsed = over(&WithGraph::of(&["be", "ef", "bulk"]));
    let found = errors(&parsed);
    assert_eq!((found.len(), found[0].0), (1, "RVL-P311"), "{}", parsed.render(false));
    assert_eq!(parsed.blocks.len(), 1);
    // No instance numbers a name anew. Were it so, the number that was compiled would be another class.
    let parsed = over(&WithGraph::of(&["be", "ef", "bulk", "voice"]));
    assert_eq!(errors(&parsed), []);
    let anew = compile(&parsed, &mut table, 3);
    let phone = anew.find("phone").unwrap().id;
    assert_eq!(anew.spd.decide(phone, &flow("192.0.2.1:5004/udp")).terms.class, AggregateId(9));
}
