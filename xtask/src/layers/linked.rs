//! Rooms that stay without the kernel half and without a web server: what only reads a configuration, checks a policy
//! or replays a capture is built, fuzzed and run where neither can be.
//!
//! Cargo says what a room links: `cargo tree --edges normal,build`.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The rooms, from the ground upward.
const ROOMS: &[&str] = &["policy", "config", "host-files", "documents", "offline"];

/// The packages that none of them may link, and what they are.
const KEPT_OUT: &[(&str, &str)] = &[
    ("libbpf-sys", "the loader of the kernel half"),
    ("libbpf-rs", "the loader of the kernel half"),
    ("axum", "the server of the control API"),
    ("tokio", "the runtime of the control plane"),
];

/// One sentence for each room and package that it should not link.
pub fn violations(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for room in ROOMS {
        let mut cargo = Command::new(process::cargo());
        cargo.current_dir(root).args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"]);
        cargo.args(["--format", "{p}", "--package", room]);
        let output = cargo.output().context("cannot run `cargo tree`")?;
        if !output.status.success() {
            bail!("`cargo tree` failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        found.extend(of_tree(room, &String::from_utf8_lossy(&output.stdout)));
    }
    Ok(found)
}

/// The sentences about one room, whose tree has a package in each line: `NAME vVERSION`.
fn of_tree(room: &str, tree: &str) -> Vec<String> {
    let links = |name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    KEPT_OUT
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
        let found = of_tree("offline", tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("room `offline` links libbpf-sys, the loader"), "{found:?}");
        assert_eq!(of_tree("offline", "tokio-util v0.7.0\nlibbpf v1\n"), Vec::<String>::new());
    }
}
