//! What keeps levels 0 to 4 pure, as far as clippy alone cannot say it.
//!
//! The ban on clocks, files, sockets, threads and processes is the workspace's `clippy.toml`; a room escapes it only
//! by a `clippy.toml` of its own, or by an attribute. So: no room below level 5 has either (its tests may use the
//! attribute), a room above that has no `clippy.toml` of its own is held like one below (a crypto unit needs unsafe
//! code, and neither clock nor file), and every shipped room except [`UNSAFE_ROOMS`] forbids unsafe code.
//!
//! Two sentences of ARCHITECTURE.md about levels 0 to 4 are checked here too ([`ABSENT`]): no callback is stored there, and
//! nothing there makes a packet from the wire.

use crate::house::{House, Level, Room};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms that talk to the kernel or the processor in its own words.
const UNSAFE_ROOMS: &[&str] =
    &["cipher-loader", "cipher-worker", "crypto-mb", "lab", "netio", "qos-loader", "sockmon"];

/// The highest level without effects.
const PURE: u8 = 4;

/// What no room of levels 1 to [`PURE`] may say outside tests: the words, why not, and the files that may.
const ABSENT: &[(&[&str], &str, &[&str])] = &[
    (
        &["Box<dyn Fn", "Arc<dyn Fn", "Rc<dyn Fn"],
        "stores a callback; answer an outcome or an event instead",
        &[],
    ),
    (
        &["slot::restored(", "InnerProof::done("],
        "makes the proof that a packet was opened; only who opened it may",
        &[
            "ipsec/src/proof.rs",
            "ipsec/src/restore.rs",
            "ipsec/src/esp/slot.rs",
            "engine/src/inbound/burst.rs",
        ],
    ),
    (
        &["Packet::raw("],
        "makes a packet from the wire, which only devices and replay do: a decrypted packet never goes back to the front door",
        &[],
    ),
];

/// The files of levels 0 to [`PURE`] that may implement `wire::Evidence`: where what a step of a packet stands for is done.
const EVIDENCE: &[&str] = &[
    "wire/src/burst.rs",
    "wire/src/ip.rs",
    "wire/src/packet.rs",
    "sadb/src/sa/inbound.rs",
    "ipsec/src/proof.rs",
    "engine/src/seam.rs",
    "engine/src/inbound/burst.rs",
    "engine/src/inbound/permit.rs",
    "engine/src/outbound/selection.rs",
];

/// Check every shipped room; whether all keep the rules.
pub fn run() -> Result<bool> {
    let house = House::survey()?;
    let mut violations = Vec::new();
    for room in &house.rooms {
        let Some(Level::At(level)) = room.level else { continue };
        let sources = sources(&room.folder.join("src"))?;
        let has_own_bans = room.folder.join("clippy.toml").exists();
        violations.extend(room_violations(room, level, has_own_bans, &sources));
    }
    for violation in &violations {
        eprintln!("error: {violation}");
    }
    if violations.is_empty() {
        println!(
            "levels 0 to {PURE} have no clock, file, socket, thread or unsafe code of their own, and store no callback"
        );
    }
    Ok(violations.is_empty())
}

/// A source file and its text.
type Source = (PathBuf, String);

/// The lines outside tests that implement the trait `Evidence`, counted from 1.
fn evidence_made(text: &str) -> impl Iterator<Item = usize> {
    let product = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    product.enumerate().filter_map(|(at, line)| {
        let line = line.trim_start();
        (line.starts_with("impl") && line.contains("Evidence<") && line.contains(" for ")).then_some(at + 1)
    })
}

/// What one room of that level does wrong.
fn room_violations(room: &Room, level: u8, has_own_bans: bool, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let name = &room.name;
    if !UNSAFE_ROOMS.contains(&name.as_str()) {
        let roots = sources.iter().filter(|(path, _)| is_root(path));
        for (path, _) in roots.filter(|(_, text)| !text.lines().any(|line| line == "#![forbid(unsafe_code)]"))
        {
            found.push(format!("{}: room `{name}` must say #![forbid(unsafe_code)]", path.display()));
        }
    }
    if level <= PURE && has_own_bans {
        let text = "has a clippy.toml of its own, which lifts the workspace's bans; remove it";
        found.push(format!("room `{name}` (level {level}) {text}"));
    }
    if level <= PURE {
        for (path, text) in sources {
            for (words, why, may) in ABSENT {
                if may.iter().any(|file| path.ends_with(file)) {
                    continue;
                }
                found.extend(
                    said(text, words).map(|line| {
                        format!("{}:{line}: room `{name}` (level {level}) {why}", path.display())
                    }),
                );
            }
            if !EVIDENCE.iter().any(|file| path.ends_with(file)) {
                found.extend(evidence_made(text).map(|line| {
                    format!(
                        "{}:{line}: room `{name}` (level {level}) makes evidence for a step of a packet; only the files that \
                         xtask/src/purity.rs lists may, where what the step stands for is done",
                        path.display()
                    )
                }));
            }
        }
    }
    if level <= PURE || !has_own_bans {
        let remedy = if level <= PURE {
            "pass time, randomness and bytes in as arguments instead"
        } else {
            "give the room a clippy.toml that says which bans of the workspace stay"
        };
        for (path, text) in sources {
            found.extend(lifted_ban(text).map(|line| {
                format!("{}:{line}: room `{name}` (level {level}) lifts a ban; {remedy}", path.display())
            }));
        }
    }
    found
}

