//! A text that is loaded over another comes to what it comes to by itself, whatever was taken over (docs/design/0021).

use std::sync::Arc;

use policy::{AppTable, Compiled, Host, NoHost, Parsed, compile, compile_over, parse_bytes_for, parse_over};
use proptest::prelude::*;

/// A daemon's way from load to load: once with what is known of the text before, once without.
struct Daemon {
    table: AppTable,
    compiled: Compiled,
}

impl Daemon {
    fn new() -> Daemon {
        let mut table = AppTable::new();
        let compiled = compile(&parse_bytes_for("p", b"", &NoHost), &mut table, 0);
        Daemon { table, compiled }
    }

    fn finish(&mut self, mut compiled: Compiled) -> Vec<String> {
        let kept = compiled.carry_over(&self.compiled);
        self.compiled = compiled;
        kept
    }

    fn over(&mut self, text: &str, host: &dyn Host) -> (Parsed, Vec<String>) {
        let generation = self.compiled.spd.generation + 1;
        let parsed = parse_over("p", text.as_bytes(), host, &self.compiled);
        let compiled = compile_over(&parsed, &mut self.table, generation, &self.compiled);
        let kept = self.finish(compiled);
        (parsed, kept)
    }

    fn anew(&mut self, text: &str, host: &dyn Host) -> (Parsed, Vec<String>) {
        let generation = self.compiled.spd.generation + 1;
        let parsed = parse_bytes_for("p", text.as_bytes(), host);
        let compiled = compile(&parsed, &mut self.table, generation);
        let kept = self.finish(compiled);
        (parsed, kept)
    }
}

/// What a text may be put together from: pieces that are sound, and some that are not or that only look like others.
const PIECES: [&str; 33] = [
    "application a { network 10.0.0.0/8 trusted; }\n",
    "application a { network 10.0.0.0/8 untrusted; }\n",
    "application b, c\n{\n  network 10.1.2.3/8 protected P;\n  network ::/0, 192.0.2.1-192.0.2.9 untrusted;\n  protection P {\n\
     remoteport=1-9,22 encryption mandatory; never; }\n}\n",
    "application b, d { network 0.0.0.0/0, ::/0 protected S; }\n",
    "application d { network 198.51.100.0/24 protected S; network 10.0.0.0/8 protected T; protection T { encryption require; } }",
    "application e uid 7-9 { network 0.0.0.0/0 untrusted; limit clear 10 mbit/s; limit clear 5 packets/s; }\n",
    "application e uid 9-12 { network 0.0.0.0/0 untrusted; }\n",
    "application e uid alice { network ::/0 trusted; }\n",
    "application unit \"x.service\" { network ::/0 untrusted; }\n",
    "application f { network www.abc.com protected P; network 0.0.0.0/0 untrusted; protection P { encryption prefer suite aes128gcm; } }\n",
    "application g { observe; network 0.0.0.0/0 untrusted; }\n",
    "application h { network 203.0.113.0/24 observe untrusted; network 0.0.0.0/0, ::/0 untrusted; }\n",
    "application i, i { }\n",
    "application /usr/bin/a from b { network 0.0.0.0/0 untrusted; }\n",
    "/* gruß\n */ application j { /* } */ network 0.0.0.0/0 /* x\n */ trusted; # } {\n }",
    "application k { network 10.0.0.0/9 trusted; network 10.128.0.0/9 trusted; network 10.0.0.0/8 untrusted; }\n",
    "application \"k l\" { network 10.0.0.0/8 protected \"P Q\"; protection \"P Q\" { authentication optional; } }\n",
    "default { network 192.0.2.0/24 untrusted; network 203.0.113.0/24 observe untrusted; }\n",
    "\nguard { network 203.0.113.0/24 untrusted; }\n",
    "\ntest t { a to 10.0.0.1:1/tcp trusted; }\n",
    "\ntest u { b to 10.0.0.1:22/tcp encryption mandatory; /usr/bin/b to 192.0.2.1:7/udp untrusted; }\n",
    "application m { network 10.0.0.0/8 protected Z; }\n",
    "application m { network 10.0.0.0/8 trusted }\n",
    "application m, { network 10.0.0.0/33 trusted; }\n",
    "application",
    "/* application a { network 10.0.0.0/8 trusted; }\n",
    "# application a { network 10.0.0.0/8 trusted; }\n",
    "\"application a { network 10.0.0.0/8 trusted; }\n",
    "}\n",
    "application n {\n",
    "*/ ",
    "\n# a comment\n\n",
    " \u{1f512}\u{feff}",
];

