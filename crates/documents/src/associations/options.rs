//! The options of an association, from their words and back.

use api::{DscpRule, SaAdd, WordOr};
use sadb::sa::{
    DontFragment, Dscp, Encapsulation, Fragmentation, HeaderPolicy, HopLimit, KeyClass, LifeState, Lifetime,
    Limits, Padding, PathMtu, SaOptions, SaProtocol, Tfc,
};
use sadb::spd::PortRange;
use wire::Time;

use super::defaults::{Defaults, bad};
use crate::api_error::ApiError;

/// The options that a request asks for.
///
/// # Errors
/// What is wrong with it.
pub fn read(request: &SaAdd, defaults: &Defaults<'_>) -> Result<SaOptions, ApiError> {
    let protocol = match request.kind {
        api::SaType::Esp => SaProtocol::Esp,
        api::SaType::Ah => SaProtocol::Ah,
        api::SaType::Ipcomp => SaProtocol::IpComp,
        api::SaType::Ipip => SaProtocol::IpIp,
    };
    let encapsulation = match request.encapsulation {
        Some(api::Encapsulation::Udp) => Encapsulation::Udp,
        Some(api::Encapsulation::None) => Encapsulation::None,
        None if protocol == SaProtocol::Esp => Encapsulation::Udp,
        None => Encapsulation::None,
    };
    let tfc = match &request.tfc {
        None => Tfc::None,
        Some(WordOr::Value(0)) => {
            return Err(bad("lengths cannot be a multiple of 0 octets").remedy("give 1 or more"));
        }
        Some(WordOr::Value(octets)) => Tfc::Multiple(*octets),
        Some(WordOr::Word(word)) => match word.as_str() {
            "none" => Tfc::None,
            "full" => Tfc::Full,
            _ => return Err(word_error("tfc", word, "none, full, or a number of octets")),
        },
    };
    let padding = match request.padding.as_deref() {
        None => defaults.padding,
        Some("least") => Padding::Least,
        Some("blocks") => Padding::Blocks,
        Some(word) => return Err(word_error("padding", word, "least or blocks")),
    };
    Ok(SaOptions {
        protocol,
        encapsulation,
        extended_sequence: request.esn,
        lifetime: lifetime(&request.lifetime, defaults.random)?,
        headers: match &request.headers {
            Some(asked) => headers(asked)?,
            None => HeaderPolicy::default(),
        },
        tfc,
        padding,
        next: request.next.map(|spi| sadb::Spi(spi.0)),
        class: class(request.match_word())?,
        aggregate: defaults.classes.number(request.class_name())?,
        keepalive: match &request.keepalive {
            None => 0,
            Some(WordOr::Value(0)) => {
                return Err(
                    bad("keepalives after 0 seconds never end").remedy("give 1 or more, or leave it out")
                );
            }
            Some(WordOr::Value(seconds)) => *seconds,
            Some(WordOr::Word(word)) if word == "on" => defaults.keepalive,
            Some(WordOr::Word(word)) => {
                return Err(word_error("keepalive", word, "on, or a number of seconds"));
            }
        },
        dummy: request.dummy.unwrap_or(0),
        follow_peer: request.follow_peer,
    })
}

/// What an inbound association is found by.
///
/// # Errors
/// If it is none of the words.
pub fn class(word: Option<&str>) -> Result<KeyClass, ApiError> {
    match word {
        None | Some("spi") => Ok(KeyClass::Spi),
        // The longer words are those of RFC 4301 section 4.1.
        Some("spi+dst" | "spi-destination") => Ok(KeyClass::SpiDestination),
        Some("spi+dst+src" | "spi-destination-source") => Ok(KeyClass::SpiDestinationSource),
        Some(word) => Err(word_error("match", word, "spi, spi+dst or spi+dst+src")),
    }
}

/// Its word; `None` for the SPI alone.
pub(super) fn class_word(class: KeyClass) -> Option<String> {
    match class {
        KeyClass::Spi => None,
        KeyClass::SpiDestination => Some("spi+dst".to_owned()),
        KeyClass::SpiDestinationSource => Some("spi+dst+src".to_owned()),
    }
}

/// Limits as they count.
pub fn limits(asked: &api::Limits) -> Limits {
    Limits {
        bytes: asked.bytes,
        packets: asked.packets,
        seconds: asked.seconds,
        seconds_used: asked.seconds_used,
    }
}

fn lifetime(asked: &api::Lifetime, random: u32) -> Result<Lifetime, ApiError> {
    if asked.jitter > 50 {
        return Err(bad(format!("a jitter of {} percent", asked.jitter)).remedy("give 0 to 50 percent"));
    }
    let lifetime = Lifetime { soft: limits(&asked.soft), hard: limits(&asked.hard) };
    check_lifetime(lifetime)?;
    Ok(lifetime.jittered(asked.jitter, random))
}

