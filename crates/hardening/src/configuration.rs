//! Appropriate and tested configuration (paper 004 section 8, third remedy): the configuration and the policy are whose
//! they should be, the policy has tests, the host is closed from boot on, and only root asks the daemon.

use std::path::Path;

use api::Check;
use rustix::fs::FileType;

use crate::finding::{Outcome, Tally, check, or_unknown};
use crate::settings::{Settings, SettingsError};
use crate::tree::{ReadError, Tree};
use crate::units;

/// The units of Ravelin, and the target that wants each.
const UNITS: [(&str, &str); 2] =
    [("ravelin-boot.service", "sysinit.target"), ("ravelin.service", "multi-user.target")];

/// Makes the checks of the configuration.
pub(crate) fn checks(tree: &Tree, settings: &Settings) -> Vec<Check> {
    let guard = |path: Option<&Path>| match path {
        Some(path) => {
            format!("`chown root:root {0} && chmod go-w {0}`, and each folder above alike", plain(path))
        }
        None => "`ravelin init --dir /etc/ravelin` writes a first configuration and policy".to_owned(),
    };
    let there = settings.table.is_ok().then_some(settings.file.as_path());
    let policy = settings.policy();
    let tests = "write `test \"NAME\" { PROGRAM to ADDRESS:PORT/PROTOCOL encryption mandatory; }` into the policy \
                 (ravelin-policy(5), \"Tests\"), then `ravelin policy check FILE`";
    let legacy =
        "take `legacy = true` out of [crypto], and `ravelin policy check FILE` shows who still needs it";
    let socket = "start the daemon again, which makes the socket root's alone: `systemctl restart ravelin`";
    vec![
        check("configuration", or_unknown(configuration(tree, settings)), guard(there)),
        check("policy", or_unknown(policy_file(tree, settings)), guard(policy.as_deref())),
        check("policy tests", or_unknown(policy_tests(tree, settings)), tests),
        check(
            "units",
            or_unknown(ours_enabled(tree)),
            "`systemctl enable ravelin-boot ravelin`, where the package is installed",
        ),
        check("control socket", or_unknown(control_socket(tree, settings)), socket),
        check("weak suites", weak_suites(settings), legacy),
    ]
}

/// A path to be typed; one that a shell would read as something else stands as a word.
fn plain(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text.bytes().all(|c| c.is_ascii_alphanumeric() || b"/._-".contains(&c));
    if is_plain { text } else { "FILE".to_owned() }
}

fn configuration(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    let file = settings.file.display();
    Ok(match &settings.table {
        Err(SettingsError::Read(error)) if error.is_absent() => Outcome::Bad(error.to_string()),
        Err(SettingsError::Read(error)) => Outcome::Unknown(error.to_string()),
        Err(SettingsError::Malformed(why)) => Outcome::Bad(why.clone()),
        Ok(_) => match tree.is_guarded(&settings.file)? {
            Ok(()) => Outcome::Good(format!("only root can change {file}")),
            Err(why) => Outcome::Bad(why),
        },
    })
}

/// The path of the policy, or why it is not known.
fn policy_path(settings: &Settings) -> Result<std::path::PathBuf, Outcome> {
    if let Err(error) = &settings.table {
        return Err(Outcome::Unknown(format!("which file it is: {error}")));
    }
    let missing = || Outcome::Unknown(format!("{} has no `policy`", settings.file.display()));
    settings.policy().ok_or_else(missing)
}

fn policy_file(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    let path = match policy_path(settings) {
        Ok(path) => path,
        Err(found) => return Ok(found),
    };
    if !tree.has(&path)? {
        return Ok(Outcome::Bad(format!("{} is not there", path.display())));
    }
    Ok(match tree.is_guarded(&path)? {
        Ok(()) => Outcome::Good(format!("only root can change {}", path.display())),
        Err(why) => Outcome::Bad(why),
    })
}

fn policy_tests(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    let path = match policy_path(settings) {
        Ok(path) => path,
        Err(found) => return Ok(found),
    };
    Ok(match test_lines(&tree.text(&path)?) {
        0 => Outcome::Bad(format!("{} has no line of a test", path.display())),
        n => Outcome::Good(format!("{n} lines of tests, which each load of the policy asks")),
    })
}