/// What may stand in front of all blocks.
const TOPS: [&str; 7] = [
    "",
    "# generated today\n",
    "syntax 2026;\nprotection S { encryption mandatory; }\n",
    "protection S { encryption mandatory; }\n",
    "# longer\nprotection S { encryption mandatory; }\nprotection P { remoteport=5 never; }\n",
    "protection S { remoteport=443 encryption optional; never; }\n",
    "syntax 2005;\n",
];

#[derive(Clone, Debug)]
enum Edit {
    Top(usize),
    Insert(prop::sample::Index, usize),
    Replace(prop::sample::Index, usize),
    Remove(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (0..TOPS.len()).prop_map(Edit::Top),
        (place(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (place(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Replace(at, piece)),
        place().prop_map(Edit::Remove),
        (place(), place()).prop_map(|(a, b)| Edit::Swap(a, b)),
    ]
}

fn apply(edit: &Edit, top: &mut usize, pieces: &mut Vec<usize>) {
    match edit {
        Edit::Top(new) => *top = *new,
        Edit::Insert(at, piece) => pieces.insert(at.index(pieces.len() + 1), *piece),
        _ if pieces.is_empty() => {}
        Edit::Replace(at, piece) => {
            let at = at.index(pieces.len());
            pieces[at] = *piece;
        }
        Edit::Remove(at) => drop(pieces.remove(at.index(pieces.len()))),
        Edit::Swap(a, b) => {
            let (a, b) = (a.index(pieces.len()), b.index(pieces.len()));
            pieces.swap(a, b);
        }
    }
}

/// A host that changes its mind about its users.
struct Changing(bool);

impl Host for Changing {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "alice").then_some(if self.0 { 8 } else { 1000 })
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        self.0.then(|| "[Service]\nSlice=web.slice\n".to_owned())
    }
}

fn alike(over: &Daemon, anew: &Daemon, text: &str) -> Result<(), TestCaseError> {
    let (over, anew) = (&over.compiled, &anew.compiled);
    prop_assert_eq!(&over.applications, &anew.applications, "{}", text);
    prop_assert!(over.rules.iter().eq(anew.rules.iter()), "{}", text);
    prop_assert!(over == anew, "{}\n{:#?}\n{:#?}", text, over, anew);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_loaded_over_another_text_is_what_it_is_by_itself(
        mut pieces in prop::collection::vec(0..PIECES.len(), 0..12),
        steps in prop::collection::vec((prop::collection::vec(edit(), 0..3), any::<bool>()), 1..8),
        mut top in 0..TOPS.len(),
    ) {
        let (mut over, mut anew) = (Daemon::new(), Daemon::new());
        for (edits, alice) in steps {
            for edit in &edits {
                apply(edit, &mut top, &mut pieces);
            }
            let text: String = [TOPS[top]].into_iter().chain(pieces.iter().map(|piece| PIECES[*piece])).collect();
            let (one, kept) = over.over(&text, &Changing(alice));
            let (two, as_well) = anew.anew(&text, &Changing(alice));
            prop_assert_eq!(&one.diagnostics, &two.diagnostics, "{}", text);
            prop_assert_eq!((one.tested, one.syntax, &one.broken), (two.tested, two.syntax, &two.broken));
            prop_assert_eq!((kept, &one.protections), (as_well, &two.protections));
            let headers = |parsed: &Parsed| -> Vec<_> {
                parsed.blocks.iter().map(|block| (block.header_text(), block.place(block.header))).collect()
            };
            prop_assert_eq!(headers(&one), headers(&two), "{}", text);
            prop_assert_eq!(one.render(false), two.render(false));
            prop_assert_eq!(&over.table, &anew.table);
            alike(&over, &anew, &text)?;
        }
    }

    /// The same with a text that is cut and patched anywhere.
    #[test]
    fn whatever_octets_change(
        pieces in prop::collection::vec(0..22usize, 1..8),
        patches in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..12usize, prop::sample::select(&["", "a", " ", "\n", "/*", "*/", "#", "\"", "{", "}", ";", "8"][..])),
            1..8,
        ),
    ) {
        let (mut over, mut anew) = (Daemon::new(), Daemon::new());
        let mut text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        for (at, length, new) in patches {
            let one = over.over(&text, &NoHost);
            let two = anew.anew(&text, &NoHost);
            prop_assert_eq!(&one.0.diagnostics, &two.0.diagnostics, "{}", text);
            prop_assert_eq!(&one.1, &two.1);
            alike(&over, &anew, &text)?;
            let floor = |mut at: usize| {
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            let start = floor(at.index(text.len() + 1));
            let end = floor((start + length).min(text.len()));
            text.replace_range(start..end, new);
        }
    }
}

