//! The modules of a crate that use each other, and the circles among them.
//!
//! A module uses another if its code, outside of tests, names by a path an item that the other one defines.
//!
//! What follows from that sentence: a re-export is followed to the module that defines the item; a module that only
//! re-exports (`pub use`) items of modules below it does not use them, and one whose own code names them does; a module
//! that is named as a part of a longer path is not used; a `mod` with a body is a part of its file. What is reached by a
//! method or a field of a value, and not by a path, is not seen.

use super::source::{Crate, Import};
use std::collections::{BTreeMap, BTreeSet};

/// The uses among the files of a crate: the module that uses, the module that is used, and an item for example.
pub type Uses = BTreeMap<usize, BTreeMap<usize, String>>;

/// The thing that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An item that this module defines, and its name there.
    Item(usize, String),
    /// The path of this module inside its room.
    Module(usize),
}

/// A search for a name that is not finished: the module, the name, and whether it should be a module.
type Searches = Vec<(usize, String, bool)>;

/// The thing that a path named in the module `from` leads to; `None`: something outside of the crate.
pub fn resolve(found: &Crate, from: usize, path: &[String]) -> Option<Target> {
    follow(found, from, path, &mut Vec::new())
}

/// The module that defines the type which a path means, and its name there. `type Y = X;` and `use X as Y;` mean `X`.
pub fn resolve_type(found: &Crate, from: usize, path: &[String]) -> Option<(usize, String)> {
    let Target::Item(mut module, mut name) = resolve(found, from, path)? else { return None };
    let mut seen = BTreeSet::new();
    while let Some(meant) = found.modules[module].aliases.get(&name) {
        if !seen.insert((module, name.clone())) {
            return None;
        }
        let Target::Item(home, item) = resolve(found, module, meant)? else { return None };
        (module, name) = (home, item);
    }
    Some((module, name))
}

fn follow(found: &Crate, from: usize, path: &[String], open: &mut Searches) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" | "$crate" => Target::Module(0),
        "self" => Target::Module(from),
        "super" => Target::Module(found.modules[from].parent?),
        name => search(found, from, name, !rest.is_empty(), open)?,
    };
    for (index, name) in rest.iter().enumerate() {
        let Target::Module(module) = at else { break };
        at = if name == "super" {
            Target::Module(found.modules[module].parent?)
        } else {
            let is_inner = index + 1 < rest.len();
            // An unknown name was made by a macro of that module.
            search(found, module, name, is_inner, open).unwrap_or_else(|| Target::Item(module, name.clone()))
        };
    }
    Some(at)
}

/// The thing that a name means in a module. A name inside of a path means a module rather than an item.
fn search(found: &Crate, at: usize, name: &str, is_inner: bool, open: &mut Searches) -> Option<Target> {
    let this = (at, name.to_string(), is_inner);
    if open.contains(&this) {
        return None;
    }
    open.push(this);
    let module = &found.modules[at];
    let item = module.defined.contains(name).then(|| Target::Item(at, name.to_string()));
    let child = module.children.get(name).map(|child| Target::Module(*child));
    let own = if is_inner { child.or(item) } else { item.or(child) };
    let target = own.or_else(|| {
        let named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        let mut named = named.filter_map(|import| follow(found, at, &import.path, open));
        named.next()
    });
    let target = target.or_else(|| search_globs(found, at, name, is_inner, open));
    open.pop();
    target
}

/// The thing that a name means in a module by its glob imports.
fn search_globs(found: &Crate, at: usize, name: &str, is_inner: bool, open: &mut Searches) -> Option<Target> {
    let globs = found.modules[at].imports.iter().filter(|import| import.name.is_none());
    for import in globs {
        if let Some(Target::Module(module)) = follow(found, at, &import.path, open)
            && let Some(target) = search(found, module, name, is_inner, open)
        {
            return Some(target);
        }
    }
    None
}

