//! The levels of the house: the picture, and the refusal of edges that go upward.
//!
//! A product room uses only strictly lower levels. Its tests may also use `lab` and `conform`, wherever these stand, and
//! rooms of its own level. Rooms that are never shipped ("dev") may use any room and are used by none that is shipped.
//! Cargo refuses most cycles itself; the check here also names the way round.
//!
//! Inside of every room it looks for circles of modules (`graph.rs`), for structs with many public fields and for
//! `impl` blocks far from their type (`shape.rs`), and among the headers of the kernel half for circles (`headers.rs`).
//! It asks Cargo which rooms link the kernel half's loader and the web server (`linked.rs`).
//! It looks into the release profile for a level that would slow down every crate (`profile.rs`).
//! What it finds inside of rooms must stand in `xtask/layers.toml`, with a reason, and what stands there must be found.

mod allowed;
mod findings;
mod graph;
mod headers;
mod linked;
mod profile;
mod shape;
mod source;
#[cfg(test)]
mod world;

use crate::house::{House, Level, Room, Use};
use allowed::{Allowed, HEADERS};
use anyhow::{Context, Result};
use findings::Findings;
use source::Crate;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The rooms that any room's tests may use.
const TEST_KIT: [&str; 2] = ["lab", "conform"];

/// Print the picture and every violation; whether there was none.
pub fn run() -> Result<bool> {
    let house = House::survey()?;
    print!("{}", picture(&house.rooms));
    let mut violations = violations(&house.rooms);
    let list = house.root.join(allowed::FILE);
    let list = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    violations.extend(Allowed::parse(&list)?.violations(&inside(&house)?));
    violations.extend(linked::violations(&house.root)?);
    violations.extend(profile::violations(&house)?);
    for violation in &violations {
        eprintln!("error: {violation}");
    }
    if violations.is_empty() {
        println!(
            "\nevery edge goes down, and inside of the rooms nothing is found that {} has not",
            allowed::FILE
        );
    }
    Ok(violations.is_empty())
}

/// What is found inside of each room, and among the headers.
fn inside(house: &House) -> Result<BTreeMap<String, Findings>> {
    let mut found = BTreeMap::new();
    for room in &house.rooms {
        let findings: &mut Findings = found.entry(room.name.clone()).or_default();
        for root in &room.roots {
            let read = |file: &Path| fs::read_to_string(file).ok();
            findings.add(&Crate::read(root, &read)?);
        }
    }
    found.insert(HEADERS.to_string(), header_findings(&house.root.join(HEADERS))?);
    Ok(found)
}

/// The circles among the headers of a folder, without the one that describes the kernel's own types.
fn header_findings(folder: &Path) -> Result<Findings> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default().to_string();
        if name.ends_with(".h") && name != "vmlinux.h" {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            texts.push((name, text));
        }
    }
    texts.sort();
    let mut findings = Findings::default();
    findings.add_circles(&headers::uses(&texts), |header| texts[header].0.clone());
    Ok(findings)
}

/// Levels from the top, each room with the rooms it uses; what only its tests use stands in brackets.
fn picture(rooms: &[Room]) -> String {
    let mut floors: BTreeMap<Level, Vec<&Room>> = BTreeMap::new();
    for room in rooms {
        floors.entry(room.level.unwrap_or(Level::Dev)).or_default().push(room);
    }
    let width = rooms.iter().map(|room| room.name.len()).max().unwrap_or(0);
    let shipped = floors.iter().rev().filter(|(level, _)| **level != Level::Dev);
    let unshipped = floors.iter().filter(|(level, _)| **level == Level::Dev);
    let mut text = String::new();
    for (level, rooms) in shipped.chain(unshipped) {
        let mut title = match level {
            Level::At(number) => format!("level {number}"),
            Level::Dev => "dev only".to_string(),
        };
        for room in rooms {
            let line = format!("{title:<10}{:<width$}  {}", room.name, edges(room));
            writeln!(text, "{}", line.trim_end()).expect("a String takes every write");
            title.clear();
        }
    }
    text
}

