//! Nothing a file may hold makes this room panic, run away or blow its caps.

use crate::counting;

use counting::{AllocationCount, counted};
use policy::{
    AppTable, MAX_DIAGNOSTICS, MAX_TEXT, NoHost, Parsed, compile, format, parse, parse_bytes, parse_over,
};
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

const SOUP: [&str; 71] = [
    "application",
    "network",
    "protection",
    "trusted",
    "untrusted",
    "protected",
    "localport",
    "limit",
    "clear",
    "accept",
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
    "class voice",
    "scrub strict",
    "scrub",
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

/// What a text may be made of, again and again.
const SHAPES: [&str; 39] = [
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
    // Each kind of bracket, and all of them.
    "[",
    "(",
    "<",
    "'",
    "{ [ ( < ",
    "} ",
    "\\",
    "application a{ protection P { remoteport=1 { ",
];

#[test]
fn large_texts_of_one_kind() {
    for unit in SHAPES {
        let text = unit.repeat(MAX_TEXT / 512 / unit.len());
        everything(&parse("p", &text));
        let once = format(&text);
        assert_eq!(format(&once).len(), once.len(), "{unit}");
    }
}

/// Reads a text as a daemon does, checks that every finding is a place of the text with a remedy, and returns the cost.
fn cost(text: &str) -> AllocationCount {
    let nothing = compile(&parse("p", ""), &mut AppTable::new(), 0);
    let (taken, parsed) = counted(|| parse_over("p", text.as_bytes(), &NoHost, &nothing));
    assert!(!parsed.diagnostics.is_empty() && parsed.diagnostics.len() <= 2 * MAX_DIAGNOSTICS + 2);
    for found in &parsed.diagnostics {
        assert!(found.line >= 1 && found.column >= 1 && !found.help.is_empty(), "{found:?}");
        assert!(
            found.end.line <= 1 + text.len()
                && (found.line, found.column) <= (found.end.line, found.end.column)
        );
    }
    taken
}

/// Four times the text: not more than four times the work, but for tables that grow by doubling.
#[test]
fn what_a_text_takes_is_in_proportion_to_it() {
    for unit in SHAPES {
        let [small, large] = [1 << 17, 1 << 19].map(|octets: usize| cost(&unit.repeat(octets / unit.len())));
        assert!(large.calls <= 5 * small.calls + 1000, "{unit}: {small:?} {large:?}");
        assert!(large.peak <= 8 * small.peak, "{unit}: {small:?} {large:?}");
    }
}

/// Texts of the greatest length are refused once they are too much.
#[test]
fn the_longest_texts_stay_within_bounds() {
    let all =
        |start: &str, unit: &str| start.to_owned() + &unit.repeat((MAX_TEXT - start.len()) / unit.len());
    for (start, unit) in
        [("", ";"), ("", "application a{}"), ("application ", "a,"), ("application a { network ", "::,")]
    {
        let taken = cost(&all(start, unit));
        // Of that the text itself is one.
        assert!(taken.peak <= 4 * MAX_TEXT, "{start}{unit}: {taken:?}");
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
