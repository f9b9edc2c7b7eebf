//! What a user asks of a scrubber: a profile, single rules, prefixes.

use config::scrub_text::{rule_and_mode, set_rule, with};
use scrub::{Config, Profile};
use wire::addr::Prefix;
use wire::protocol;

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

#[cfg(test)]
mod tests {
    use super::*;
    use scrub::{Mode, Rule};

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
}
