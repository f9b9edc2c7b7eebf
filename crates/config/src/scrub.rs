//! The `[scrub]` section of the configuration: what a profile means that policy names, and what outer packets must look
//! like (docs/design/0025).

use scrub::{Config, Mode, Profile, Rule};

use super::read::{Reader, Value};
use super::refine::{REFINING, refine, word};

/// The settings for the scrubbing of packets, from `[scrub]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubConfig {
    /// How packets are scrubbed that arrive with an IP header of their own (bare ESP and AH, and frames); `None`: not.
    pub outer: Option<Profile>,
    profiles: [Config; Profile::ALL.len()],
}

impl Default for ScrubConfig {
    fn default() -> ScrubConfig {
        ScrubConfig { outer: None, profiles: Profile::ALL.map(engine::scrub_config) }
    }
}

impl ScrubConfig {
    /// What a profile means.
    pub fn of(&self, profile: Profile) -> Config {
        self.profiles.get(profile as usize).cloned().unwrap_or_else(|| engine::scrub_config(profile))
    }

    /// What outer packets must look like. Which of them may come at all the associations say (rule V.1), a UDP checksum may be zero where
    /// an ICV is behind it (RFC 3948 section 2.1, RFC 6935), and nobody is asked back.
    pub fn outer(&self) -> Option<Config> {
        let mut config = self.of(self.outer?);
        config.goodbye = false;
        for rule in [Rule::SecuritySanction, Rule::UdpLength] {
            // One without which a packet cannot be read may observe.
            let off = config.set_mode(rule, Mode::Off);
            let _ = off.or_else(|_| config.set_mode(rule, Mode::Observe));
        }
        Some(config)
    }
}

impl Reader<'_> {
    pub(super) fn scrub(&mut self, value: Option<&Value<'_>>) -> ScrubConfig {
        let mut out = ScrubConfig::default();
        let keys: Vec<&str> = std::iter::once("outer").chain(Profile::ALL.map(Profile::name)).collect();
        let Some(table) = self.table(value, "scrub", &keys) else { return out };
        let profiles = Profile::ALL.map(|profile| (profile.name(), Some(profile)));
        out.outer = word(self, table, "outer", None, &profiles);
        for (profile, config) in Profile::ALL.into_iter().zip(&mut out.profiles) {
            let value = table.get(profile.name());
            let Some(own) = self.table(value, profile.name(), &REFINING) else { continue };
            let at = value.map_or(0..0, |value| value.span());
            if refine(self, own, config).is_some() {
                let remedy = "leave it out: packets are cut, and answered, for their association";
                self.fault(at, "`mtu` is not for packets in the IPsec path", remedy);
            }
        }
        out
    }
}