/// The rooms that a room uses, such as `-> wire crypto [lab]`.
fn edges(room: &Room) -> String {
    let mut names: Vec<String> = Vec::new();
    for (name, kind) in &room.uses {
        match kind {
            Use::Normal => names.push(name.clone()),
            Use::Dev if room.uses.contains(&(name.clone(), Use::Normal)) => {}
            Use::Dev => names.push(format!("[{name}]")),
        }
    }
    if names.is_empty() { String::new() } else { format!("-> {}", names.join(" ")) }
}

/// Every sentence that says what is wrong and what to do; empty when the house stands.
fn violations(rooms: &[Room]) -> Vec<String> {
    let mut found = Vec::new();
    for room in rooms {
        let Some(level) = room.level else {
            found.push(format!(
                "room `{}` has no level: its manifest must say [package.metadata.ravelin] level = 0 to 9, or \"dev\"",
                room.name
            ));
            continue;
        };
        for (name, kind) in &room.uses {
            let Some(used) = rooms.iter().find(|other| other.name == *name) else {
                found.push(format!(
                    "room `{}` uses `{name}`, which is not a room of this workspace",
                    room.name
                ));
                continue;
            };
            // A room without a level is reported once, as itself.
            let Some(below) = used.level else { continue };
            if let Some(reason) = refusal(&room.name, level, name, below, *kind) {
                found.push(reason);
            }
        }
    }
    found.extend(cycle(rooms));
    found
}

/// Why this edge is forbidden, if it is.
fn refusal(user: &str, level: Level, used: &str, below: Level, kind: Use) -> Option<String> {
    let Level::At(from) = level else { return None };
    if kind == Use::Dev && TEST_KIT.contains(&used) {
        return None;
    }
    let Level::At(to) = below else {
        return Some(format!(
            "room `{user}` (level {from}) uses `{used}`, which is never shipped; only tests may, and only `{}`",
            TEST_KIT.join("` or `")
        ));
    };
    let allowed = match kind {
        Use::Normal => to < from,
        Use::Dev => to <= from,
    };
    if allowed {
        return None;
    }
    let direction = if to > from { "upward" } else { "sideways" };
    let who = if kind == Use::Dev { "the tests of room" } else { "room" };
    Some(format!(
        "{who} `{user}` (level {from}) use{} `{used}` (level {to}): that edge goes {direction}; \
         move what is needed to a room below both",
        if kind == Use::Dev { "" } else { "s" }
    ))
}

/// The first way round through normal edges, if any: `a -> b -> a`.
fn cycle(rooms: &[Room]) -> Option<String> {
    let mut closed = vec![false; rooms.len()];
    (0..rooms.len()).find_map(|start| {
        let mut path = Vec::new();
        walk(rooms, start, &mut path, &mut closed)
    })
}

