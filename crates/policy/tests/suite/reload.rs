//! Loading a policy over another: what a text with errors may and may not change.

use policy::{AppTable, Compiled, Target, Verdict, compile, explain, parse, parse_bytes};

const OLD: &str = "application ssh { network 0.0.0.0/0 untrusted; }
application curl, wget { network 0.0.0.0/0 protected P; protection P { localport=any remoteport=any
encryption mandatory; } }
";

fn verdict(compiled: &Compiled, app: &str) -> Verdict {
    explain(compiled, app, &"192.0.2.1:22/tcp".parse::<Target>().unwrap().flow(None, 1)).verdict
}

fn over(text: &[u8]) -> (Compiled, Vec<String>) {
    let mut table = AppTable::new();
    let old = compile(&parse("p", OLD), &mut table, 1);
    let mut new = compile(&parse_bytes("p", text), &mut table, 2);
    let kept = new.carry_over(&old);
    (new, kept)
}

#[test]
fn a_broken_block_keeps_its_last_good_version() {
    let (new, kept) = over(
        b"application ssh { network 0.0.0.0/0 trusted; }
          application wget, curl { network 0.0.0.0/0 protectd P; }",
    );
    assert_eq!(kept, ["curl", "wget"]);
    assert_eq!((verdict(&new, "ssh"), verdict(&new, "curl")), (Verdict::Bypass, Verdict::Protect));
    let flow = "192.0.2.1:22/tcp".parse::<Target>().unwrap().flow(None, 1);
    let why = explain(&new, "curl", &flow);
    assert_eq!(why.item.as_ref().unwrap().line, 2);
    assert!(why.notes.iter().any(|n| n.contains("last good version")), "{why}");
    assert_eq!(new.spd.generation, 2);
}

#[test]
fn an_unreadable_name_or_text_takes_no_protection_away() {
    for text in [
        &b"application \"ssh { network 0.0.0.0/0 trusted; }"[..],
        b"aplikation ssh",
        b"\xff",
        &vec![b' '; policy::MAX_TEXT + 1],
    ] {
        let (new, kept) = over(text);
        assert_eq!(kept, ["ssh", "curl", "wget"]);
        assert_eq!(verdict(&new, "ssh"), Verdict::Discard);
    }
}

#[test]
fn a_sound_text_removes_what_it_does_not_name() {
    let (new, kept) = over(b"application curl { network ::/0 trusted; }");
    assert!(kept.is_empty());
    assert_eq!((verdict(&new, "ssh"), new.applications.len()), (Verdict::Bypass, 1));
}

#[test]
fn numbers_stay_over_loads() {
    let mut table = AppTable::new();
    let old = compile(&parse("p", OLD), &mut table, 1);
    let new = compile(&parse("p", "application x {} application wget {} application ssh {}"), &mut table, 2);
    let id = |c: &Compiled, name: &str| c.find(name).unwrap().id;
    assert_eq!(id(&old, "ssh"), id(&new, "ssh"));
    assert_eq!(id(&old, "wget"), id(&new, "wget"));
    assert_eq!(id(&new, "x").0, 4);
}
