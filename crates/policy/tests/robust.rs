//! Nothing a file may hold makes this room panic, run away or blow its caps.

use policy::{AppTable, MAX_DIAGNOSTICS, MAX_TEXT, Parsed, compile, format, parse, parse_bytes};
use proptest::prelude::*;

fn everything(parsed: &Parsed) {
    let compiled = compile(parsed, &mut AppTable::new(), 1);
    assert!(parsed.diagnostics.len() <= 2 * MAX_DIAGNOSTICS + 2);
    assert_eq!(parsed.has_errors(), parsed.diagnostics.iter().any(|d| d.is_error()));
    assert_eq!(compiled.applications.len(), parsed.blocks.iter().map(|b| b.subjects.len()).sum::<usize>());
    let shown = parsed.render(false);
    for d in &parsed.diagnostics {
        assert!(shown.contains(&format!("{}:{}", d.line, d.column)), "{d:?}\n{shown}");
    }
    parsed.render(true);
    let _ = parsed.summary().to_string();
    for (_, policy) in compiled.spd.apps() {
        assert_eq!(policy::compare(policy, policy), sadb::spd::Order::Same);
    }
}

const SOUP: [&str; 67] = [
    "application",
    "network",
    "protection",
    "trusted",
    "untrusted",
    "protected",
    "localport",
    "limit",
    "clear",
    "mbit/s",
    "packets/s",
    "burst",
    "remoteport",
    "encryption",
    "authentication",
    "optional",
    "mandatory",
    "any",
    "{",
    "}",
    ";",
    ",",
    "=",
    "P",
    "ssh",
    "10.0.0.0/8",
    "::/0",
    "10.0.0.1-10.0.0.9",
    "-",
    "/",
    "80",
    "99999",
    "\"q\"",
    "\"",
    "/*",
    "*/",
    "#",
    "\n",
    "//",
    "\u{1f512}",
    "www.abc.com",
    "syntax 2005;",
    "syntax 2026;",
    "\nprotection T {",
    "\ndefault {",
    "\ntest t {",
    "protocol=tcp",
    "protocol=icmp",
    "localport=any",
    "remoteport=1-9,https",
    "encryption require;",
    "never",
    "prefer",
    "accept-only",
    "suite aes128gcm",
    "while-negotiating hold",
    "on-failure pass",
    "class",
    "anonymous",
    "from",
    "unit \"x.service\"",
    "cgroup /a/b",
    "uid 7-9",
    "to 10.0.0.1:80/tcp",
    "to [::1]:80/tcp",
    "from-program",
    "\napplication ssh {",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn octets(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        everything(&parse_bytes("p", &bytes));
    }

    #[test]
    fn characters(text in any::<String>()) {
        everything(&parse("p", &text));
        prop_assert_eq!(format(&format(&text)), format(&text));
    }

    #[test]
    fn token_soup(words in prop::collection::vec((prop::sample::select(&SOUP[..]), any::<bool>()), 0..80)) {
        let text: String = words.iter().map(|(w, gap)| format!("{w}{}", if *gap { " " } else { "" })).collect();
        everything(&parse("p", &text));
        prop_assert_eq!(format(&format(&text)), format(&text));
    }
}

#[test]
fn large_texts_of_one_kind() {
    let texts = [
        "{",
        "}",
        ";",
        "/*",
        "\"",
        "application",
        "application a{",
        "application a{}",
        "a ",
        "$ ",
        "\n",
        "\u{1f512}",
        "application a{network ",
        "network 10.0.0.0/8 trusted;",
        "/* x */ ",
        "protection P {",
        "- ",
        "application a,",
        "application a uid 1-2,",
        "protection P {",
        "protection P { remoteport=zzzzzzzzzzzz encryption require; }",
        "\ntest t {",
        "a to 192.0.2.1:1/tcp trusted;",
        "\ndefault {",
        "protocol=",
        "1,",
        "from b ",
        // One word as long as the text, and one that is a name; statements with nothing in them; braces in braces.
        "x",
        "\"x y\", ",
        "application a { ; ",
        "application a { { ",
        "application a { protection P { ; { ",
    ];
    for unit in texts {
        let text = unit.repeat(MAX_TEXT / 512 / unit.len());
        everything(&parse("p", &text));
        let once = format(&text);
        assert_eq!(format(&once).len(), once.len(), "{unit}");
    }
}

#[test]
fn a_large_sound_policy() {
    let networks: String =
        (0..20_000u32).map(|n| format!("network 10.{}.{}.0/24 trusted;", n / 256, n % 256)).collect();
    let text = format!("application a {{ {networks} network ::/0 untrusted; }}");
    let parsed = parse("p", &text);
    assert!(!parsed.has_errors());
    everything(&parsed);
    assert_eq!(format(&text).lines().count(), 20_004);
}