/// Whether rustc starts reading a crate here.
fn is_root(path: &Path) -> bool {
    let in_src = path.parent().and_then(Path::file_name) == Some(OsStr::new("src"));
    in_src && matches!(path.file_name().and_then(OsStr::to_str), Some("lib.rs" | "main.rs"))
}

/// The line that lifts a ban outside tests, counted from 1.
fn lifted_ban(text: &str) -> Option<usize> {
    said(text, &["clippy::disallowed_"])
}

/// The first line of code outside tests that has one of these words, counted from 1. Tests stand at the end of a file.
fn said(text: &str, words: &[&str]) -> Option<usize> {
    let shipped = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let mut code = shipped.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.find(|(_, line)| words.iter().any(|word| line.contains(word))).map(|(index, _)| index + 1)
}

/// Every Rust file below `folder` that is shipped: `tests.rs` and `tests/` hold tests only.
fn sources(folder: &Path) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.file_stem() == Some(OsStr::new("tests")) {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension() == Some(OsStr::new("rs")) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.push((path, text));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORBID: &str = "//! A room.\n#![forbid(unsafe_code)]\n";

    fn check(name: &str, level: u8, has_own_bans: bool, lib: &str) -> Vec<String> {
        let room = Room {
            name: name.into(),
            level: Some(Level::At(level)),
            folder: PathBuf::new(),
            uses: Vec::new(),
            roots: Vec::new(),
        };
        room_violations(&room, level, has_own_bans, &[("src/lib.rs".into(), lib.into())])
    }

    #[test]
    fn a_pure_room_is_pure() {
        assert_eq!(check("wire", 0, false, FORBID), Vec::<String>::new());
        assert!(check("wire", 0, false, "//! no ban\n")[0].contains("must say #![forbid(unsafe_code)]"));
        assert!(check("policy", 4, true, FORBID)[0].contains("lifts the workspace's bans"));
    }

    #[test]
    fn a_ban_is_lifted_only_for_tests() {
        let attribute = "#[allow(clippy::disallowed_methods, reason = \"vectors\")]\nfn f() {}\n";
        let shipped = format!("{FORBID}{attribute}");
        assert!(check("wire", 0, false, &shipped)[0].starts_with("src/lib.rs:3: "));
        let tested = format!("{FORBID}#[cfg(test)]\n{attribute}");
        assert_eq!(check("wire", 0, false, &tested), Vec::<String>::new());
    }

    #[test]
    fn what_is_absent_below_level_5_stays_absent() {
        let callback = format!("{FORBID}pub struct Half {{\n    told: Box<dyn FnMut(u8)>,\n}}\n");
        assert!(
            check("engine", 3, false, &callback)[0]
                .contains("src/lib.rs:4: room `engine` (level 3) stores a callback")
        );
        let door = format!("{FORBID}fn f() {{\n    let again = Packet::raw(inner.into_buf(), meta);\n}}\n");
        assert!(check("ipsec", 2, false, &door)[0].contains("front door"));
        let commented = format!(
            "{FORBID}/// Not a `Box<dyn FnMut()>`.\n#[cfg(test)]\nfn f() {{ Packet::raw(buf, meta); }}\n"
        );
        assert_eq!(check("engine", 3, false, &commented), Vec::<String>::new());
        assert_eq!(check("daemon", 6, true, &callback), Vec::<String>::new());
    }

    #[test]
    fn evidence_is_made_where_it_is_earned() {
        let made = format!("{FORBID}impl Evidence<Inner, Selected> for Anything {{}}\n");
        assert!(
            check("engine", 3, false, &made)[0]
                .contains("src/lib.rs:3: room `engine` (level 3) makes evidence")
        );
        let taken = format!("{FORBID}fn f(_: &impl Evidence<Inner, Selected>) {{}}\n");
        assert_eq!(check("engine", 3, false, &taken), Vec::<String>::new());
    }

    #[test]
    fn rooms_with_effects_choose_their_bans() {
        assert_eq!(check("netio", 5, true, "//! unsafe\n"), Vec::<String>::new());
        assert!(check("daemon", 6, true, "//! unsafe\n")[0].contains("must say #![forbid(unsafe_code)]"));
        assert_eq!(check("crypto-mb", 5, false, "//! unsafe\n"), Vec::<String>::new());
        let lifting = "//! unsafe\n#[allow(clippy::disallowed_methods, reason = \"a clock\")]\nfn f() {}\n";
        assert!(check("netio", 5, false, lifting)[0].contains("give the room a clippy.toml"));
    }
}
