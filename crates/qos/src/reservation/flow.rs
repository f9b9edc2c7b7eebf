//! Flows of reservations: by SPI as RFC 2207 names them, or by ports and DSCP.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

/// A flow that is reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        /// The DSCP, six bits.
        dscp: u8,
    },
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
        let mut hasher = SipHasher13::new_with_key(&self.key);
        match flow.destination {
            IpAddr::V4(addr) => hasher.write(&addr.octets()),
            IpAddr::V6(addr) => hasher.write(&addr.octets()),
        }
        match flow.scope {
            Scope::Spi { spi, virtual_port } => {
                hasher.write(&[0, flow.protocol]);
                hasher.write(&spi.to_be_bytes());
                hasher.write(&virtual_port.to_be_bytes());
            }
            Scope::Ports { source, destination, dscp } => {
                hasher.write(&[1, flow.protocol, dscp]);
                hasher.write(&source.to_be_bytes());
                hasher.write(&destination.to_be_bytes());
            }
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for FlowHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowHash(..)")
    }
}
