//! Optimisation levels of the release build.
//!
//! With link-time optimisation over the whole program, loops are vectorised at the level of the package that has the
//! program (docs/design/0031): a level of its own for that package slows down every crate.

use crate::house::House;
use anyhow::{Context, Result};
use std::fs;
use toml::Table;

/// One sentence for each package with a program that has an optimisation level of its own in a release.
pub fn violations(house: &House) -> Result<Vec<String>> {
    let path = house.root.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let programs =
        house.rooms.iter().filter(|room| room.roots.iter().any(|root| root.ends_with("src/main.rs")));
    let programs: Vec<&str> = programs.map(|room| room.name.as_str()).collect();
    of_manifest(&manifest, &programs)
}

/// The sentences about one manifest of a workspace, given the names of its packages with a program.
fn of_manifest(manifest: &str, programs: &[&str]) -> Result<Vec<String>> {
    let manifest: Table = manifest.parse().context("Cargo.toml of the workspace is not TOML")?;
    let profiles = manifest.get("profile").and_then(|profiles| profiles.as_table());
    let mut found = Vec::new();
    for name in ["release", "dist"] {
        let packages = profiles.and_then(|all| all.get(name)?.get("package")?.as_table());
        let levels =
            packages.into_iter().flatten().filter(|(_, settings)| settings.get("opt-level").is_some());
        found.extend(levels.filter(|(package, _)| programs.contains(&package.as_str())).map(|(package, _)| {
            format!(
                "[profile.{name}.package.{package}] sets opt-level, and `{package}` has a program: link-time optimisation \
                 would run at that level over all crates; remove it"
            )
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_of_its_own_is_refused_for_the_package_of_a_program_alone() {
        let manifest = "[profile.dev.package.ravelin]\nopt-level = 0\n\
                        [profile.release.package.axum]\nopt-level = \"s\"\n\
                        [profile.release.package.ravelin]\nopt-level = \"s\"\n";
        let found = of_manifest(manifest, &["ravelin", "bench"]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("[profile.release.package.ravelin]"), "{found:?}");
        assert!(of_manifest(manifest, &["bench"]).unwrap().is_empty());
    }
}
