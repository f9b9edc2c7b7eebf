//! To which network a packet of a capture belongs, where several have the same addresses: VLANs.
//!
//! A connection belongs to the VLAN in which its SYN is. That two hosts use the same addresses and ports in two VLANs is told by a SYN in
//! each. Everything else of a flow belongs to the connection of its own VLAN if there is one, and otherwise to the latest: answers may
//! come by another VLAN than questions, and a segment that was put into a tag must not be a way past what is known of its connection.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::icmp::Icmpv4;
use wire::ip::Headers;
use wire::protocol;
use wire::quote::Quoted;
use wire::tcp::{Flags, Tcp};

/// Flows in one generation; at most two generations are remembered.
const MOST: usize = 1 << 17;
/// VLANs of one flow.
const VLANS: usize = 16;

/// Both ends, the lower first.
type Flow = [(IpAddr, u16); 2];

/// The state that tells to which network a packet of a capture belongs.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// The VLANs of each flow that there was a SYN in, the latest last: flows met since the last turn, and those met in the turn before.
    young: HashMap<Flow, Vec<u32>>,
    old: HashMap<Flow, Vec<u32>>,
}

impl Networks {
    /// The network of a packet in this VLAN (0: none).
    pub fn of(&mut self, vlan: u32, packet: &[u8], headers: &Headers) -> u32 {
        let Some((flow, opens)) = flow(packet, headers) else {
            // A fragment has no ports; of what has no connections nothing is told apart.
            return if headers.fragment.is_some() && headers.protocol == protocol::TCP { vlan } else { 0 };
        };
        let vlans = self.vlans(flow);
        if opens && !vlans.contains(&vlan) {
            if vlans.len() >= VLANS {
                vlans.remove(0);
            }
            vlans.push(vlan);
        }
        match vlans.iter().find(|known| **known == vlan).or(vlans.last()) {
            Some(network) => *network,
            None => {
                vlans.push(vlan);
                vlan
            }
        }
    }

    fn vlans(&mut self, flow: Flow) -> &mut Vec<u32> {
        if !self.young.contains_key(&flow) {
            let known = self.old.remove(&flow).unwrap_or_default();
            if self.young.len() >= MOST {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(flow, known);
        }
        self.young.entry(flow).or_default()
    }
}

/// The flow of a segment, or of one that an ICMP error quotes, and whether it opens a connection.
fn flow(packet: &[u8], headers: &Headers) -> Option<(Flow, bool)> {
    let of = |src: (IpAddr, u16), dst: (IpAddr, u16)| [src.min(dst), src.max(dst)];
    let upper = headers.upper(packet);
    match headers.protocol {
        protocol::TCP if headers.fragment.is_none() => {
            let view = Tcp::new_checked(upper).ok()?;
            let flags = view.flags();
            let opens = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
            Some((of((headers.src, view.src_port()), (headers.dst, view.dst_port())), opens))
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let quoted = Quoted::read(headers.version, Icmpv4::new_checked(upper).ok()?.payload())?;
            let (src_port, dst_port) = quoted.ports.filter(|_| quoted.protocol == protocol::TCP)?;
            Some((of((quoted.src, src_port), (quoted.dst, dst_port)), false))
        }
        _ => None,
    }
}
