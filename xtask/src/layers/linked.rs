//! Rooms that stay without the kernel half and without a web server: what only reads a configuration, checks a policy
//! or replays a capture is built, fuzzed and run where neither can be. And processes with keys of packets stay without
//! PKCS#11, whose modules are foreign code (docs/design/0039).
//!
//! Cargo says what a room links: `cargo tree --edges normal,build`.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Packages that rooms may not link, and what they are.
type KeptOut = &'static [(&'static str, &'static str)];

/// The rooms, from the ground upward, and the packages that none of them may link.
const RULES: &[(&[&str], KeptOut)] = &[
    (&["policy", "config", "host-files", "documents", "offline"], EFFECTS),
    (&["line", "daemon"], &[("cryptoki", "the loader of vendors' PKCS#11 modules")]),
];

const EFFECTS: KeptOut = &[
    ("libbpf-sys", "the loader of the kernel half"),
    ("libbpf-rs", "the loader of the kernel half"),
    ("axum", "the server of the control API"),
    ("tokio", "the runtime of the control plane"),
];

/// One sentence for each room and package that it should not link.
pub fn violations(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (room, kept_out) in
        RULES.iter().flat_map(|(rooms, kept_out)| rooms.iter().map(move |room| (room, kept_out)))
    {
        let mut cargo = Command::new(process::cargo());
        cargo.current_dir(root).args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"]);
        cargo.args(["--format", "{p}", "--package", room]);
        let output = cargo.output().context("cannot run `cargo tree`")?;
        if !output.status.success() {
            bail!("`cargo tree` failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        found.extend(of_tree(room, kept_out, &String::from_utf8_lossy(&output.stdout)));
    }
    Ok(found)
}

/// The sentences about one room, whose tree has a package in each line: `NAME vVERSION`.
fn of_tree(room: &str, kept_out: KeptOut, tree: &str) -> Vec<String> {
    let links = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    kept_out
        .iter()
        .filter(|(name, _)| links(name))
        .map(|(name, what)| {
            format!(
                "room `{room}` links {name}, {what}; it has to be built without it: move what needs it to a room above \
                 (`cargo tree --edges normal --package {room} --invert {name}` shows the way)"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_kept_out_is_named_wherever_it_stands() {
        let tree = "offline v0.1.0 (/h/crates/offline)\nwire v0.1.0 (/h/crates/wire)\nlibbpf-sys v1.7.0\n";
        let found = of_tree("offline", EFFECTS, tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("room `offline` links libbpf-sys, the loader"), "{found:?}");
        assert_eq!(of_tree("offline", EFFECTS, "tokio-util v0.7.0\nlibbpf v1\n"), Vec::<String>::new());
    }
}
