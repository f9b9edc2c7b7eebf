//! What a user asks of a scrubber: a profile, single rules, prefixes.

use std::net::IpAddr;

use scrub::{Config, Mode, Octets, Profile, Rule};
use wire::addr::Prefix;
use wire::protocol;

use crate::text::suggestion;

/// How to scrub a capture.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The rules and bounds of the scrubber.
    pub config: Config,
    /// Networks that are inside; none: the receiver of the first packet between two hosts is.
    pub inside: Vec<Prefix>,
    /// Drop frames without an IP packet.
    pub ip_only: bool,
    /// Let packets pass, unscrubbed, of which the capture did not keep all.
    pub keep_truncated: bool,
    /// The capture was made on a host whose card computes checksums and lengths: those that it had not filled in yet are filled in.
    pub offload: bool,
    /// Drop frames that may hold an IP packet behind headers that nobody here can read.
    pub drop_unread: bool,
}

impl Settings {
    /// The settings for a capture, by this profile. Both halves of connections are recorded, for there is no outside
    /// yet; nobody answers offline, so nobody is asked.
    pub fn new(profile: Profile) -> Settings {
        let mut config = Config::new(profile);
        config.protect = scrub::Protect::Both;
        config.goodbye = false;
        // A capture is made on one link, beside the way, and perhaps of what a host says to itself; it may lack packets, for which there
        // are holes in what is in store.
        config.one_link = true;
        config.may_miss = true;
        config.loopback = true;
        config.any_host = true;
        // Reports of groups: messages of one packet each, in which nothing is put together.
        config.protocols = with(config.protocols, [protocol::IGMP]);
        config.outside_routers = true;
        config.store.pieces = 1 << 16;
        Settings {
            config,
            inside: Vec::new(),
            ip_only: false,
            keep_truncated: false,
            offload: false,
            drop_unread: profile == Profile::Strict,
        }
    }

    /// Set one rule: `Q.8=off`, `tcp_first_wins=observe`.
    ///
    /// # Errors
    /// Which rules or modes there are, or why this one cannot be off.
    pub fn set_rule(&mut self, text: &str) -> Result<(), String> {
        let (word, mode) = rule_and_mode(text)?;
        set_rule(&mut self.config, word, mode)
    }
}

/// `Q.8=off`: a rule's word and a mode's.
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

/// A set and some more.
pub(crate) fn with(set: Octets, more: impl IntoIterator<Item = u8>) -> Octets {
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
    fn rules_are_set_by_number_and_name_and_mistakes_are_explained() {
        let mut settings = Settings::new(Profile::Standard);
        settings.set_rule("q.8=observe").unwrap();
        assert_eq!(settings.config.mode(Rule::FirstWins), Mode::Observe);
        settings.set_rule("tcp_first_wins=off").unwrap();
        assert_eq!(settings.config.mode(Rule::FirstWins), Mode::Off);
        for (text, says) in [
            ("Q.8", "is not RULE=MODE"),
            ("tcp_first_win=on", "did you mean tcp_first_wins?"),
            ("nonsense=on", "--rules` lists them"),
            ("Q.8=maybe", "no mode \"maybe\""),
            ("T.1=off", "cannot be off"),
        ] {
            let error = settings.set_rule(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

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
