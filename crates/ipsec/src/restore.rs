//! The inner packet out of what a protocol of any kind has opened.

use crate::opened::Opened;
use crate::proof::InnerProof;
use crate::udp_encap::Outer;
use crate::{beet, nat, transport, tunnel};
use sadb::{InboundSa, Mode};
use wire::stage::Scheduled;
use wire::{DropReason, Packet};

/// Leave the inner packet alone in the buffer.
#[inline]
pub(crate) fn restore(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    opened: &Opened<'_>,
) -> Result<(), DropReason> {
    let (config, counters) = sa.config_and_counters();
    let behind_nat = config.mode == Mode::Transport && opened.outer.src_port.is_some();
    match config.mode {
        Mode::Tunnel => tunnel::restore(packet.buf_mut(), opened, &config.options.headers, counters),
        Mode::Transport => transport::restore(packet.buf_mut(), opened),
        Mode::Beet => beet::restore(packet.buf_mut(), opened, &config.selectors),
    }?;
    if behind_nat {
        nat::repair(&mut sa.nat, packet.bytes_mut());
    }
    Ok(())
}

/// Count an inner packet that came whole out of this association, and say in its meta what it has had.
#[inline]
pub(crate) fn account(
    sa: &mut InboundSa,
    packet: &mut Packet<Scheduled>,
    outer: &Outer,
    sequence: u64,
) -> Result<InnerProof, DropReason> {
    let (now, len) = (packet.meta.received, packet.bytes().len());
    sa.carry(now, len)?;
    packet.meta.spi = sa.spi().0;
    packet.meta.sequence = sequence;
    packet.meta.services = sa.config().services();
    packet.meta.app = sa.config().selectors.app.unwrap_or_default();
    packet.meta.tos = outer.tos;
    Ok(InnerProof::done())
}
