//! Flows of reservations: by SPI as RFC 2207 names them, or by ports and DSCP.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

/// A flow that is reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The destination of its packets.
    pub destination: IpAddr,
    /// The protocol: 50 for ESP, 51 for AH, that of the transport in clear.
    pub protocol: u8,
    /// What tells it from other flows of that destination.
    pub scope: Scope,
}

/// What tells a flow from others to the same destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// A flow of IPsec (RFC 2207 section 2): sessions by the virtual destination port, senders by the SPI, which is
    /// the generalized port identifier.
    Spi {
        /// The security parameter index.
        spi: u32,
        /// The virtual destination port, which is not in the packets.
        virtual_port: u16,
    },
    /// A flow by its ports and DSCP.
    Ports {
        /// The source port; 0 is any.
        source: u16,
        /// The destination port; 0 is any.
        destination: u16,
        /// The DSCP, six bits; absent: any.
        dscp: Option<u8>,
    },
}

impl Flow {
    /// The flow as its packets show it. The virtual destination port is not in them, so that flows which differ in it
    /// alone cannot be told apart (RFC 2207 section 2).
    #[must_use]
    pub fn as_packets_show(self) -> Flow {
        let scope = match self.scope {
            Scope::Spi { spi, .. } => Scope::Spi { spi, virtual_port: 0 },
            ports @ Scope::Ports { .. } => ports,
        };
        Flow { scope, ..self }
    }
}

/// A keyed hash of flows.
#[derive(Clone, Copy)]
pub struct FlowHash {
    key: [u8; 16],
}

impl FlowHash {
    /// A hash with this key, which nobody outside may know.
    pub fn new(key: [u8; 16]) -> FlowHash {
        FlowHash { key }
    }

    /// The hash of a flow.
    pub fn of(&self, flow: &Flow) -> u64 {
        self.hash_one(flow)
    }
}

impl BuildHasher for FlowHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.key)
    }
}

/// The octets of a flow in one write, so that the hash costs as little as it can.
impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut octets = [0; 32];
        match self.destination {
            IpAddr::V4(addr) => octets[..4].copy_from_slice(&addr.octets()),
            IpAddr::V6(addr) => octets[..16].copy_from_slice(&addr.octets()),
        }
        octets[16] = self.protocol;
        octets[17] = u8::from(self.destination.is_ipv6());
        match self.scope {
            Scope::Spi { spi, virtual_port } => {
                octets[18] = 1;
                octets[20..24].copy_from_slice(&spi.to_be_bytes());
                octets[24..26].copy_from_slice(&virtual_port.to_be_bytes());
            }
            Scope::Ports { source, destination, dscp } => {
                octets[19] = dscp.map_or(u8::MAX, |dscp| dscp & 63);
                octets[20..22].copy_from_slice(&source.to_be_bytes());
                octets[22..24].copy_from_slice(&destination.to_be_bytes());
            }
        }
        state.write(&octets);
    }
}

impl std::fmt::Debug for FlowHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowHash(..)")
    }
}
