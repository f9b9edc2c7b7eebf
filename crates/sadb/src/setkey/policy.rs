//! The `spdadd` statement: selector, direction and the demand.

use std::net::IpAddr;

use wire::{Prefix, protocol};

use super::error::SetkeyError;
use super::words::{Words, shown, shown_part};
use crate::Mode;
use crate::sa::SaProtocol;
use crate::spd::PortRange;

/// One end of a policy's selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The addresses of this end.
    pub prefix: Prefix,
    /// The ports of this end.
    pub ports: PortRange,
}

/// The upper layer protocol of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// The word `any`: every protocol.
    Any,
    /// One protocol by its number.
    Protocol(u8),
    /// An ICMP type and code: `icmp6,type,code` and `icmp,type,code`, or with a space behind the name.
    Icmp {
        /// The protocol number of ICMP or ICMPv6.
        protocol: u8,
        /// The type of the ICMP message.
        kind: u8,
        /// The ICMP code, if it was given.
        code: Option<u8>,
    },
}

/// The direction of the packets that a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyDirection {
    /// Packets from the wire.
    In,
    /// Packets to the wire.
    Out,
    /// Packets that go through this host.
    Forward,
}

/// The strictness with which an association is demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyLevel {
    /// The level `use`: packets are protected where possible.
    Use,
    /// The level `require`, and also `default`.
    Require,
    /// The level `unique`, with the number of the association.
    Unique(Option<u32>),
}

/// One transform of a policy: `protocol/mode/src-dst/level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The protocol of the transform.
    pub protocol: SaProtocol,
    /// The mode of the transform.
    pub mode: Mode,
    /// The two ends of a tunnel.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// The strictness with which it is demanded.
    pub level: PolicyLevel,
}

/// The action for the packets of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// The word `discard`: the packets are dropped.
    Discard,
    /// The word `none`: the packets pass in clear.
    Bypass,
    /// The word `ipsec`: the packets pass these transforms, the first one innermost.
    Protect(Vec<Request>),
}

/// One policy of a setkey file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStatement {
    /// The line number of the statement.
    pub line: u32,
    /// The source of the packets.
    pub src: Address,
    /// The destination of the packets.
    pub dst: Address,
    /// The upper layer protocol of the packets.
    pub upper: Upper,
    /// The direction of the packets.
    pub direction: PolicyDirection,
    /// The action for the packets.
    pub action: PolicyAction,
}

/// Read one policy statement. If `complete`, it must say what happens to the packets; a deletion need not.
pub(super) fn read(
    words: &mut Words<'_, '_>,
    line: u32,
    complete: bool,
) -> Result<PolicyStatement, SetkeyError> {
    words.skip_flags();
    let (src, dst) = (address(words, "the source")?, address(words, "the destination")?);
    let upper = upper(words)?;
    let option = words.take("-P")?;
    if option.text != "-P" {
        return Err(SetkeyError::at(option.line, format!("-P is expected here, not {}", shown(option))));
    }
    let token = words.take("the direction")?;
    let direction = match token.text {
        "in" => PolicyDirection::In,
        "out" => PolicyDirection::Out,
        "fwd" => PolicyDirection::Forward,
        _ => {
            return Err(SetkeyError::at(
                token.line,
                format!("{} is no direction; known: in, out, fwd", shown(token)),
            ));
        }
    };
    if words.peek().is_some_and(|token| matches!(token.text, "prio" | "priority")) {
        return Err(SetkeyError::at(
            words.line,
            "priorities are not read: the order of the file is the order",
        ));
    }
    let action = match words.peek() {
        None if !complete => PolicyAction::Bypass,
        _ => action(words)?,
    };
    Ok(PolicyStatement { line, src, dst, upper, direction, action })
}

fn action(words: &mut Words<'_, '_>) -> Result<PolicyAction, SetkeyError> {
    let token = words.take("discard, none or ipsec")?;
    match token.text {
        "discard" => Ok(PolicyAction::Discard),
        "none" => Ok(PolicyAction::Bypass),
        "ipsec" => {
            let mut requests = Vec::new();
            while words.peek().is_some() {
                requests.push(request(words)?);
            }
            if requests.is_empty() {
                return Err(SetkeyError::at(token.line, "ipsec needs at least one protocol/mode/ends/level"));
            }
            Ok(PolicyAction::Protect(requests))
        }
        _ => Err(SetkeyError::at(
            token.line,
            format!("{} is no policy here; known: discard, none, ipsec", shown(token)),
        )),
    }
}

