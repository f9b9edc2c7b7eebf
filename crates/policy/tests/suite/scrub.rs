//! Tests of `scrub PROFILE` behind an item: what it compiles to, where it is refused, and how explain, comparison and
//! the language server tell it.

use policy::{AppTable, Compiled, Explanation, Scrubbed, Target, choices, compare, compile, explain, parse};
use qos::graph::Aggregates;
use sadb::spd::Order;
use scrub::Profile;
use wire::{Flow, ScrubId};

const TEXT: &str = "application web {
  network 192.0.2.0/24 protected P;
  protection P {
    remoteport=443 encryption require suite aes256gcm scrub standard;
    remoteport=22 authentication mandatory scrub observe while-negotiating drop;
    encryption require;
  }
}
application backup {
  network 192.0.2.0/25 protected Q;
  network 192.0.2.128/25 trusted;
  network 198.51.100.0/24 observe protected Q;
  protection Q {
    protocol=tcp remoteport=440-450 encryption mandatory scrub strict;
    encryption prefer;
  }
}
application mail {
  network 192.0.2.0/24 protected M;
  protection M { encryption prefer; }
}
";

fn compiled(text: &str) -> Compiled {
    let parsed = parse("p", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn flow(to: &str) -> Flow {
    to.parse::<Target>().unwrap().flow(None, 40_000)
}

fn ask(program: &str, to: &str) -> Explanation {
    explain(&compiled(TEXT), program, &flow(to))
}

#[test]
fn an_item_says_by_which_profile_its_flows_are_scrubbed() {
    let compiled = compiled(TEXT);
    assert!(compiled.spd.scrubs());
    for (program, to, own, strictest) in [
        ("web", "192.0.2.200:443/tcp", Some(Profile::Standard), Some(Profile::Standard)),
        ("web", "192.0.2.200:443/udp", Some(Profile::Standard), Some(Profile::Standard)),
        ("web", "192.0.2.1:443/tcp", Some(Profile::Standard), Some(Profile::Strict)),
        ("web", "192.0.2.1:22/tcp", Some(Profile::Observe), Some(Profile::Observe)),
        ("web", "192.0.2.1:80/tcp", None, None),
        ("backup", "192.0.2.1:450/tcp", Some(Profile::Strict), Some(Profile::Strict)),
        ("backup", "198.51.100.1:450/tcp", None, None),
        ("mail", "192.0.2.1:443/tcp", None, Some(Profile::Strict)),
    ] {
        let app = compiled.find(program).unwrap().id;
        let terms = compiled.spd.decide(app, &flow(to)).terms;
        assert_eq!(Profile::of_id(terms.scrub), own, "{program} {to}");
        assert_eq!(Profile::of_id(compiled.spd.scrub(&flow(to))), strictest, "{program} {to}");
    }
    let plain = compiled_without();
    assert!(!plain.spd.scrubs() && plain.spd.scrub(&flow("192.0.2.1:443/tcp")) == ScrubId::NONE);
}

fn compiled_without() -> Compiled {
    compiled(&TEXT.replace(" scrub standard", "").replace(" scrub observe", "").replace(" scrub strict", ""))
}

#[test]
fn it_is_refused_where_packets_may_pass_in_clear() {
    for (item, code, says) in [
        ("encryption optional scrub strict", "RVL-P312", "in clear"),
        ("encryption prefer while-negotiating drop on-failure drop scrub strict", "RVL-P312", "in clear"),
        ("authentication accept-only scrub observe", "RVL-P312", "`accept-only` lets packets pass"),
        ("never scrub minimal", "RVL-P312", "`never` item"),
        ("encryption require scrub standart", "RVL-P217", "not a scrub profile"),
        ("encryption require scrub none", "RVL-P217", "not a scrub profile"),
        ("encryption require scrub", "RVL-P117", "`standard`"),
        ("encryption require scrub strict scrub strict", "RVL-P309", "`scrub` is given twice"),
    ] {
        let parsed =
            parse("p", &format!("application a {{ network ::/0 protected P; protection P {{ {item}; }} }}"));
        let errors: Vec<_> = parsed.diagnostics.iter().filter(|d| d.is_error()).collect();
        assert_eq!(errors.len(), 1, "{item}\\n{}", parsed.render(false));
        assert_eq!(errors[0].code.as_str(), code, "{item}");
        assert!(errors[0].message.contains(says), "{item}: {}", errors[0].message);
        assert!(!errors[0].help.is_empty() && parsed.blocks.is_empty(), "{item}");
    }
    let paper = "syntax 2005; application a { network ::/0 protected P;
        protection P { localport=any remoteport=any encryption mandatory scrub strict; } }";
    let parsed = parse("p", paper);
    assert!(parsed.diagnostics.iter().any(|d| d.code.as_str() == "RVL-P114"), "{}", parsed.render(false));
}

#[test]
fn explain_says_by_which_profile_and_whose_line_says_so() {
    let own = ask("web", "192.0.2.200:443/tcp");
    let by = own.scrub.clone().unwrap();
    assert_eq!(
        (by.profile.as_str(), by.application.as_str(), by.item),
        ("standard", "web", own.item.clone())
    );
    assert!(own.why.iter().any(|why| why.starts_with("scrubbed: standard: ")), "{own}");
    assert!(!own.to_string().contains("  scrub "), "{own}");

    let other = ask("web", "192.0.2.1:443/tcp");
    let by = other.scrub.clone().unwrap();
    assert_eq!((by.profile.as_str(), by.application.as_str()), ("strict", "backup"));
    assert_eq!(by.item.unwrap().line, 14);
    let said = other.to_string();
    assert!(
        said.contains("  scrub    p:14: protocol=tcp remoteport=440-450 encryption mandatory scrub strict;"),
        "{said}"
    );
    assert!(said.contains("line 14 says so for the sake of `backup`"), "{said}");
    assert!(said.contains("bound to `web` is scrubbed: standard"), "{said}");

    let without = ask("mail", "192.0.2.1:443/tcp").to_string();
    assert!(
        without.contains("scrubbed: strict: ") && without.contains("while an association protects it"),
        "{without}"
    );
    assert!(without.contains("bound to `mail` is not scrubbed"), "{without}");
    for (program, to) in [
        ("mail", "192.0.2.1:25/tcp"),
        ("backup", "192.0.2.200:443/tcp"),
        ("backup", "198.51.100.1:443/tcp"),
        ("nobody", "192.0.2.1:443/tcp"),
    ] {
        let got = ask(program, to);
        assert!(got.scrub.is_none() && !got.to_string().contains("scrubbed"), "{got}");
    }
    let json = serde_json::to_value(ask("web", "192.0.2.1:443/tcp")).unwrap();
    assert_eq!((&json["scrub"]["profile"], &json["scrub"]["item"]["line"]), (&"strict".into(), &14.into()));
    assert_eq!(serde_json::to_value(ask("nobody", "192.0.2.1:443/tcp")).unwrap().get("scrub"), None);
}

#[test]
fn of_equal_profiles_the_own_line_is_named() {
    let text = TEXT.replace("scrub strict", "scrub standard");
    let compiled = compiled(&text);
    let app = compiled.find("web").unwrap().id;
    let to = flow("192.0.2.1:443/tcp");
    let rule = compiled.spd.decide(app, &to).item;
    let want = Scrubbed { profile: Profile::Standard, app, rule, own: Some(Profile::Standard) };
    assert_eq!(compiled.scrubbed(app, &to), Some(want));
}

#[test]
fn another_profile_is_a_difference_but_makes_nothing_stricter() {
    let with = |option: &str| {
        let text = format!(
            "application a {{ network 192.0.2.0/24 protected P; protection P {{ encryption require{option}; }} }}"
        );
        let compiled = compiled(&text);
        compiled.spd.get(compiled.applications[0].id).unwrap().clone()
    };
    let all = ["", " scrub observe", " scrub minimal", " scrub standard", " scrub strict"];
    for a in all {
        for b in all {
            assert_eq!(compare(&with(a), &with(b)), Order::Same, "{a}, {b}");
            assert_eq!(policy::differences(&with(a), &with(b)).len(), usize::from(a != b), "{a}, {b}");
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let parsed = parse("p", TEXT);
    let items: Vec<String> =
        parsed.blocks.iter().flat_map(|b| &b.protections).flat_map(|p| &p.items).map(|i| i.text()).collect();
    assert_eq!(items[0], "remoteport=443 encryption mandatory suite aes256gcm scrub standard;");
    assert_eq!(items[1], "remoteport=22 authentication mandatory while-negotiating drop scrub observe;");
    assert!(parsed.summary().applications[0].protections[0].items[0].ends_with("scrub standard;"));
    let text = policy::format(TEXT);
    assert_eq!(policy::format(&text), text);
    assert_eq!(compiled(&text).spd, compiled(TEXT).spd);
    let said = policy::meaning(&parsed, &compiled(TEXT), TEXT.find("scrub standard").unwrap()).unwrap();
    assert!(said.lines.iter().any(|line| line.starts_with("scrubbed: standard: ")), "{said:?}");
}

#[test]
fn it_is_offered_where_it_can_stand() {
    let offered = |item: &str| {
        let text = format!("application a {{ protection P {{ {item} ");
        choices(
            &parse("p", &text).tree,
            &text,
            text.len(),
            &crypto::Suites::standard(),
            &Aggregates::without_graph(),
        )
    };
    assert!(offered("encryption require").contains(&"scrub".to_string()));
    for item in ["encryption prefer", "encryption optional", "encryption accept-only"] {
        assert!(!offered(item).contains(&"scrub".to_string()), "{item}");
    }
    assert_eq!(offered("encryption mandatory scrub"), ["minimal", "observe", "standard", "strict"]);
}
