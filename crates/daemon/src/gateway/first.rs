//! The rules that are in force from the start: those of the daemon before, or those of the file.
//!
//! What enters: `rules` of `[gateway]`, and what was handed over. What leaves: a book of rules, before the kernel half changes.

use std::fs::File;
use std::io::Read;

use api::SpdAdd;
use serde::{Deserialize, Serialize};

use super::error::GatewayError;
use config::{Config, GatewayConfig};
use crypto::Suites;
use documents::api_error::{ApiError, Blame};
use documents::classes::Classes;
use documents::import::{self, Ends, ImportItem};
use documents::rules::SpdRules;

/// The rules of a daemon, for the one that takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandedRules {
    /// Whether that daemon was a gateway, and these are rules for what it forwards.
    pub gateway: bool,
    /// The rules in their order.
    pub rules: Vec<SpdAdd>,
}

impl HandedRules {
    /// Read what the daemon before handed over; no octets mean that it had no rules.
    ///
    /// # Errors
    /// If it does not read.
    pub fn read(octets: &[u8]) -> Result<HandedRules, ApiError> {
        match octets {
            [] => Ok(HandedRules::default()),
            octets => serde_json::from_slice(octets)
                .map_err(|error| ApiError::new(Blame::Failed, format!("the rules handed over: {error}"))),
        }
    }
}

/// The rules that are in force from the start. Those of a gateway that hands over stay, for commands may have made them; the
/// file counts for a daemon that takes over from none, from a host, or from a gateway without rules.
///
/// # Errors
/// If the file cannot be read, or a line of it is wrong, or what was handed over is.
pub fn first_rules(
    config: &Config,
    classes: &Classes,
    handed: Option<&HandedRules>,
) -> Result<SpdRules, GatewayError> {
    let suites = &config.crypto.ciphers.suites;
    let file = match &config.gateway {
        Some(GatewayConfig { rules: Some(file), .. }) => Some(read_file(file, suites, classes)),
        _ => None,
    };
    let stays = |handed: &&HandedRules| file.is_none() || handed.gateway && !handed.rules.is_empty();
    let mut book = match (handed.filter(stays), file) {
        (Some(handed), file) => {
            if let Some(difference) = difference(handed, file.as_ref().map(Result::as_ref)) {
                tracing::warn!("{difference}");
            }
            SpdRules::of(&handed.rules, suites, classes.clone())
                .map_err(|refused| GatewayError::Handed(refused.in_a_line()))?
        }
        (None, Some(file)) => {
            if handed.is_some_and(|handed| !handed.rules.is_empty()) {
                tracing::warn!(
                    "the rules handed over were not those of a gateway; the rules of the file count"
                );
            }
            file?
        }
        (None, None) => SpdRules::naming(suites, classes.clone()),
    };
    book.set_bypass_the_rest(config.gateway.as_ref().is_some_and(|gateway| gateway.bypass_the_rest));
    Ok(book)
}

/// What there is to say about a file whose rules do not count.
fn difference(handed: &HandedRules, file: Option<Result<&SpdRules, &GatewayError>>) -> Option<String> {
    // Names are given by number where the file gives none.
    let nameless = |rules: Vec<SpdAdd>| {
        rules.into_iter().map(|rule| SpdAdd { name: None, place: None, ..rule }).collect::<Vec<_>>()
    };
    let what = match file? {
        Ok(book) if nameless(book.documents()) == nameless(handed.rules.clone()) => return None,
        Ok(_) => "it says other rules than those handed over".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "the file of rules in [gateway] was not put in force: {what}; the rules handed over stay; for those of the file, \
         `ravelin spd flush` and `ravelin import`, or stop the daemon and start one"
    ))
}

fn read_file(file: &std::path::Path, suites: &Suites, classes: &Classes) -> Result<SpdRules, GatewayError> {
    let fault = |text: String| GatewayError::Rules { file: file.display().to_string(), text };
    let mut text = String::new();
    let read = File::open(file).and_then(|f| f.take(import::MAX_FILE).read_to_string(&mut text));
    read.map_err(|error| fault(error.to_string()))?;
    rules_of(&text, suites, classes)
        .map_err(|(line, text)| GatewayError::Rules { file: format!("{}:{line}", file.display()), text })
}

