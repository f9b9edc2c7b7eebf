//! What a user writes about a scrubber, in the configuration or on the command line: single rules, networks.

use std::net::IpAddr;

use scrub::{Config, Mode, Octets, Rule};
use wire::addr::Prefix;

use crate::suggestion::suggestion;

/// The rule's word and the mode's in a text such as `Q.8=off`.
///
/// # Errors
/// What it should look like.
pub fn rule_and_mode(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=')
        .ok_or_else(|| format!("{text:?} is not RULE=MODE, as in Q.8=observe; modes are off, observe and on"))
}

/// Set one rule, by number or name.
///
/// # Errors
/// Which rules or modes there are, or why this one cannot be off.
pub fn set_rule(config: &mut Config, word: &str, mode: &str) -> Result<(), String> {
    let rule = Rule::find(word).ok_or_else(|| {
        let words: Vec<&str> = Rule::ALL.iter().flat_map(|rule| [rule.id(), rule.name()]).collect();
        let near = suggestion(word, &words).map(|near| format!("; did you mean {near}?"));
        format!(
            "no rule is called {word:?}{} `ravelin scrub --rules` lists them",
            near.unwrap_or_else(|| ";".to_owned())
        )
    })?;
    let mode = [Mode::Off, Mode::Observe, Mode::On]
        .into_iter()
        .find(|known| known.name() == mode)
        .ok_or_else(|| format!("rule {rule} has no mode {mode:?}; modes are off, observe and on"))?;
    config.set_mode(rule, mode).map_err(|error| error.to_string())
}

/// A set with some more octets in it.
pub fn with(set: Octets, more: impl IntoIterator<Item = u8>) -> Octets {
    Octets::of(&(0..=u8::MAX).filter(|value| set.contains(*value)).chain(more).collect::<Vec<_>>())
}

/// Two networks in the form `192.0.2.0/24=198.51.100.7`.
///
/// # Errors
/// What is wrong with it.
pub fn pair(text: &str) -> Result<(Prefix, Prefix), String> {
    let (one, other) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not two networks; write them like 192.0.2.0/24=198.51.100.7"))?;
    Ok((prefix(one)?, prefix(other)?))
}

/// A network: `192.0.2.0/24`, `2001:db8::/32`, or one address.
///
/// # Errors
/// What is wrong with it.
pub fn prefix(text: &str) -> Result<Prefix, String> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("{text:?} is no network; write one like 192.0.2.0/24 or 2001:db8::/32"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = match len {
        None => most,
        Some(len) => len
            .parse()
            .ok()
            .filter(|len| *len <= most)
            .ok_or_else(|| format!("{text:?}: a prefix length of this family is 0 to {most}"))?,
    };
    Prefix::new(address, len).ok_or_else(|| format!("{text:?} is no network"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        assert!(prefix("192.0.2.0/24").unwrap().contains("192.0.2.7".parse().unwrap()));
        assert!(prefix("2001:db8::1").unwrap().contains("2001:db8::1".parse().unwrap()));
        let (one, other) = pair("192.0.2.0/24=2001:db8::/32").unwrap();
        assert_eq!((one.to_string().as_str(), other.to_string().as_str()), ("192.0.2.0/24", "2001:db8::/32"));
        assert!(pair("192.0.2.0/24").unwrap_err().contains("not two networks"));
        for (text, says) in [("192.0.2.0/33", "0 to 32"), ("lan", "no network"), ("::/x", "0 to 128")] {
            assert!(prefix(text).unwrap_err().contains(says));
        }
    }
}
