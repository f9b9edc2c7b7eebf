//! The demands on one association of a bundle.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crypto::SuiteId;
use wire::{Prefix, Services};

use super::RuleError;
use crate::sa::{SaConfig, SaProtocol};
use crate::{Direction, Mode, Spi};

/// The demands of a rule on one association of its bundle. A field that is `None` is left open.
///
/// Its text is `0x1001`, or `PROTOCOL[/MODE[/LOCAL-REMOTE]]` with `any` for what is left open: `esp`, `any/tunnel`,
/// `esp/tunnel/192.0.2.1-198.51.100.1`, `esp/tunnel/192.0.2.1-any`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// The SPI of the one association that fits. Inbound and outbound associations have different SPIs, so a rule for
    /// both directions that names SPIs means the outbound ones.
    pub spi: Option<Spi>,
    /// The protocol: ESP, AH, or one of the two without a key (IPComp, IP in IP).
    pub protocol: Option<SaProtocol>,
    /// The mode of the association.
    pub mode: Option<Mode>,
    /// The outer address of this host.
    pub local: Option<IpAddr>,
    /// The outer address of the peer.
    pub remote: Option<IpAddr>,
}

impl Template {
    /// A template that any association fits.
    pub const ANY: Template = Template { spi: None, protocol: None, mode: None, local: None, remote: None };

    /// A template that only the association with this SPI fits.
    pub const fn of_spi(spi: Spi) -> Template {
        Template { spi: Some(spi), ..Template::ANY }
    }

    /// Refuse a template that no association can fit.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let may_compress = matches!(self.protocol, None | Some(SaProtocol::IpComp));
        match (self.spi, self.local, self.remote) {
            (Some(spi), ..) if spi.is_reserved() && !(spi == Spi::DEFLATE && may_compress) => {
                Err(RuleError::ReservedSpi(spi))
            }
            (_, Some(local), Some(remote)) if local.is_ipv4() != remote.is_ipv4() => {
                Err(RuleError::MixedEnds(local, remote))
            }
            _ => Ok(()),
        }
    }

    /// Whether an association fits this template. `both` says that the rule is for both directions, so that its SPI
    /// says nothing about an inbound association.
    pub fn fits(&self, sa: &SaConfig, both: bool) -> bool {
        self.fits_member(&Member::from(sa), both)
    }

    /// Whether an association fits of which only its [`Member`] is known; see [`Template::fits`].
    pub fn fits_member(&self, member: &Member, both: bool) -> bool {
        let foreign = both && member.direction == Direction::Inbound;
        self.spi.is_none_or(|spi| foreign || spi == member.spi)
            && self.protocol.is_none_or(|protocol| protocol == member.protocol)
            && self.mode.is_none_or(|mode| mode == member.mode)
            && self.local.is_none_or(|local| local == member.ends.0)
            && self.remote.is_none_or(|remote| remote == member.ends.1)
    }

    /// Whether a packet that came out of these associations, the innermost first, had what the templates of a bundle
    /// demand. More associations around them do no harm. IPComp may be missing, since it leaves a packet alone that it
    /// cannot make shorter (RFC 3173 section 2.2).
    pub fn all_fit(bundle: &[Template], members: impl Iterator<Item = Member>, both: bool) -> bool {
        let mut members = members.peekable();
        bundle.iter().all(|template| {
            members.next_if(|member| template.fits_member(member, both)).is_some()
                || template.protocol == Some(SaProtocol::IpComp)
        })
    }
}

/// The facts about an association that a template asks for.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    direction: Direction,
    spi: Spi,
    protocol: SaProtocol,
    mode: Mode,
    ends: (IpAddr, IpAddr),
    remote: Prefix,
    suite: SuiteId,
    services: Services,
}

impl Member {
    /// The peers that the association's remote selector covers.
    pub fn remote(&self) -> Prefix {
        self.remote
    }

    /// The suite of the association.
    pub fn suite(&self) -> SuiteId {
        self.suite
    }

    /// The services that the association gives by itself.
    pub fn services(&self) -> Services {
        self.services
    }
}