/// The rules of a text, or the first line that is wrong.
pub(super) fn rules_of(text: &str, suites: &Suites, classes: &Classes) -> Result<SpdRules, (usize, String)> {
    let mut book = SpdRules::naming(suites, classes.clone());
    let entries = import::read(text, Ends::Both, suites).map_err(|error| (error.line, error.text))?;
    for entry in entries {
        match entry.what {
            ImportItem::Rule(rule) => {
                book.add(&rule).map_err(|refused| (entry.line, refused.in_a_line()))?;
            }
            ImportItem::FlushRules => book.clear(),
            ImportItem::Sa(_) | ImportItem::FlushSas => {
                let text = "security associations are not configured in a file; install them in the running daemon \
                            with `ravelin sa add` or `ravelin import`";
                return Err((entry.line, text.to_owned()));
            }
        }
    }
    Ok(book)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FILE: &str =
        r#"{"rule":{"direction":"both","selectors":["remote 10.2.0.0/16"],"action":"discard"}}"#;

    fn config(file: Option<&Path>) -> Config {
        let rules = file.map_or(String::new(), |file| format!("rules = {:?}\n", file.display().to_string()));
        let text = format!(
            "policy = \"p\"\nuplinks = [\"eth0\"]\n[gateway]\ninside = [\"lan0\"]\ndefault = \"bypass\"\n{rules}"
        );
        Config::parse(Path::new("/c"), &text).unwrap()
    }

    fn handed(gateway: bool, prefixes: &[&str]) -> HandedRules {
        let line = |prefix: &&str| FILE.replace("10.2.0.0/16", prefix);
        let text = prefixes.iter().map(line).collect::<Vec<_>>().join("\n");
        let rules = rules_of(&text, &Suites::standard(), &Classes::default()).unwrap().documents();
        let handed = HandedRules { gateway, rules };
        HandedRules::read(&serde_json::to_vec(&handed).unwrap()).unwrap()
    }

    fn selectors(book: &SpdRules) -> Vec<String> {
        book.documents().into_iter().flat_map(|rule| rule.selectors).collect()
    }

    #[test]
    fn rules_handed_over_count_if_a_gateway_had_some_else_the_file_does() {
        let path = std::env::temp_dir().join(format!("ravelin-first-{}.rules", std::process::id()));
        std::fs::write(&path, FILE).unwrap();
        let with = config(Some(&path));
        let first = |config: &Config, handed: Option<HandedRules>| {
            let book = first_rules(config, &Classes::default(), handed.as_ref()).unwrap();
            // The rest, which the file is to be an exception of, is bypassed in any case.
            assert_eq!(book.in_order().len(), book.len() + 1);
            selectors(&book)
        };
        let (of_file, other) = (["remote 10.2.0.0/16"], ["remote 10.9.0.0/16"]);
        assert_eq!(first(&with, None), of_file);
        assert_eq!(first(&with, Some(HandedRules::default())), of_file);
        assert_eq!(first(&with, Some(handed(true, &[]))), of_file);
        assert_eq!(first(&with, Some(handed(false, &["10.9.0.0/16"]))), of_file);
        assert_eq!(first(&with, Some(handed(true, &["10.9.0.0/16"]))), other);
        std::fs::remove_file(&path).unwrap();
        assert!(
            first_rules(&with, &Classes::default(), None).is_err()
                && first_rules(&with, &Classes::default(), Some(&handed(true, &[]))).is_err()
        );
        assert_eq!(first(&with, Some(handed(true, &["10.9.0.0/16"]))), other);
        let without = config(None);
        assert_eq!(first(&without, Some(handed(false, &["10.9.0.0/16"]))), other);
        assert_eq!(first(&without, None), [""; 0]);
    }

    #[test]
    fn a_file_that_does_not_count_is_said_where_it_differs() {
        let (same, more) = (handed(true, &["10.2.0.0/16"]), handed(true, &["10.9.0.0/16", "10.2.0.0/16"]));
        let mut file = rules_of(FILE, &crypto::Suites::standard(), &Classes::default()).unwrap();
        assert_eq!(difference(&same, Some(Ok(&file))), None);
        // Commands may have taken rules away before, so the numbers in their names differ.
        file = rules_of(
            &format!("{FILE}\n{}", FILE.replace("10.2", "10.3")),
            &Suites::standard(),
            &Classes::default(),
        )
        .unwrap();
        file.remove("rule-1").unwrap();
        assert!(difference(&same, Some(Ok(&file))).is_some());
        assert!(difference(&more, Some(Ok(&file))).unwrap().contains("not put in force"));
        let broken = GatewayError::Missing("x".to_owned());
        assert!(difference(&more, Some(Err(&broken))).is_some());
        assert_eq!(difference(&more, None), None);
    }

    #[test]
    fn what_is_no_list_of_rules_is_refused() {
        assert_eq!(HandedRules::read(b"").unwrap(), HandedRules::default());
        assert!(HandedRules::read(b"[1]").is_err() && HandedRules::read(b"{}").is_err());
    }
}
