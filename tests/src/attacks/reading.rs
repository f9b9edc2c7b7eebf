//! What one reader understood of one case.

use super::{FIRST_PORT, PORTS};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The last octet of the address of the first case's datagrams.
const FIRST_ADDRESS: u16 = 10;

/// The octets that went in, as a reader has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Octets of connections, by the port outside. Connections that used one port one after the other have a bar
    /// between.
    pub streams: BTreeMap<u16, Vec<u8>>,
    /// Payloads of datagrams (UDP, echo requests, unknown protocols), in their order.
    pub datagrams: Vec<Vec<u8>>,
}

/// The way in which two readings go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accord {
    /// They are the same.
    Same,
    /// They are the same, but some end earlier.
    Prefix,
    /// No one string is behind both.
    Contradiction,
}

impl Reading {
    /// Whether no octet of a connection and no datagram was read.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty() && self.streams.values().all(Vec::is_empty)
    }

    /// How this reading goes with another.
    pub fn accord(&self, other: &Reading) -> Accord {
        let ports = self.streams.keys().chain(other.streams.keys());
        let empty = Vec::new();
        let streams = ports.map(|port| {
            let of = |reading: &'_ Reading| reading.streams.get(port).unwrap_or(&empty).clone();
            prefix(&of(self), &of(other))
        });
        streams.chain([prefix(&self.datagrams, &other.datagrams)]).max().unwrap_or(Accord::Same)
    }

    /// A further connection on a port that had one.
    pub fn again(&mut self, port: u16, octets: &[u8]) {
        let stream = self.streams.entry(port).or_default();
        if !stream.is_empty() && !octets.is_empty() {
            stream.push(b'|');
        }
        stream.extend(octets);
    }
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (port, octets) in &self.streams {
            let shown = octets.get(..octets.len().min(60)).unwrap_or_default();
            write!(f, "[{port}: {} octets {}]", octets.len(), String::from_utf8_lossy(shown))?;
        }
        self.datagrams.iter().try_for_each(|octets| write!(f, "({})", String::from_utf8_lossy(octets)))
    }
}

fn prefix<T: PartialEq>(one: &[T], other: &[T]) -> Accord {
    match one.iter().zip(other).all(|(a, b)| a == b) {
        false => Accord::Contradiction,
        true if one.len() == other.len() => Accord::Same,
        true => Accord::Prefix,
    }
}

/// The case that a port outside belongs to.
pub fn case_of_port(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(|port| usize::from(port / PORTS))
}

/// The case that an address outside belongs to: its last octet.
pub fn case_of_address(address: IpAddr) -> Option<usize> {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    u16::from(last).checked_sub(FIRST_ADDRESS).map(usize::from)
}

/// The last octet of a case's address.
pub fn address_of(case: usize) -> u8 {
    u8::try_from(case + usize::from(FIRST_ADDRESS)).expect("fewer than 245 cases")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stream: &[u8], datagrams: &[&[u8]]) -> Reading {
        Reading {
            streams: BTreeMap::from([(1, stream.to_vec())]),
            datagrams: datagrams.iter().map(|octets| octets.to_vec()).collect(),
        }
    }

    #[test]
    fn accords() {
        assert_eq!(of(b"abc", &[]).accord(&of(b"abc", &[])), Accord::Same);
        assert_eq!(of(b"abc", &[]).accord(&of(b"ab", &[])), Accord::Prefix);
        assert_eq!(of(b"abc", &[]).accord(&Reading::default()), Accord::Prefix);
        assert_eq!(of(b"abc", &[]).accord(&of(b"abx", &[])), Accord::Contradiction);
        assert_eq!(of(b"", &[b"a", b"b"]).accord(&of(b"", &[b"a"])), Accord::Prefix);
        assert_eq!(of(b"", &[b"a", b"b"]).accord(&of(b"", &[b"b"])), Accord::Contradiction);
        assert_eq!(Reading::default().accord(&of(b"", &[])), Accord::Same);
    }
}
