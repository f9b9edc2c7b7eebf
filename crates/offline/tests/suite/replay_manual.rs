//! Every example of docs/replay.md, end to end: what it says is what is on the wire, octet for octet as scapy makes it, in
//! whichever order its lines stand. The packets are in `oracle/manual.txt`, by `oracle/manual.py`.

use crate::replay_kit;

use api::{ReplayDirection, ReplayVerdict};
use offline::replay::{EngineOptions, Replay};
use replay_kit::{ip, replay, same, step};
use serde_json::Value;

const MANUAL: &str = include_str!("../../../../docs/replay.md");
const PACKETS: &str = include_str!("../oracle/manual.txt");

/// The blocks of a language, in their order.
fn blocks(language: &str) -> Vec<&'static str> {
    let code = MANUAL.split("```").skip(1).step_by(2);
    code.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The packet inside and the packet outside.
fn packets(name: &str) -> (Vec<u8>, Vec<u8>) {
    let line = PACKETS.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let hex: Vec<_> = line.split(' ').collect();
    (octets(hex[1]), octets(hex[2]))
}

/// The lines of JSON, or the statements of setkey, as they stand and the other way round; what deletes stays in front.
fn orders(text: &str) -> [String; 2] {
    let is_json = text.starts_with('{');
    let (parts, end): (Vec<_>, _) = if is_json {
        (text.lines().collect(), "\n")
    } else {
        (text.trim().split_terminator(';').collect(), ";\n")
    };
    let join = |parts: Vec<&str>| parts.iter().map(|part| format!("{part}{end}")).collect::<String>();
    let (mut back, others): (Vec<_>, Vec<_>) =
        parts.iter().partition(|part| part.trim_end().ends_with("flush"));
    back.extend(others.into_iter().rev());
    [join(parts), join(back)]
}

/// The outbound associations of a text, as their receiver has them.
fn receivers(text: &str) -> String {
    let flip = |line: &str| {
        let mut sa: Value = serde_json::from_str(line).unwrap();
        if sa["direction"] != "out" {
            return None;
        }
        sa["direction"] = "in".into();
        for (ours, theirs) in
            [("local", "remote"), ("selector_local", "selector_remote"), ("local_ports", "remote_ports")]
        {
            let (local, remote) = (sa[ours].take(), sa[theirs].take());
            (sa[ours], sa[theirs]) = (remote, local);
        }
        let fields = sa.as_object_mut().unwrap();
        fields.remove("next");
        fields.retain(|_, value| !value.is_null());
        Some(format!("{sa}\n"))
    };
    text.lines().filter_map(flip).collect()
}

fn door(text: &str, local: Option<&str>) -> Replay {
    let local = local.map(ip).into_iter().collect();
    replay(&EngineOptions { local, ..EngineOptions::default() }, text).unwrap()
}

/// Where the outer header may be fragmented its identification is its sender's own, and the checksum goes with it.
fn comparable(name: &str, mut outer: Vec<u8>) -> Vec<u8> {
    if name == "options" {
        outer[4..6].fill(0);
        outer[10..12].fill(0);
    }
    outer
}

fn seals(name: &str, engine: &mut Replay) {
    let (inner, outer) = packets(name);
    let (sealed, made) = step(engine, &inner);
    assert_eq!((sealed.verdict, made.len()), (ReplayVerdict::Protect, 1), "{name}: {sealed:?}");
    assert_eq!(comparable(name, made[0].clone()), comparable(name, outer), "{name}");
}

fn opens(name: &str, engine: &mut Replay) {
    let (inner, outer) = packets(name);
    let (opened, made) = step(engine, &outer);
    assert_eq!(
        (opened.verdict, opened.direction),
        (ReplayVerdict::Deliver, ReplayDirection::Inbound),
        "{name}: {opened:?}"
    );
    assert!(same(&made[0], &inner), "{name}");
}

#[test]
fn every_example_of_json_is_on_the_wire_what_it_says() {
    let names = ["tunnel", "transport", "beet", "ah", "nat", "esn", "bundle", "options", "rules"];
    let blocks = blocks("json");
    assert_eq!(blocks.len(), names.len(), "an example has no packet");
    for (name, text) in names.into_iter().zip(&blocks) {
        // A rule means associations of another example.
        let more = if name == "rules" { blocks[0] } else { "" };
        for text in orders(text) {
            let text = text + more;
            match name {
                "nat" | "esn" => opens(name, &mut door(&text, None)),
                "rules" if !text.starts_with("{\"rule\":{\"name\":\"web\"") => {
                    // The other way round the first rule lets everything pass.
                    let (line, _) = step(&mut door(&text, None), &packets(name).0);
                    assert_eq!(
                        (line.verdict, line.spd_rule.as_deref()),
                        (ReplayVerdict::Bypass, Some("rest"))
                    );
                }
                "rules" => {
                    seals(name, &mut door(&text, None));
                    let (line, _) = step(&mut door(&text, None), &packets("tunnel").0);
                    assert_eq!(
                        (line.verdict, line.spd_rule.as_deref()),
                        (ReplayVerdict::Bypass, Some("rest"))
                    );
                }
                _ => {
                    seals(name, &mut door(&text, None));
                    opens(name, &mut door(&receivers(&text), None));
                }
            }
        }
    }
    // Both ways in one file.
    let mut both = door(blocks[0], None);
    seals("tunnel", &mut both);
    opens("tunnel", &mut both);
}

#[test]
fn every_example_of_setkey_is_on_the_wire_what_it_says() {
    let names = ["setkey", "setkey-bundle"];
    let blocks = blocks("text");
    assert_eq!(blocks.len(), names.len(), "an example has no packet");
    for (name, text) in names.into_iter().zip(blocks) {
        for text in orders(text) {
            seals(name, &mut door(&text, Some("192.0.2.1")));
            // The other host has the same associations and policies the other way round.
            let theirs =
                text.replace("-P in ", "-P x ").replace("-P out", "-P in").replace("-P x ", "-P out");
            opens(name, &mut door(&theirs, Some("192.0.2.2")));
        }
    }
}

#[test]
fn every_reason_is_in_the_table() {
    let told = |reason: &&wire::DropReason| MANUAL.contains(&format!("\n| `{}` | ", reason.name()));
    let missing = wire::DropReason::ALL.iter().filter(|reason| !told(reason));
    let rows: String =
        missing.map(|reason| format!("| `{}` | {} |\n", reason.name(), reason.text())).collect();
    assert!(rows.is_empty(), "docs/replay.md lacks these rows:\n{rows}");
}