/// The number of lines in the `test` blocks of a policy (ravelin-policy(5), "Tests"). Comments and names in quotes count
/// as what they are. Whether the lines come true is for `ravelin policy check`.
fn test_lines(policy: &str) -> usize {
    let mut depth = 0_usize;
    let mut lines = 0_usize;
    let mut in_test = false;
    // The words outside of blocks since the last block or statement.
    let mut words: Vec<String> = Vec::new();
    for token in tokens(policy) {
        match token.as_str() {
            "{" => {
                if depth == 0 {
                    in_test = words.first().is_some_and(|word| word == "test") && words.len() == 2;
                }
                depth += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    in_test = false;
                    words.clear();
                }
            }
            ";" if depth == 0 => words.clear(),
            ";" if depth == 1 && in_test => lines += 1,
            _ if depth == 0 => words.push(token),
            _ => {}
        }
    }
    lines
}

/// The tokens of a policy: braces, semicolons, words, and names in quotes, which keep their quote.
fn tokens(policy: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut rest = policy.chars().peekable();
    while let Some(c) = rest.next() {
        let comment = c == '#' || (c == '/' && word.is_empty() && matches!(rest.peek(), Some('/' | '*')));
        let ends = comment || c.is_whitespace() || matches!(c, '{' | '}' | ';' | '"' | ',');
        if ends && !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        match c {
            _ if comment && rest.peek() == Some(&'*') && c == '/' => {
                let mut last = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            _ if comment => rest.by_ref().take_while(|c| *c != '\n').for_each(drop),
            '"' => {
                let mut name = String::from('"');
                while let Some(c) = rest.next().filter(|c| !matches!(c, '"' | '\n')) {
                    if c == '\\' {
                        rest.next();
                    }
                    name.push(c);
                }
                out.push(name);
            }
            '{' | '}' | ';' => out.push(c.to_string()),
            _ if ends => {}
            _ => word.push(c),
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

fn ours_enabled(tree: &Tree) -> Result<Outcome, ReadError> {
    let mut tally = Tally::default();
    let all = units::enabled(tree)?;
    for (unit, target) in UNITS {
        if units::file(tree, unit)?.is_none() {
            tally.bad(format!("{unit} is not installed"));
        } else if !all.contains(unit) {
            tally.bad(format!("{unit} is not enabled, so {target} does not start it"));
        }
    }
    Ok(tally.outcome("protected traffic is refused from boot on, and the daemon starts"))
}

fn control_socket(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    let path = settings.control_socket();
    let facts = match tree.facts(&path) {
        Err(error) if error.is_absent() => {
            return Ok(Outcome::Unknown(format!("{error}: no daemon runs")));
        }
        facts => facts?,
    };
    let mut tally = Tally::default();
    let shown = path.display();
    if facts.kind != FileType::Socket {
        tally.bad(format!("{shown} is no socket"));
    }
    // Who may write to a socket may send requests.
    if facts.mode & 0o077 != 0 {
        tally.bad(format!("{shown} is open to group or others (mode {:04o})", facts.mode));
    }
    if let Err(why) = tree.is_guarded(&path)? {
        tally.bad(why);
    }
    Ok(tally.outcome(format!("{shown} is root's alone")))
}

fn weak_suites(settings: &Settings) -> Outcome {
    let legacy = match &settings.table {
        Err(error) => return Outcome::Unknown(error.to_string()),
        Ok(_) => settings.get(&["crypto", "legacy"]),
    };
    match legacy.map(toml::Value::as_bool) {
        None | Some(Some(false)) => Outcome::Good("DES, 3DES and HMAC-MD5 are not to be had".to_owned()),
        Some(Some(true)) => {
            Outcome::Bad("DES, 3DES and HMAC-MD5 may be used (RFC 8221 says not to)".to_owned())
        }
        Some(None) => Outcome::Unknown("`legacy` is neither true nor false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_counted_where_the_language_has_them() {
        for (text, lines) in [
            ("test \"a b\" { curl to 192.0.2.1:443/tcp trusted; ssh to 192.0.2.1:22/tcp never; }", 2),
            ("test a{curl to 192.0.2.1:443/tcp trusted;}", 1),
            ("syntax 2026; /* x */ test /* y */ a # z\n { b to 192.0.2.1:1/tcp trusted; }", 1),
            ("# test a { b to 192.0.2.1:1/tcp trusted; }", 0),
            ("// test a { b; }\n/* test a { b; } */", 0),
            ("application test { network 192.0.2.0/24 trusted; }", 0),
            ("application \"x test a { b; }\" { network 192.0.2.0/24 trusted; }", 0),
            ("test a { }", 0),
            ("test", 0),
            (
                "application /usr/bin/x { network 192.0.2.1 trusted; } test a { b to 192.0.2.1:1/tcp trusted; }",
                1,
            ),
            ("\"\\\"\" { a; } } } test a { b; }", 1),
        ] {
            assert_eq!(test_lines(text), lines, "{text}");
        }
    }
}