/// The uses among the files of the crate.
pub fn uses(found: &Crate) -> Uses {
    let mut uses = Uses::new();
    for (from, module) in found.modules.iter().enumerate() {
        let imports = module.imports.iter().filter_map(|import| {
            let Some(Target::Item(to, _)) = resolve(found, from, &import.path) else { return None };
            (!is_own_re_export(found, from, to, import)).then_some((to, &import.path))
        });
        let paths = module.paths.iter().filter_map(|path| {
            // A single name is that of an item here, or it came by an import. A private import is a use by itself; a
            // re-export is one where the module also names what it passes on.
            if path.len() == 1 && module.defined.contains(&path[0]) {
                return None;
            }
            let Some(Target::Item(to, _)) = resolve(found, from, path) else { return None };
            Some((to, path))
        });
        for (to, path) in imports.chain(paths) {
            let (user, used) = (module.file, found.modules[to].file);
            if user != used {
                uses.entry(user).or_default().entry(used).or_insert_with(|| path.join("::"));
            }
        }
    }
    uses
}

/// Whether an import is the re-export of something that a module below defines.
fn is_own_re_export(found: &Crate, from: usize, to: usize, import: &Import) -> bool {
    import.public && found.is_below(to, from)
}

/// The circles: the largest sets of modules each of which uses each other one, by way of others too.
pub fn circles(uses: &Uses) -> Vec<BTreeSet<usize>> {
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        uses.keys().map(|from| (*from, reachable(uses, *from))).collect();
    let reaches = |from: &usize, to: &usize| reached.get(from).is_some_and(|set| set.contains(to));
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for from in uses.keys() {
        if found.iter().any(|circle| circle.contains(from)) {
            continue;
        }
        let circle: BTreeSet<usize> = reached[from].iter().copied().filter(|to| reaches(to, from)).collect();
        if !circle.is_empty() {
            found.push(circle);
        }
    }
    found
}

/// The modules that `from` uses, by way of others too.
fn reachable(uses: &Uses, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = uses.get(&at).into_iter().flat_map(BTreeMap::keys);
        open.extend(next.copied().filter(|to| reached.insert(*to)));
    }
    reached
}

/// The shortest way through a circle from its first module back to it: each module with the item that it names in the
/// next one.
pub fn walk(uses: &Uses, circle: &BTreeSet<usize>) -> Vec<(usize, String)> {
    let ways = circle.iter().filter_map(|start| way_back(uses, *start));
    ways.min_by_key(Vec::len).unwrap_or_default()
}

