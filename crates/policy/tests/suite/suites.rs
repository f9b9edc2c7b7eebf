//! Suites of ciphers of one's own in a policy: they are named, `alone` is asked for, and what is misspelt is said.

use crypto::Suites;
use crypto::custom::{CustomDescription, Primitive};
use policy::{AppTable, Host, Parsed, Target, choices, compile, explain, format, parse, parse_for};
use qos::graph::Aggregates;

/// A host that has configured `maes512`, also for suites that rest on it alone.
struct Configured(Suites);

impl Configured {
    fn new(alone: bool) -> Configured {
        let mut suites = Suites::standard();
        let description = CustomDescription {
            name: "maes512".to_owned(),
            version: "1".to_owned(),
            vendor: "test".to_owned(),
            primitive: Primitive::Block { block_len: 16 },
            key_len: 64,
            max_octets: None,
        };
        suites.register(&description, 40_000, alone).unwrap();
        Configured(suites)
    }
}

impl Host for Configured {
    fn suites(&self) -> &Suites {
        &self.0
    }

    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }
}

fn policy(options: &str) -> String {
    format!(
        "application curl {{\n  network 0.0.0.0/0, ::/0 protected P;\n  protection P {{\n    encryption mandatory {options};\n  \
         }}\n}}\n"
    )
}

fn found(parsed: &Parsed) -> Vec<(String, String)> {
    parsed.diagnostics.iter().map(|found| (found.code.to_string(), found.help.clone())).collect()
}

#[test]
fn a_suite_of_a_configured_cipher_is_a_suite() {
    let host = Configured::new(true);
    for options in [
        "suite maes512ctr-sha256",
        "suite maes512cbc-sha384 on-failure drop",
        "suite maes512ctr-aes256gcm",
        "suite maes512gcm alone",
        "suite maes512gcm alone while-negotiating hold",
        "on-failure drop suite maes512gcm alone",
    ] {
        let text = policy(options);
        let parsed = parse_for("p", &text, &host);
        assert_eq!(found(&parsed), [], "{options}");
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        let flow = "192.0.2.1:443/tcp".parse::<Target>().unwrap().flow(None, 0);
        let wanted = explain(&compiled, "curl", &flow).suite.unwrap();
        assert!(options.split(' ').any(|word| word == wanted), "{wanted}");
        // The usual form keeps it, and reads the same.
        let usual = format(&text);
        assert_eq!(found(&parse_for("p", &usual, &host)), [], "{usual}");
        assert_eq!(usual.contains(" alone"), options.contains(" alone"), "{usual}");
        assert_eq!(format(&usual), usual);
        // Nobody configured it elsewhere.
        assert_eq!(found(&parse("p", &text))[0].0, "RVL-P211", "{options}");
    }
}

#[test]
fn alone_is_said_where_integrity_rests_on_the_cipher_and_nowhere_else() {
    let host = Configured::new(true);
    for (options, help) in [
        ("suite maes512gcm", "write `suite maes512gcm alone` if that is meant"),
        ("suite maes512gcm on-failure drop", "write `suite maes512gcm alone` if that is meant"),
        ("suite maes512ctr-sha256 alone", "leave `alone` out"),
        ("suite maes512ctr-aes256gcm alone", "leave `alone` out"),
        ("suite aes128gcm alone", "leave `alone` out"),
        ("suite aes256cbc-sha256 alone on-failure drop", "leave `alone` out"),
    ] {
        let parsed = parse_for("p", &policy(options), &host);
        let found = found(&parsed);
        assert_eq!(found.len(), 1, "{options}: {found:?}");
        assert!(found[0].0 == "RVL-P218" && found[0].1.contains(help), "{options}: {found:?}");
        assert!(parsed.blocks.is_empty(), "{options}");
    }
    // The configuration does not allow it, whatever the policy says.
    let refused = found(&parse_for("p", &policy("suite maes512gcm alone"), &Configured::new(false)));
    assert!(refused[0].0 == "RVL-P211" && refused[0].1.contains("`alone = true`"), "{refused:?}");
    // The word is no option of its own.
    assert_eq!(found(&parse_for("p", &policy("alone"), &host))[0].0, "RVL-P108");
}

#[test]
fn a_misspelt_suite_has_a_proposal() {
    let host = Configured::new(false);
    for (word, help) in [
        ("maes512ctr-sha265", "did you mean"),
        ("mase512ctr-sha256", "did you mean `maes512ctr-sha256`?"),
        ("maes512", "a suite names its mode: maes512ctr-sha256"),
        ("maes512ctr", "maes512ctr-sha256"),
        ("aes128gmc", "did you mean `aes128gcm`?"),
        ("kuznyechik-sha256", "of one's own: maes512ctr"),
    ] {
        let found = found(&parse_for("p", &policy(&format!("suite {word}")), &host));
        assert!(found[0].0 == "RVL-P211", "{word}: {found:?}");
        let is_integrity = word == "maes512ctr-sha265" && found[0].1.contains("no integrity algorithm");
        assert!(found[0].1.contains(help) || is_integrity, "{word}: {found:?}");
    }
}

#[test]
fn an_editor_is_offered_what_is_configured() {
    let offered = |options: &str, alone| {
        let text = policy(options);
        let before = &text[..text.find(options).unwrap() + options.len()];
        choices(
            &parse("p", before).tree,
            before,
            before.len(),
            &Configured::new(alone).0,
            &Aggregates::without_graph(),
        )
    };
    let suites = offered("suite ", false);
    assert!(suites.iter().any(|suite| suite == "maes512ctr-sha256"));
    assert!(!suites.iter().any(|suite| suite == "maes512gcm"));
    assert!(offered("suite ", true).iter().any(|suite| suite == "maes512gcm"));
    assert_eq!(offered("suite maes512gcm ", true), ["alone"]);
    assert!(!offered("suite maes512ctr-sha256 ", true).iter().any(|word| word == "alone"));
    assert!(offered("suite maes512gcm alone ", true).iter().any(|word| word == "on-failure"));
}