fn request(words: &mut Words<'_, '_>) -> Result<Request, SetkeyError> {
    let token = words.take("protocol/mode/ends/level")?;
    let wrong = |text: String| SetkeyError::at(token.line, text);
    let mut parts = token.text.split('/');
    let protocol = match parts.next().unwrap_or_default() {
        "esp" => SaProtocol::Esp,
        "ah" => SaProtocol::Ah,
        "ipcomp" => SaProtocol::IpComp,
        other => {
            return Err(wrong(format!(
                "{} is no protocol; known: esp, ah, ipcomp",
                shown_part(token, other)
            )));
        }
    };
    let mode = match parts.next().unwrap_or_default() {
        "transport" => Mode::Transport,
        "tunnel" => Mode::Tunnel,
        other => {
            return Err(wrong(format!("{} is no mode; known: transport, tunnel", shown_part(token, other))));
        }
    };
    let ends = match parts.next().unwrap_or_default() {
        "" => None,
        text => {
            // An IPv6 address has no dash, an IPv4 address neither.
            let (src, dst) = text.split_once('-').unwrap_or((text, ""));
            let strip = |end: &str| end.split('[').next().unwrap_or_default().parse::<IpAddr>();
            match (strip(src), strip(dst)) {
                (Ok(src), Ok(dst)) => Some((src, dst)),
                _ => {
                    return Err(wrong(format!(
                        "{} are no tunnel ends; write SOURCE-DESTINATION",
                        shown_part(token, text)
                    )));
                }
            }
        }
    };
    if mode == Mode::Tunnel && ends.is_none() {
        return Err(wrong("a tunnel needs its ends: esp/tunnel/SOURCE-DESTINATION/require".to_owned()));
    }
    let level = match parts.next().unwrap_or("default") {
        "" | "default" | "require" => PolicyLevel::Require,
        "use" => PolicyLevel::Use,
        "unique" => PolicyLevel::Unique(None),
        other => match other.strip_prefix("unique:").map(str::parse) {
            Some(Ok(number)) => PolicyLevel::Unique(Some(number)),
            _ => {
                return Err(wrong(format!(
                    "{} is no level; known: default, use, require, unique, unique:N",
                    shown_part(token, other)
                )));
            }
        },
    };
    match parts.next() {
        None => Ok(Request { protocol, mode, ends, level }),
        Some(_) => Err(wrong("one part too many; write protocol/mode/ends/level".to_owned())),
    }
}

/// Read an address: `address`, `address/length`, `address[port]` or `address/length[port]`, with `any` or 0 for every
/// port.
fn address(words: &mut Words<'_, '_>, what: &str) -> Result<Address, SetkeyError> {
    let token = words.take(what)?;
    let wrong = || {
        SetkeyError::at(
            token.line,
            format!(
                "{what} must be address, address/length, address[port] or address/length[port], not {}",
                shown(token)
            ),
        )
    };
    let (text, ports) = match token.text.split_once('[') {
        None => (token.text, PortRange::ANY),
        Some((text, port)) => match port.strip_suffix(']').ok_or_else(wrong)? {
            "any" | "0" => (text, PortRange::ANY),
            port => (text, PortRange::one(port.parse().map_err(|_| wrong())?)),
        },
    };
    let prefix = match text.split_once('/') {
        None => Prefix::host(text.parse().map_err(|_| wrong())?),
        Some((address, len)) => {
            let address = address.parse().map_err(|_| wrong())?;
            Prefix::new(address, len.parse().map_err(|_| wrong())?).ok_or_else(wrong)?
        }
    };
    Ok(Address { prefix, ports })
}

fn upper(words: &mut Words<'_, '_>) -> Result<Upper, SetkeyError> {
    let token = words.take("the upper layer")?;
    let wrong = || {
        SetkeyError::at(
            token.line,
            format!(
                "{} is no upper layer; known: any, tcp, udp, icmp (icmp4), icmp6 (ipv6-icmp), ip4 (ipv4), ip6 (ipv6), gre, sctp, \
                 a number; icmp and icmp6 with TYPE or TYPE,CODE behind a comma or a space: icmp6,135,0",
                shown(token)
            ),
        )
    };
    let number = match token.text.split(',').next().unwrap_or_default() {
        "any" => return Ok(Upper::Any),
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        "icmp" | "icmp4" => protocol::ICMP,
        "icmp6" | "ipv6-icmp" => protocol::ICMPV6,
        "ip4" | "ipv4" => protocol::IPV4,
        "ip6" | "ipv6" => protocol::IPV6,
        "gre" => 47,
        "sctp" => 132,
        other => other.parse().map_err(|_| wrong())?,
    };
    let is_icmp = matches!(number, protocol::ICMP | protocol::ICMPV6);
    let behind = match token.text.split_once(',') {
        Some((_, behind)) if is_icmp => Some((token, behind)),
        Some(_) => return Err(wrong()),
        // setkey(8) itself has them as a word of their own.
        None => {
            let next =
                words.peek().filter(|next| is_icmp && next.text.starts_with(|c: char| c.is_ascii_digit()));
            next.map(|next| {
                words.next += 1;
                (next, next.text)
            })
        }
    };
    let Some((token, behind)) = behind else { return Ok(Upper::Protocol(number)) };
    let octet = |text: &str| {
        text.parse::<u8>().map_err(|_| {
            let what = "is no ICMP type and code; write TYPE or TYPE,CODE, each from 0 to 255";
            SetkeyError::at(token.line, format!("{} {what}", shown_part(token, behind)))
        })
    };
    let (kind, code) = match behind.split_once(',') {
        Some((kind, code)) => (octet(kind)?, Some(octet(code)?)),
        None => (octet(behind)?, None),
    };
    Ok(Upper::Icmp { protocol: number, kind, code })
}
