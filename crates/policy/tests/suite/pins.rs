//! Digests behind paths: what they hold for, and that they make no other application of a program.

use std::collections::BTreeSet;

use policy::{AppTable, Code, Compiled, Digest, Image, Parsed, compile, format, parse};

const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const B: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

fn read(text: &str) -> (Parsed, Compiled) {
    let parsed = parse("p", text);
    let compiled = compile(&parsed, &mut AppTable::new(), 1);
    (parsed, compiled)
}

fn sound(text: &str) -> Compiled {
    let (parsed, compiled) = read(text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compiled
}

fn digests(list: &[&str]) -> Option<BTreeSet<Digest>> {
    Some(list.iter().map(|text| Digest::parse(text).unwrap()).collect())
}

fn path(text: &str) -> Image {
    Image::Path(text.into())
}

#[test]
fn a_digest_holds_for_its_path_wherever_it_is_named() {
    let compiled = sound(&format!(
        "application /bin/a sha256 {A} sha256 {B} {{}} application /bin/a uid 7 {{}}
         application b from /bin/c sha256 {B} uid 3 {{}} application c {{}}"
    ));
    let subjects = &compiled.subjects;
    assert_eq!(subjects.digests([&path("/bin/a")]), digests(&[A, B]));
    assert_eq!(subjects.digests([&path("/bin/c")]), digests(&[B]));
    assert_eq!(subjects.digests([&Image::Name("c".into())]), None);
    assert_eq!(subjects.digests([&path("/bin/b")]), None);
    // One file that is meant by two paths must be what both say.
    let both = [path("/bin/a"), path("/bin/c"), Image::Name("b".into())];
    assert_eq!(subjects.digests(&both), digests(&[B]));
    let names: Vec<&str> = compiled.applications.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["/bin/a", "/bin/a uid 7", "b from /bin/c uid 3", "c"]);
}

#[test]
fn another_digest_makes_no_other_application() {
    let mut table = AppTable::new();
    let of = |digest: &str, table: &mut AppTable| {
        let parsed = parse("p", &format!("application /bin/a sha256 {digest} {{}}"));
        compile(&parsed, table, 1).applications[0].id
    };
    assert_eq!(of(A, &mut table), of(B, &mut table));
    let (parsed, _) = read(&format!("application /bin/a sha256 {A} {{}} application /bin/a {{}}"));
    assert!(
        parsed.diagnostics.iter().any(|d| d.code == Code::DuplicateApplication),
        "{}",
        parsed.render(false)
    );
}

#[test]
fn what_is_kept_from_before_keeps_its_digests() {
    let mut table = AppTable::new();
    let old = compile(
        &parse("p", &format!("application /bin/a sha256 {A} {{}} application b {{}}")),
        &mut table,
        1,
    );
    let mut new = compile(
        &parse("p", &format!("application /bin/a sha256 {B}0 {{}} application b {{}}")),
        &mut table,
        2,
    );
    assert_eq!(new.carry_over(&old), ["/bin/a"]);
    assert_eq!(new.subjects.digests([&path("/bin/a")]), digests(&[A]));
}

#[test]
fn a_subject_whose_digest_cannot_be_read_stands_for_nobody() {
    let (parsed, compiled) = read("application /bin/a sha256 12 { network 0.0.0.0/0, ::/0 trusted; }");
    assert!(parsed.diagnostics.iter().any(|d| d.code == Code::BadDigest), "{}", parsed.render(false));
    assert!(compiled.find("/bin/a").is_none_or(|app| compiled.spd.get(app.id).is_none()));
}

#[test]
fn the_formatter_keeps_digests() {
    let text = format!("application /bin/a   sha256 {A}\n sha256 {B} uid 7{{network 0.0.0.0/0 trusted;}}");
    let once = format(&text);
    assert!(once.starts_with(&format!("application /bin/a sha256 {A} sha256 {B} uid 7\n{{")), "{once}");
    assert_eq!(format(&once), once);
}