impl From<&SaConfig> for Member {
    fn from(sa: &SaConfig) -> Member {
        Member {
            direction: sa.direction,
            spi: sa.spi,
            protocol: sa.options.protocol,
            mode: sa.mode,
            ends: (sa.endpoints.local, sa.endpoints.remote),
            remote: sa.effective_selectors().remote,
            suite: sa.suite,
            services: sa.services(),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spi) = self.spi {
            return write!(f, "{spi}");
        }
        f.write_str(self.protocol.map_or("any", SaProtocol::name))?;
        let has_ends = self.local.is_some() || self.remote.is_some();
        if self.mode.is_some() || has_ends {
            write!(f, "/{}", self.mode.map_or("any", Mode::name))?;
        }
        if !has_ends {
            return Ok(());
        }
        let end = |end: Option<IpAddr>| end.map_or_else(|| "any".to_owned(), |end| end.to_string());
        write!(f, "/{}-{}", end(self.local), end(self.remote))
    }
}

/// The error for a text that is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no association of a bundle; write an SPI (0x1001), or PROTOCOL/MODE/LOCAL-REMOTE, of which the later \
     parts may be left out: esp, ah/transport, esp/tunnel/192.0.2.1-198.51.100.1 (protocols: any, esp, ah, ipcomp, ipip; \
     modes: any, transport, tunnel, beet; any stands for an end that is left open, too)"
)]
pub struct TemplateError(String);

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Template, TemplateError> {
        let wrong = || TemplateError(text.chars().take(64).collect());
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let spi = match text.strip_prefix("0x") {
                Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16),
                _ => text.parse(),
            };
            return spi.map(|spi| Template::of_spi(Spi(spi))).map_err(|_| wrong());
        }
        let mut parts = text.split('/');
        let protocol = match parts.next().unwrap_or_default() {
            "any" => None,
            "esp" => Some(SaProtocol::Esp),
            "ah" => Some(SaProtocol::Ah),
            "ipcomp" => Some(SaProtocol::IpComp),
            "ipip" => Some(SaProtocol::IpIp),
            _ => return Err(wrong()),
        };
        let mode = match parts.next() {
            None | Some("any") => None,
            Some("transport") => Some(Mode::Transport),
            Some("tunnel") => Some(Mode::Tunnel),
            Some("beet") => Some(Mode::Beet),
            Some(_) => return Err(wrong()),
        };
        let end = |text: &str| match text {
            "any" => Ok(None),
            text => text.parse::<IpAddr>().map(Some).map_err(|_| wrong()),
        };
        let (local, remote) = match parts.next() {
            None => (None, None),
            Some(ends) => {
                let (local, remote) = ends.split_once('-').ok_or_else(wrong)?;
                (end(local)?, end(remote)?)
            }
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Template { spi: None, protocol, mode, local, remote })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "0x00001001",
            "any",
            "esp",
            "ah/transport",
            "any/tunnel",
            "esp/any/192.0.2.1-192.0.2.2",
            "esp/tunnel/192.0.2.1-any",
            "any/any/any-2001:db8::2",
        ] {
            assert_eq!(text.parse::<Template>().unwrap().to_string(), text);
        }
        let tunnel: Template = "esp/tunnel/2001:db8::1-2001:db8::2".parse().unwrap();
        assert_eq!(tunnel.mode, Some(Mode::Tunnel));
        assert_eq!("esp/tunnel/any-any".parse::<Template>().unwrap().to_string(), "esp/tunnel");
        assert_eq!("4097".parse::<Template>().unwrap(), Template::of_spi(Spi(0x1001)));
        for text in [
            "",
            "0x",
            "0x+1",
            "0x100000000",
            "udp",
            "esp/tunel",
            "esp/tunnel/a-b",
            "esp/tunnel/192.0.2.1",
            "esp/tunnel/any",
            "esp/tunnel/192.0.2.1-",
            "esp//",
            "ah/any/::1-::2/x",
        ] {
            assert!(text.parse::<Template>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_end_that_is_left_open_is_any_and_the_other_one_counts() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let member = Member {
            direction: Direction::Outbound,
            spi: Spi(0x1001),
            protocol: SaProtocol::Esp,
            mode: Mode::Tunnel,
            ends: (ip("192.0.2.1"), ip("192.0.2.2")),
            remote: Prefix::host(ip("192.0.2.2")),
            suite: SuiteId::AES_128_GCM,
            services: Services::ENCRYPTED,
        };
        for (ends, fits) in [
            ("192.0.2.1-any", true),
            ("any-192.0.2.2", true),
            ("any-any", true),
            ("192.0.2.2-any", false),
            ("any-192.0.2.1", false),
        ] {
            let template: Template = format!("esp/tunnel/{ends}").parse().unwrap();
            assert_eq!(template.fits_member(&member, false), fits, "{ends}");
        }
    }
}
