//! A peer as the command line writes it: `ADDRESS:PORT/PROTOCOL`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use wire::Flow;

/// A peer, a port and a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address of the peer.
    pub remote: IpAddr,
    /// The port of the peer; zero for protocols without ports.
    pub port: u16,
    /// The IP protocol number.
    pub protocol: u8,
}

/// The error for text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {fault}; write ADDRESS:PORT/PROTOCOL, as 192.0.2.1:443/tcp, [2001:db8::1]:53/udp or 192.0.2.1/icmp"
)]
pub struct TargetError {
    text: String,
    fault: &'static str,
}

impl TargetError {
    /// A description of what is wrong with the text.
    pub fn fault(&self) -> &'static str {
        self.fault
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        parse(text).map_err(|fault| TargetError { text: text.into(), fault })
    }
}

fn parse(text: &str) -> Result<Target, &'static str> {
    let (place, protocol) = match text.split_once('/') {
        Some((place, name)) => (place, Some(name)),
        None => (text, None),
    };
    let (remote, port) = match place.parse::<SocketAddr>() {
        Ok(at) => (at.ip(), Some(at.port())),
        Err(_) => {
            let bare = place.strip_prefix('[').and_then(|p| p.strip_suffix(']')).unwrap_or(place);
            (bare.parse::<IpAddr>().map_err(|_| "not an address, or not a port")?, None)
        }
    };
    let remote = remote.to_canonical();
    let protocol = match protocol {
        None | Some("tcp") => 6,
        Some("udp") => 17,
        Some("icmp") if remote.is_ipv6() => 58,
        Some("icmp") => 1,
        Some("icmpv6") => 58,
        Some("udplite") => 136,
        Some("sctp") => 132,
        Some(other) => other.parse().map_err(|_| "not a protocol")?,
    };
    match (wire::protocol::has_ports(protocol), port) {
        (true, None) => Err("the port is missing"),
        (false, Some(_)) => Err("this protocol has no ports"),
        _ => Ok(Target { remote, port: port.unwrap_or(0), protocol }),
    }
}

impl Target {
    /// The flow from this host to the target. `local` is given if it is known, and a port of zero stands for one that
    /// the system picks. An ICMP flow is an echo request.
    pub fn flow(&self, local: Option<IpAddr>, local_port: u16) -> Flow {
        let any = match self.remote {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let local_port = match self.protocol {
            1 => 8 << 8,
            58 => 128 << 8,
            _ => local_port,
        };
        Flow {
            opaque: false,
            local: local.unwrap_or(any),
            remote: self.remote,
            local_port,
            remote_port: self.port,
            protocol: self.protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, want) in [
            ("192.0.2.1:443/tcp", Some(("192.0.2.1", 443, 6))),
            ("192.0.2.1:443", Some(("192.0.2.1", 443, 6))),
            ("[2001:db8::1]:53/udp", Some(("2001:db8::1", 53, 17))),
            ("[::ffff:192.0.2.1]:53/udp", Some(("192.0.2.1", 53, 17))),
            ("192.0.2.1/icmp", Some(("192.0.2.1", 0, 1))),
            ("2001:db8::1/icmp", Some(("2001:db8::1", 0, 58))),
            ("[2001:db8::1]/icmpv6", Some(("2001:db8::1", 0, 58))),
            ("192.0.2.1/47", Some(("192.0.2.1", 0, 47))),
            ("192.0.2.1/tcp", None),
            ("192.0.2.1:1/icmp", None),
            ("192.0.2.1:70000/tcp", None),
            ("192.0.2.1:1/http", None),
            ("2001:db8::1:80/tcp", None),
            ("www.abc.com:80/tcp", None),
            ("", None),
        ] {
            let got = text.parse::<Target>().ok().map(|t| (t.remote.to_string(), t.port, t.protocol));
            let want = want.map(|(a, p, n): (&str, u16, u8)| (a.to_string(), p, n));
            assert_eq!(got, want, "{text}");
        }
    }
}