/// A soft limit behind the hard one would never be met: no key manager would hear of it before the end.
pub fn check_lifetime(Lifetime { soft, hard }: Lifetime) -> Result<(), ApiError> {
    let pairs = [
        ("bytes", soft.bytes, hard.bytes),
        ("packets", soft.packets, hard.packets),
        ("seconds", soft.seconds, hard.seconds),
        ("seconds_used", soft.seconds_used, hard.seconds_used),
    ];
    match pairs.into_iter().find(|(_, soft, hard)| *hard != 0 && soft > hard) {
        None => Ok(()),
        Some((what, soft, hard)) => {
            Err(bad(format!("the soft limit of {soft} {what} lies behind the hard one of {hard}"))
                .remedy("give a soft limit that is met first, or none"))
        }
    }
}

fn headers(asked: &api::Headers) -> Result<HeaderPolicy, ApiError> {
    let default = HeaderPolicy::default();
    Ok(HeaderPolicy {
        dscp: match &asked.dscp {
            None => default.dscp,
            Some(DscpRule::Set(dscp)) => Dscp::Set(*dscp),
            Some(DscpRule::Map(map)) => {
                let map: [u8; 64] = map.as_slice().try_into().map_err(|_| {
                    bad(format!("a DSCP table of {} values", map.len()))
                        .remedy("give 64 values, one for each inner DSCP")
                })?;
                Dscp::Map(Box::new(map))
            }
            Some(DscpRule::Word(word)) if word == "copy" => Dscp::Copy,
            Some(DscpRule::Word(word)) => {
                return Err(word_error("dscp", word, "copy, a value from 0 to 63, or 64 of them"));
            }
        },
        dscp_inward: asked.dscp_inward,
        ecn: asked.ecn.unwrap_or(default.ecn),
        df: match asked.df.as_deref() {
            None | Some("copy") => DontFragment::Copy,
            Some("set") => DontFragment::Set,
            Some("clear") => DontFragment::Clear,
            Some(word) => return Err(word_error("df", word, "copy, set or clear")),
        },
        hop_limit: match &asked.hop_limit {
            None => default.hop_limit,
            Some(WordOr::Value(0)) => {
                return Err(bad("a hop limit of 0 goes nowhere").remedy("give 1 to 255, or copy"));
            }
            Some(WordOr::Value(limit)) => HopLimit::Set(*limit),
            Some(WordOr::Word(word)) if word == "copy" => HopLimit::Copy,
            Some(WordOr::Word(word)) => return Err(word_error("hop_limit", word, "copy, or 1 to 255")),
        },
        fragment: match asked.fragment.as_deref() {
            None | Some("after") => Fragmentation::After,
            Some("before") => Fragmentation::Before,
            Some(word) => return Err(word_error("fragment", word, "after or before")),
        },
    })
}

fn word_error(field: &str, word: &str, allowed: &str) -> ApiError {
    let word: String = word.chars().take(32).collect();
    bad(format!("{field} cannot be {word:?}")).remedy(format!("write {allowed}"))
}

/// Ports from `443` or `1000-2000`.
///
/// # Errors
/// If the text is neither.
pub fn ports(text: Option<&str>) -> Result<PortRange, ApiError> {
    let Some(text) = text else { return Ok(PortRange::ANY) };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => Ok(PortRange { first, last }),
        _ => {
            let text: String = text.chars().take(32).collect();
            Err(bad(format!("{text:?} are no ports")).remedy("write 443, or 1000-2000"))
        }
    }
}

/// Ports as text; `None`: every port.
pub fn ports_text(ports: PortRange) -> Option<String> {
    if ports == PortRange::ANY {
        None
    } else if ports.first == ports.last {
        Some(ports.first.to_string())
    } else {
        Some(format!("{}-{}", ports.first, ports.last))
    }
}

/// The type of an association.
pub fn kind(protocol: SaProtocol) -> api::SaType {
    match protocol {
        SaProtocol::Esp => api::SaType::Esp,
        SaProtocol::Ah => api::SaType::Ah,
        SaProtocol::IpComp => api::SaType::Ipcomp,
        SaProtocol::IpIp => api::SaType::Ipip,
    }
}

/// How its outer packets travel.
pub fn encapsulation(encapsulation: Encapsulation) -> api::Encapsulation {
    match encapsulation {
        Encapsulation::Udp => api::Encapsulation::Udp,
        Encapsulation::None => api::Encapsulation::None,
    }
}

/// Its limits, jitter applied.
pub fn lifetime_info(lifetime: Lifetime) -> api::Lifetime {
    let limits = |limits: Limits| api::Limits {
        bytes: limits.bytes,
        packets: limits.packets,
        seconds: limits.seconds,
        seconds_used: limits.seconds_used,
    };
    api::Lifetime { soft: limits(lifetime.soft), hard: limits(lifetime.hard), jitter: 0 }
}

/// What is known of its path.
pub fn pmtu(path: &PathMtu, now: Time) -> api::PmtuInfo {
    api::PmtuInfo {
        configured: path.configured(),
        learned: path.learned().is_some(),
        age_seconds: path.learned().map(|at| now.since(at).as_secs()),
    }
}

/// Where it is in its life.
pub fn state(state: LifeState) -> api::LifeState {
    match state {
        LifeState::Mature => api::LifeState::Mature,
        LifeState::Dying => api::LifeState::Dying,
        LifeState::Dead => api::LifeState::Dead,
    }
}
