//! Protocols that are encrypted or signed below the transport (rule V.1; paper 003 section II). They pass between hosts
//! that may use them, or everywhere. Packets that are only signed are examined inside (rule V.2).

use crate::config::Config;
use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{Buf, protocol};

/// The UDP ports of IKE, and of ESP in UDP (RFC 3948).
const PORTS: [u16; 2] = [500, 4500];

/// Drop ESP, AH and IKE between hosts that no pair of networks names.
#[inline]
pub(crate) fn sanctioned(job: &mut Job<'_>, buf: &Buf, headers: &Headers) -> Result<(), Stop> {
    if !job.watches(Rule::SecuritySanction) {
        return Ok(());
    }
    let concerned = match headers.protocol {
        protocol::ESP | protocol::AH => true,
        protocol::UDP => Udp::new_checked(headers.upper(buf.as_slice()))
            .is_ok_and(|view| PORTS.contains(&view.src_port()) || PORTS.contains(&view.dst_port())),
        _ => false,
    };
    if concerned && !may_speak(job.config, headers) { job.refuse(Rule::SecuritySanction) } else { Ok(()) }
}

/// Whether a pair of sanctioned networks names both hosts.
pub(crate) fn may_speak(config: &Config, headers: &Headers) -> bool {
    let (src, dst) = (headers.src, headers.dst);
    config.sanctioned.iter().any(|(one, other)| {
        one.contains(src) && other.contains(dst) || one.contains(dst) && other.contains(src)
    })
}