/// The shortest way from a module back to itself.
fn way_back(uses: &Uses, start: usize) -> Option<Vec<(usize, String)>> {
    let mut seen = BTreeSet::new();
    let mut ways: std::collections::VecDeque<(usize, Vec<(usize, String)>)> = [(start, Vec::new())].into();
    while let Some((at, way)) = ways.pop_front() {
        for (to, item) in uses.get(&at).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push((at, item.clone()));
            if *to == start {
                return Some(longer);
            }
            if seen.insert(*to) {
                ways.push_back((*to, longer));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::world::crate_of;
    use super::*;

    /// The circles of a world, by names of modules.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let found = crate_of(files);
        let circles = circles(&uses(&found));
        circles.iter().map(|circle| circle.iter().map(|module| found.name(*module)).collect()).collect()
    }

    const NONE: [Vec<String>; 0] = [];

    #[test]
    fn two_modules_that_name_each_other_are_a_circle() {
        let lib = ("lib.rs", "mod a; mod b;");
        let a = ("a.rs", "use crate::b::B; pub struct A(B);");
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B; fn f(_: crate::a::A) {}")]), [["a", "b"]]);
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B; fn f() { super::a::A::new(); }")]), [["a", "b"]]);
        assert_eq!(
            found(&[lib, a, ("b.rs", "pub struct B; fn f() { println!(\"{}\", super::a::A::N); }")]),
            [["a", "b"]]
        );
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B; /// See [`crate::a::A`].\nfn f() {}")]), NONE);
        assert_eq!(found(&[lib, a, ("b.rs", "pub struct B; fn f(a: u8) { g(a.a); }")]), NONE);
    }

    #[test]
    fn three_modules_in_a_ring_are_a_circle_and_the_way_is_told() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::f; pub fn g() { f() }"),
            ("b.rs", "use crate::c; pub fn f() { c::h() }"),
            ("c.rs", "pub fn h() { crate::a::g() }"),
            ("d.rs", "use crate::a::g; fn f() { g() }"),
        ];
        assert_eq!(found(&files), [["a", "b", "c"]], "d only looks in");
        let world = crate_of(&files);
        let uses = uses(&world);
        let way = walk(&uses, &circles(&uses)[0]);
        let way: Vec<_> = way.iter().map(|(at, item)| (world.name(*at), item.as_str())).collect();
        let step = |at: &str, item| (at.to_string(), item);
        assert_eq!(way, [step("a", "crate::b::f"), step("b", "c::h"), step("c", "crate::a::g")]);
    }

    #[test]
    fn nested_groups_renames_and_globs_are_followed() {
        let lib = ("lib.rs", "mod a; mod b;");
        let b = ("b.rs", "pub struct B; pub mod inner { pub struct C; } use crate::a::A;");
        for text in [
            "use crate::{b::{inner::{C as D}}, x::Y}; pub struct A;",
            "use super::{b::{self}}; pub struct A(b::B);",
            "use crate::b as other; pub struct A(other::B);",
            "use super::b::*; pub struct A(B);",
            "use super::*; pub struct A(b::B);",
            "pub struct A; fn f() { use crate::b::inner; let _ = inner::C; }",
            "pub struct A; fn f() { assert!(vec![crate::b::inner::C].is_empty()); }",
        ] {
            assert_eq!(found(&[lib, ("a.rs", text), b]), [["a", "b"]], "{text}");
        }
        for text in [
            "use crate::b; pub struct A;",
            "use super::b::*; pub struct A; fn f(b: u8) { f(b) }",
            "use super::b::*; pub struct A; fn f(inner: u8) { assert_eq!(inner, x.B); }",
        ] {
            assert_eq!(found(&[lib, ("a.rs", text), b]), NONE, "{text}");
        }
    }

    #[test]
    fn a_re_export_is_no_use_and_is_followed_to_what_it_names() {
        let lib = ("lib.rs", "pub mod a; pub use a::{child::Child, A};");
        let child = ("a/child.rs", "pub struct Child; fn f(_: super::A) {}");
        let exporting = ("a.rs", "pub mod child; pub use child::Child; pub struct A;");
        assert_eq!(found(&[lib, exporting, child]), NONE, "the parent only passes its child's item on");
        let using = ("a.rs", "mod child; use child::Child; pub struct A(Child);");
        assert_eq!(found(&[lib, using, child]), [["a", "a::child"]]);
        let through_root = ("a/child.rs", "pub struct Child; fn f(_: crate::A) {}");
        assert_eq!(found(&[lib, using, through_root]), [["a", "a::child"]], "by way of the root's re-export");
    }

    #[test]
    fn whose_code_names_what_it_re_exports_uses_it() {
        let lib = ("lib.rs", "pub mod a;");
        let child = ("a/child.rs", "pub struct Child; pub fn make() {} fn f(_: super::A) {}");
        for text in [
            "mod child; pub(crate) use child::Child; pub struct A(Child);",
            "mod child; pub use child::Child as Other; pub struct A; fn f(other: Other) {}",
            "mod child; pub use child::make; pub struct A; fn f() { make() }",
            "mod child; pub use child::*; pub struct A(Child);",
            "mod child; pub use child::Child; pub struct A; mod inner { fn f(_: super::Child) {} }",
        ] {
            assert_eq!(found(&[lib, ("a.rs", text), child]), [["a", "a::child"]], "{text}");
        }
        for text in [
            "mod child; pub(crate) use child::Child; pub struct A;",
            "mod child; pub use child::make; pub struct A; fn f(make: u8) -> u8 { make }",
        ] {
            assert_eq!(found(&[lib, ("a.rs", text), child]), NONE, "{text}");
        }
    }

    #[test]
    fn an_included_file_is_a_part_of_the_module_that_includes_it() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub struct A; include!(\"a/part.rs\"); include!(concat!(env!(\"OUT_DIR\"), \"/x.rs\"));",
            ),
            ("a/part.rs", "pub struct Part(crate::b::B);"),
            ("b.rs", "pub struct B; fn f(_: crate::a::A) {}"),
        ];
        assert_eq!(found(&files), [["a", "b"]]);
        let mut other = files;
        other[2].1 = "pub struct Part;";
        other[3].1 = "pub struct B; fn f(_: crate::a::Part) {}";
        assert_eq!(found(&other), NONE);
        other[1].1 = "pub struct A(crate::b::B); include!(\"a/part.rs\");";
        assert_eq!(found(&other), [["a", "b"]], "what an included file defines is the module's");
    }

    #[test]
    fn who_re_exports_what_stands_elsewhere_uses_it() {
        let lib = ("lib.rs", "mod a; mod b;");
        let files =
            [lib, ("a.rs", "pub use crate::b::B; pub struct A;"), ("b.rs", "pub struct B(super::a::A);")];
        assert_eq!(found(&files), [["a", "b"]]);
    }

    #[test]
    fn the_parent_of_a_sibling_is_used_where_it_defines_the_item() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub mod child; pub struct A; fn f() { crate::b::g() }"),
            ("a/child.rs", "pub struct C;"),
            ("b.rs", "use crate::a::child::C; pub fn g() {}"),
        ];
        assert_eq!(found(&files), NONE, "b names the child's item, and the child names nothing");
        let mut files = files;
        files[3].1 = "use crate::a::A; pub fn g() {}";
        assert_eq!(found(&files), [["a", "b"]]);
    }

    #[test]
    fn modules_for_tests_and_bodies_inside_of_a_file_are_no_modules_of_their_own() {
        let lib = ("lib.rs", "mod a; mod b; #[cfg(all(test, unix))] mod tests;");
        let b = ("b.rs", "pub struct B;");
        let a = "pub struct A(crate::b::B);";
        assert_eq!(found(&[lib, ("a.rs", a), b]), NONE, "the file of `mod tests` is not even read");
        for text in [
            "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            "pub struct B; #[cfg(test)] use crate::a::A;",
            "pub struct B; #[test] fn f(_: crate::a::A) {}",
            "pub struct B; impl B { #[cfg(test)] fn f(_: crate::a::A) {} }",
        ] {
            assert_eq!(found(&[lib, ("a.rs", a), ("b.rs", text)]), NONE, "{text}");
        }
        let inline = "pub struct B; mod inner { use super::B; use crate::a::A; }";
        assert_eq!(found(&[lib, ("a.rs", a), ("b.rs", inline)]), [["a", "b"]]);
        let own = "pub struct B(inner::C); mod inner { pub struct C(super::B); }";
        assert_eq!(found(&[lib, ("a.rs", a), ("b.rs", own)]), NONE, "a file is no circle with itself");
        let condition = "pub struct B; #[cfg(any(test, unix))] use crate::a::A;";
        assert_eq!(found(&[lib, ("a.rs", a), ("b.rs", condition)]), [["a", "b"]], "it is shipped too");
    }

    #[test]
    fn files_are_found_as_the_compiler_finds_them() {
        let files = [
            ("main.rs", "mod a; #[path = \"elsewhere.rs\"] mod b;"),
            ("a/mod.rs", "pub mod deep; pub struct A(crate::b::B);"),
            ("a/deep.rs", "mod deeper;"),
            ("a/deep/deeper.rs", "fn f() { let _ = super::super::A; }"),
            ("elsewhere.rs", "pub struct B; use crate::a::A;"),
        ];
        assert_eq!(found(&files), [["a", "b"]]);
        assert_eq!(crate_of(&files).modules.len(), 5);
    }
}