/// Blocks of so many lines, one after the other.
fn many(blocks: u32, lines: u32) -> String {
    let line = |block: u32, at: u32| format!("  network 10.{}.{at}.0/24 protected S; # {at}\n", block % 256);
    let block = |at: u32| {
        let lines: String = (0..lines).map(|own| line(at, own)).collect();
        format!("application a{at} {{\n{lines}}}\n")
    };
    (0..blocks)
        .map(block)
        .fold("protection S { encryption mandatory; }\n".to_owned(), |text, one| text + &one)
}

/// Applications whose tables are the very ones of before.
fn taken(before: &Compiled, after: &Compiled) -> Vec<String> {
    let own = |app: &&policy::Application| {
        let had = before.find(&app.name).and_then(|old| before.spd.shared(old.id));
        had.zip(after.spd.shared(app.id)).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
    };
    after.applications.iter().filter(own).map(|app| app.name.clone()).collect()
}

#[test]
fn what_did_not_change_is_not_made_anew_wherever_it_is_now() {
    let text = many(40, 5);
    let mut daemon = Daemon::new();
    daemon.over(&text, &NoHost);
    let first = daemon.compiled.clone();
    let changed = text.replace("10.7.3.0/24", "10.7.3.0/25");
    let first_block = &text[text.find("application a0 ").unwrap()..text.find("application a1 ").unwrap()];
    for (text, others) in [
        (text.clone(), 40),
        (changed.clone(), 39),
        (format!("# generated another day\n\n{changed}"), 39),
        (changed.replace(first_block, ""), 38),
        (format!("{}{first_block}", changed.replace(first_block, "")), 39),
        (changed.replace("application a9 {", "\u{1f512} application a9 {").replace('\u{1f512}', "/* */"), 39),
        (
            changed
                .replace("application a9 {", "application new { network ::/0 trusted; }\napplication a9 {"),
            39,
        ),
        // Whatever a block has from the top of the file is its own.
        (changed.replace("encryption mandatory", "encryption optional"), 0),
    ] {
        let parsed = parse_over("p", text.as_bytes(), &NoHost, &first);
        let mut table = daemon.table.clone();
        let compiled = compile_over(&parsed, &mut table, 2, &first);
        assert_eq!(taken(&first, &compiled).len(), others, "{}", parsed.render(false));
        // And is where it is in this text.
        let rule = compiled.find("a30").unwrap().id;
        let rule = compiled.rules.iter().find(|own| own.app == rule).unwrap();
        let line = text.lines().position(|line| line.contains("10.30.0.0/24")).unwrap() + 1;
        assert_eq!((rule.line, rule.column), (line, 3));
    }
}

#[test]
fn a_block_inside_of_a_comment_is_none() {
    let text = many(3, 2);
    let mut daemon = Daemon::new();
    daemon.over(&text, &NoHost);
    let at = text.find("application a1 ").unwrap();
    let (parsed, kept) = daemon.over(&format!("{}/* {} */", &text[..at], &text[at..]), &NoHost);
    assert!(!parsed.has_errors() && kept.is_empty());
    assert_eq!(daemon.compiled.applications.len(), 1);
}

#[test]
fn an_application_that_runs_on_its_last_good_version_does_not_hold_the_whole_text() {
    let text = many(50, 20);
    let mut daemon = Daemon::new();
    daemon.over(&text, &NoHost);
    let broken = text.replace("network 10.7.3.0/24 protected", "network 10.7.3.0/24 protectd");
    let (parsed, kept) = daemon.over(&broken, &NoHost);
    assert_eq!(kept, ["a7"]);
    let text = Arc::downgrade(&parsed.text);
    drop(parsed);
    // The next load has all of the others anew.
    daemon.over(&many(51, 20).replace("application a7 {", "application a7 { oops"), &NoHost);
    assert!(text.upgrade().is_none());
    assert!(daemon.compiled.find("a7").unwrap().carried);
    let rule = daemon.compiled.find("a7").unwrap().id;
    assert_eq!(daemon.compiled.rules.iter().filter(|own| own.app == rule).count(), 21);
}

