//! The language of setkey: any octets give statements, or an error with a line of the text that repeats no key.
#![no_main]

use crypto::Suites;
use crypto::custom::{CustomDescription, Primitive};
use libfuzzer_sys::fuzz_target;
use sadb::setkey::{Statement, parse};
use std::sync::LazyLock;

/// A catalogue with a cipher of one's own, so that its names are reached.
static SUITES: LazyLock<Suites> = LazyLock::new(|| {
    let mut suites = Suites::standard();
    let description = CustomDescription {
        name: "own".to_owned(),
        version: "1".to_owned(),
        vendor: "fuzz".to_owned(),
        primitive: Primitive::Block { block_len: 16 },
        key_len: 32,
        max_octets: None,
    };
    suites.register(&description, 40_000, true).expect("a cipher that can be configured");
    suites
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse(text, &SUITES) {
        Ok(statements) => {
            for statement in &statements {
                // What it says of its own lengths is true.
                if let Statement::Add(add) = statement {
                    assert_eq!(add.suite.map_or(0, |suite| suite.keymat_len()), add.keymat.len());
                    assert!(add.line as usize <= text.lines().count());
                }
            }
            // Comments and line ends say nothing.
            let spread = text.replace(';', ";\n# comment\n");
            if !text.contains(['"', '#']) {
                assert_eq!(parse(&spread, &SUITES).map(|again| again.len()), Ok(statements.len()));
            }
        }
        Err(error) => {
            assert!(error.line >= 1 && error.line as usize <= text.lines().count().max(1));
            assert!(!error.text.is_empty());
            // Quoted words and long digits could be keys.
            for (at, _) in text.match_indices("0x") {
                let digits: String = text[at + 2..].chars().take_while(char::is_ascii_hexdigit).collect();
                assert!(digits.len() <= 8 || !error.text.contains(&digits), "{error}");
            }
        }
    }
});
