//! Outer packets as Ethernet frames in both threads (`outer = "af_packet"` or `"af_xdp"` in `[io]`).
//!
//! The kernel's sockets stay open, deaf, and carry what cannot leave as a frame.

use std::os::fd::AsFd;

use netio::packet::{self, FrameDevice, FrameReceiver, FrameSender};
use netio::raw::RawReceiver;
use netio::udp::{SendResult, UdpTransport};
use netio::{clock, xdp};
use sockmon::FrameSteering;
use wire::{Burst, DropReason, Packet, stage};

use crate::uplinks::Uplink;
use config::{Config, OuterIo};

/// Uplinks whose frames can be waited for.
pub(super) const DEVICES: usize = 4;
/// Why there are no frames.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    /// Frames cannot be had of so many uplinks.
    #[error("{0}")]
    Unfit(String),
    /// A socket for frames, or its device, does not serve.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// The kernel half cannot steer frames into the sockets.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Kernel(#[from] sockmon::SockmonError),
}

/// Open the sockets of both threads; `None`: outer packets are the kernel's matter.
///
/// # Errors
/// If an uplink is no Ethernet, or there are too many.
pub fn open(
    config: &Config,
    uplinks: &[Uplink],
    udp: &UdpTransport,
    raw: &[RawReceiver],
) -> Result<Option<(FrameSender, FramesIn)>, FramesError> {
    let sockets = || udp.fds().into_iter().chain(raw.iter().map(AsFd::as_fd));
    if config.outer == OuterIo::Udp {
        // A daemon before us may have deafened what it handed over.
        sockets().try_for_each(packet::undeafen)?;
        return Ok(None);
    }
    let devices = devices(uplinks)?;
    let port = config.esp.port;
    let mut receivers = Vec::new();
    let mut steering = Vec::new();
    let sender = if config.outer == OuterIo::Packet {
        for device in &devices {
            receivers.push(FrameReceiver::open(device, port)?);
        }
        FrameSender::open(devices)?
    } else {
        let mut senders = Vec::new();
        for device in devices {
            let (receiver, sender) = xdp::open(&device)?;
            steering.push(FrameSteering::attach(device.index, receiver.as_fd(), port)?);
            receivers.push(FrameReceiver::over(receiver, port));
            senders.push((device, sender));
        }
        FrameSender::over(senders)?
    };
    sockets().try_for_each(packet::deafen)?;
    Ok(Some((sender, FramesIn { receivers, _steering: steering })))
}

/// Whether [`open`] can have its sockets, as far as that is to be known while another daemon has its own: those of
/// packets are opened and closed again, but a queue of AF_XDP belongs to one socket alone.
///
/// # Errors
/// The errors are those of [`open`].
pub fn rehearse(config: &Config, uplinks: &[Uplink]) -> Result<(), FramesError> {
    if config.outer == OuterIo::Udp {
        return Ok(());
    }
    let devices = devices(uplinks)?;
    for device in &devices {
        match config.outer {
            OuterIo::Packet => drop(FrameReceiver::open(device, config.esp.port)?),
            _ => xdp::check_device(device)?,
        }
    }
    if config.outer == OuterIo::Packet {
        drop(FrameSender::open(devices)?);
    }
    Ok(())
}

/// The uplinks as devices with frames.
///
/// # Errors
/// If one is no Ethernet, or there are too many.
pub fn devices(uplinks: &[Uplink]) -> Result<Vec<FrameDevice>, FramesError> {
    if uplinks.len() > DEVICES {
        return Err(FramesError::Unfit(format!(
            "frames can be taken from {DEVICES} uplinks, and there are {}; name fewer in `uplinks`, or use outer = \"udp\" in [io]",
            uplinks.len()
        )));
    }
    let devices = uplinks.iter().map(|uplink| FrameDevice::of(uplink.index));
    Ok(devices.collect::<netio::Result<Vec<_>>>()?)
}

/// The sockets where frames of the uplinks arrive.
#[derive(Debug, Default)]
pub struct FramesIn {
    pub(super) receivers: Vec<FrameReceiver>,
    /// The steering of frames into these sockets, which lasts as long as this lives.
    _steering: Vec<FrameSteering>,
}

/// Send a packet as a frame; `None`: it has to leave by the kernel's sockets.
pub(super) fn send(
    frames: &mut Option<FrameSender>,
    packet: &Packet<stage::Outer>,
) -> Option<Result<(), DropReason>> {
    let sent = frames.as_mut()?.send(clock::monotonic(), packet).ok();
    tell(frames);
    sent
}

/// Send a burst as frames; `None`: it has to leave by the kernel's sockets.
pub(super) fn send_burst(
    frames: &mut Option<FrameSender>,
    burst: &Burst<stage::Outer>,
) -> Option<SendResult> {
    let sent = frames.as_mut()?.send_burst(clock::monotonic(), burst).ok();
    tell(frames);
    sent
}

fn tell(frames: &mut Option<FrameSender>) {
    if let Some(news) = frames.as_mut().and_then(FrameSender::take_news) {
        tracing::warn!("{news}");
    }
}
