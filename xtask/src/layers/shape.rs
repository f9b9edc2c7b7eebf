//! The shape of types: structs whose fields everybody reaches, and `impl` blocks far from their type.
//!
//! A struct may have at most [`MOST`] fields that code outside of its module can name (`pub`, `pub(crate)`,
//! `pub(super)`). An `impl` block stands in the module that defines its type, or in a module below that one. Whoever
//! implements a trait of another crate may do so anywhere, and whoever implements a trait of the same crate may do so
//! beside the trait as well.

use super::graph::{Target, resolve, resolve_type};
use super::source::{Crate, Impl};
use std::collections::{BTreeMap, BTreeSet};

/// The number of fields that code outside of a struct's module may reach.
pub const MOST: usize = 12;

/// The structs of a crate that have more than [`MOST`] fields which others reach: their paths, and how many.
pub fn wide_structs(found: &Crate) -> BTreeMap<String, usize> {
    let all = found.modules.iter().enumerate().flat_map(|(at, module)| {
        module.structs.iter().map(move |item| (path_of(found, at, &item.name), item.public))
    });
    all.filter(|(_, public)| *public > MOST).collect()
}

/// The types of a crate with `impl` blocks elsewhere: their paths, and the modules in which such blocks stand.
pub fn far_impls(found: &Crate) -> BTreeMap<String, BTreeSet<String>> {
    let mut far: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (at, module) in found.modules.iter().enumerate() {
        for block in &module.impls {
            if let Some((home, name)) = home_elsewhere(found, at, block) {
                far.entry(path_of(found, home, &name)).or_default().insert(found.name(module.file));
            }
        }
    }
    far
}

/// The module that defines the type of an `impl` block and the type's name, if the block should not stand in the module
/// `at`.
fn home_elsewhere(found: &Crate, at: usize, block: &Impl) -> Option<(usize, String)> {
    let (home, name) = resolve_type(found, at, &block.of)?;
    // Everything is below the root, so there only the file counts.
    let is_near = |home: usize| {
        let (here, home) = (found.modules[at].file, found.modules[home].file);
        here == home || home != 0 && found.is_below(here, home)
    };
    if let Some(of_trait) = &block.of_trait {
        let Some(Target::Item(home, _)) = resolve(found, at, of_trait) else { return None };
        if is_near(home) {
            return None;
        }
    }
    (!is_near(home)).then_some((home, name))
}

/// The path of an item, such as `plane::Plane`.
fn path_of(found: &Crate, module: usize, item: &str) -> String {
    let mut path = found.modules[module].path.clone();
    path.push(item.to_string());
    path.join("::")
}

#[cfg(test)]
mod tests {
    use super::super::world::crate_of;
    use super::*;

    #[test]
    fn fields_that_others_reach_are_counted_whatever_the_word_before_them() {
        let fields = |count, word: &str| (0..count).map(|n| format!("{word} f{n}: u8, ")).collect::<String>();
        let text = format!(
            "mod a; pub struct Twelve {{ {} g: u8, {} }}",
            fields(12, "pub"),
            fields(0, "pub(crate)").replace('f', "g"),
        );
        let wide = format!(
            "struct Wide {{ {} {} hidden: u8 }} #[cfg(test)] struct Tested {{ {} }}",
            fields(7, "pub(super)"),
            fields(6, "pub(crate)").replace('f', "g"),
            fields(13, "pub"),
        );
        let tuple = format!("pub struct Tuple({});", "pub u8, ".repeat(14));
        let found = crate_of(&[("lib.rs", &text), ("a.rs", &format!("{wide} {tuple}"))]);
        let wide = BTreeMap::from([("a::Tuple".to_string(), 14), ("a::Wide".to_string(), 13)]);
        assert_eq!(wide_structs(&found), wide);
    }

    const NONE: [(String, Vec<String>); 0] = [];

    #[test]
    fn an_impl_stands_with_its_type_or_below() {
        let far = |a: &str, b: &str, below: &str| {
            let a = format!("pub mod below; pub struct A; pub trait Near {{}} {a}");
            let lib = "mod a; mod b; pub trait Root {}";
            let files = [("lib.rs", lib), ("a.rs", &a), ("b.rs", b), ("a/below.rs", below)];
            let found = far_impls(&crate_of(&files));
            found.into_iter().map(|(name, at)| (name, Vec::from_iter(at))).collect::<Vec<_>>()
        };
        let elsewhere = |at: &str| [("a::A".to_string(), vec![at.to_string()])];
        assert_eq!(far("impl A {}", "", "impl super::A {} impl<'a> From<&'a A> for super::A {}"), NONE);
        assert_eq!(far("", "use crate::a::A; impl A {}", ""), elsewhere("b"));
        assert_eq!(far("", "use crate::a::A as Other; impl Other {}", ""), elsewhere("b"));
        assert_eq!(far("", "type Other = crate::a::A; impl Other {}", ""), elsewhere("b"));
        assert_eq!(far("", "use crate::a::A as X; type Y = X; type Z = Y; impl Z {}", ""), elsewhere("b"));
        assert_eq!(far("pub type Twin = A;", "impl crate::a::Twin {}", ""), elsewhere("b"));
        assert_eq!(far("", "type X = Y; type Y = X; impl X {}", ""), NONE, "no compiler takes that");
        assert_eq!(far("", "type Octets = Vec<u8>; impl Octets {}", ""), NONE, "the type is another crate's");
        assert_eq!(far("", "impl Drop for crate::a::A {}", ""), NONE, "the trait is another crate's");
        assert_eq!(far("", "impl crate::Root for &crate::a::A {}", ""), elsewhere("b"));
        assert_eq!(far("", "pub trait B {} impl B for crate::a::A {}", ""), NONE, "beside the trait");
        assert_eq!(far("", "impl Vec<crate::a::A> {}", ""), NONE, "the type is another crate's");
        assert_eq!(far("", "#[cfg(test)] impl crate::a::A {}", ""), NONE);
        assert_eq!(far("", "mod inner { impl crate::a::A {} }", ""), elsewhere("b"));
    }
}