/// A text whose error is put right: what ran on meanwhile was compiled with what stood at the top before.
#[test]
fn what_was_carried_over_is_read_anew_with_the_top_of_the_new_text() {
    let with = |level: &str, end: &str| {
        format!(
            "protection S {{ encryption {level}; }}\napplication a {{ network 0.0.0.0/0 protected S{end} }}\n"
        )
    };
    let mut daemon = Daemon::new();
    daemon.over(&with("optional", ";"), &NoHost);
    let (_, kept) = daemon.over(&with("mandatory", ""), &NoHost);
    assert_eq!(kept, ["a"]);
    let (parsed, kept) = daemon.over(&with("mandatory", ";"), &NoHost);
    assert!(!parsed.has_errors() && kept.is_empty());
    let mut anew = Daemon::new();
    anew.anew(&with("mandatory", ";"), &NoHost);
    let a = |daemon: &Daemon| {
        let id = daemon.compiled.find("a").unwrap().id;
        daemon.compiled.spd.get(id).unwrap().protections().to_vec()
    };
    assert_eq!(a(&daemon), a(&anew));
}

/// A host that counts what it is asked: once for each block of [`for_alice`] whose subjects are looked at, and each
/// line of tests.
#[derive(Default)]
struct Counting(std::cell::Cell<usize>);

impl Host for Counting {
    fn user(&self, _: &str) -> Option<u32> {
        self.0.set(self.0.get() + 1);
        Some(1000)
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }
}

fn for_alice(blocks: u32) -> String {
    let block = |at| format!("application a{at} uid alice {{ network ::/0 untrusted; }}\n");
    let blocks: String = (0..blocks).map(block).collect();
    blocks + "test t { a5 uid alice to [2001:db8::1]:1/tcp untrusted; }\n"
}

/// With nothing known there is one reading; with an error, the one in vain ends there.
#[test]
fn a_text_with_an_error_is_read_once_and_no_further_than_to_the_error_before_that() {
    let asked = |read: &dyn Fn(&dyn Host)| {
        let host = Counting::default();
        read(&host);
        host.0.get()
    };
    let sound = for_alice(20);
    let wrong = |block: u32| sound.replace(&format!("a{block} uid alice {{"), "x uid alice { oops");
    let other = "syntax 2005;\napplication z { network 10.0.0.0/8 trusted; }\n";
    for first in ["", other, &sound] {
        let mut daemon = Daemon::new();
        daemon.over(first, &Counting::default());
        for text in [wrong(0), wrong(19), format!("\"\n{sound}"), sound.clone()] {
            let over = asked(&|host| drop(parse_over("p", text.as_bytes(), host, &daemon.compiled)));
            let by_itself = asked(&|host| drop(parse_bytes_for("p", text.as_bytes(), host)));
            assert!(by_itself >= 20);
            assert_eq!(over, by_itself, "{text} over {first}");
        }
    }
}

/// The same broken file, loaded again, is as broken: nobody loses what he had.
#[test]
fn an_error_is_one_again_when_the_same_text_is_loaded_again() {
    let a = "application a { network 0.0.0.0/0 protected S; }\n";
    let first =
        format!("protection S {{ encryption mandatory; }}\n{a}application z {{ network ::/0 untrusted; }}\n");
    let old = "application a { network 0.0.0.0/0 untrusted; limit clear 5 packets/s; }\n";
    for (first, broken) in [(first.as_str(), a.to_owned()), (old, format!("syntax 2005;\n{old}"))] {
        let mut daemon = Daemon::new();
        let (parsed, _) = daemon.over(first, &NoHost);
        assert!(!parsed.has_errors(), "{}", parsed.render(false));
        for _ in 0..3 {
            let (parsed, kept) = daemon.over(&broken, &NoHost);
            assert!(parsed.has_errors(), "{broken}");
            assert_eq!(kept.first().map(String::as_str), Some("a"), "{broken}");
        }
    }
}

#[test]
fn blocks_that_look_alike_for_long_are_told_apart() {
    let inner = "/* application a { */ ".repeat(200);
    let block = |last: &str| format!("application a {{ {inner} network 10.0.0.0/8 {last}; }}\n");
    let (mut over, mut anew) = (Daemon::new(), Daemon::new());
    for last in ["trusted", "untrusted", "untrusted", "trusted"] {
        let open = inner.replace(['*', '/'], "");
        for text in [block(last) + &open, inner.clone() + &block(last), open + &block(last)] {
            assert_eq!(over.over(&text, &NoHost).0.diagnostics, anew.anew(&text, &NoHost).0.diagnostics);
            assert!(over.compiled == anew.compiled);
        }
    }
}