/// Depth first from `at`; `closed` rooms have been left without finding a way round.
fn walk(rooms: &[Room], at: usize, path: &mut Vec<usize>, closed: &mut [bool]) -> Option<String> {
    if let Some(begin) = path.iter().position(|room| *room == at) {
        let names = path[begin..].iter().chain([&at]).map(|room| rooms[*room].name.as_str());
        return Some(format!(
            "the rooms use each other in a circle: {}",
            names.collect::<Vec<_>>().join(" -> ")
        ));
    }
    if closed[at] {
        return None;
    }
    path.push(at);
    for (name, kind) in &rooms[at].uses {
        let next = rooms.iter().position(|room| room.name == *name);
        if let (Use::Normal, Some(next)) = (kind, next)
            && let Some(found) = walk(rooms, next, path, closed)
        {
            return Some(found);
        }
    }
    path.pop();
    closed[at] = true;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const DEV: Option<Level> = Some(Level::Dev);

    fn at(level: u8) -> Option<Level> {
        Some(Level::At(level))
    }

    /// Uses are names; `[name]` is a use in tests only.
    fn room(name: &str, level: Option<Level>, uses: &[&str]) -> Room {
        let uses = uses.iter().map(|used| match used.strip_prefix('[').and_then(|u| u.strip_suffix(']')) {
            Some(used) => (used.to_string(), Use::Dev),
            None => (used.to_string(), Use::Normal),
        });
        Room { name: name.into(), level, folder: PathBuf::new(), uses: uses.collect(), roots: Vec::new() }
    }

    fn sound() -> Vec<Room> {
        vec![
            room("wire", at(0), &[]),
            room("crypto", at(0), &[]),
            room("crypto-std", at(1), &["crypto", "[lab]"]),
            room("sadb", at(1), &["wire", "crypto", "[crypto-std]"]),
            room("ipsec", at(2), &["wire", "sadb"]),
            room("netio", at(5), &["wire", "[lab]"]),
            room("daemon", at(6), &["ipsec", "netio"]),
            room("ravelin", at(7), &["daemon"]),
            room("lab", DEV, &["wire", "netio"]),
            room("tests", DEV, &["lab", "ravelin"]),
        ]
    }

    /// The sound house with one edge more: what is said about it.
    fn with_edge(from: &str, to: &str) -> Vec<String> {
        let mut rooms = sound();
        let user = rooms.iter_mut().find(|room| room.name == from).expect("a room of the sample");
        user.uses.extend(room("", None, &[to]).uses);
        violations(&rooms)
    }

    #[test]
    fn a_sound_house_has_no_violation() {
        assert_eq!(violations(&sound()), Vec::<String>::new());
    }

    #[test]
    fn forbidden_edges_are_named() {
        let table = [
            ("wire", "sadb", "`wire` (level 0) uses `sadb` (level 1): that edge goes upward"),
            ("ipsec", "netio", "`ipsec` (level 2) uses `netio` (level 5): that edge goes upward"),
            ("wire", "crypto", "`wire` (level 0) uses `crypto` (level 0): that edge goes sideways"),
            ("sadb", "crypto-std", "`sadb` (level 1) uses `crypto-std` (level 1): that edge goes sideways"),
            ("daemon", "ravelin", "`daemon` (level 6) uses `ravelin` (level 7): that edge goes upward"),
            (
                "sadb",
                "[ipsec]",
                "the tests of room `sadb` (level 1) use `ipsec` (level 2): that edge goes upward",
            ),
            ("netio", "lab", "`netio` (level 5) uses `lab`, which is never shipped"),
            ("netio", "[tests]", "`netio` (level 5) uses `tests`, which is never shipped"),
            ("ipsec", "nowhere", "`ipsec` uses `nowhere`, which is not a room"),
        ];
        for (from, to, said) in table {
            let violations = with_edge(from, to);
            assert!(violations.iter().any(|v| v.contains(said)), "{from} -> {to}: {violations:?}");
        }
    }

    #[test]
    fn allowed_edges_are_not() {
        for (from, to) in [
            ("ipsec", "[crypto-std]"),
            ("wire", "[crypto]"),
            ("sadb", "[lab]"),
            ("ravelin", "wire"),
            ("tests", "ipsec"),
            ("lab", "ipsec"),
        ] {
            assert_eq!(with_edge(from, to), Vec::<String>::new(), "{from} -> {to}");
        }
    }

    #[test]
    fn a_missing_level_is_one_violation() {
        let mut rooms = sound();
        rooms[0].level = None;
        let violations = violations(&rooms);
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].starts_with("room `wire` has no level"));
    }

    #[test]
    fn a_circle_is_walked_to_its_start() {
        let violations = with_edge("lab", "tests");
        assert_eq!(violations, ["the rooms use each other in a circle: lab -> tests -> lab"]);
        let violations = with_edge("wire", "netio");
        assert!(
            violations.contains(&"the rooms use each other in a circle: wire -> netio -> wire".to_string())
        );
    }

    #[test]
    fn tests_may_close_a_circle_through_the_test_kit() {
        assert_eq!(with_edge("wire", "[lab]"), Vec::<String>::new());
    }

    #[test]
    fn the_picture_stands_on_its_feet() {
        let rooms = [
            room("wire", at(0), &["[lab]"]),
            room("sadb", at(1), &["wire", "[wire]"]),
            room("daemon", at(6), &["sadb"]),
            room("ravelin", at(7), &["daemon"]),
            room("lab", DEV, &["wire"]),
        ];
        assert_eq!(
            picture(&rooms),
            "level 7   ravelin  -> daemon\nlevel 6   daemon   -> sadb\nlevel 1   sadb     -> wire\n\
             level 0   wire     -> [lab]\ndev only  lab      -> wire\n"
        );
    }
}
