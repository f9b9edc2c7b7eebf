//! Outer packets as Ethernet frames in both threads (`outer = "af_packet"` or `"af_xdp"` in `[io]`).
//!
//! The kernel's sockets stay open, deaf, and carry what cannot leave as a frame. With a graph each device has a socket for
//! each queue of classes (docs/design/0042).

use std::os::fd::{AsFd, BorrowedFd};

use netio::packet::{self, FrameDevice, FrameHandle, FrameReceiver, FrameSender};
use netio::raw::RawReceiver;
use netio::udp::{SendResult, UdpTransport};
use netio::{clock, xdp};
use sockmon::{FrameSteering, Sockmon};
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

/// Open the sockets of both threads, on each device one for each of so many queues of classes; `None`: outer packets are the
/// kernel's matter. What arrives before [`FramesIn::steer`] is for the first of them, or still for the kernel's sockets.
///
/// # Errors
/// If an uplink is no Ethernet, or there are too many.
pub fn open(
    config: &Config,
    uplinks: &[Uplink],
    queues: usize,
    udp: &UdpTransport,
    raw: &[RawReceiver],
) -> Result<Option<(FrameSender, FramesIn)>, FramesError> {
    if config.outer == OuterIo::Udp {
        // A daemon before us may have deafened what it handed over.
        kernel_sockets(udp, raw).try_for_each(packet::undeafen)?;
        return Ok(None);
    }
    let devices = devices(uplinks)?;
    let port = config.esp.port;
    let indices = devices.iter().map(|device| device.index).collect();
    let mut receivers = Vec::new();
    let sender = if config.outer == OuterIo::Packet {
        for device in &devices {
            receivers.push(FrameReceiver::open(device, port, queues)?);
        }
        let sender = FrameSender::open(devices)?;
        kernel_sockets(udp, raw).try_for_each(packet::deafen)?;
        sender
    } else {
        let mut senders = Vec::new();
        for device in devices {
            let (receiver, sender) = xdp::open(&device, queues)?;
            receivers.push(FrameReceiver::over(receiver, port));
            senders.push((device, sender));
        }
        FrameSender::over(senders)?
    };
    Ok(Some((sender, FramesIn { receivers, indices, port, steering: Vec::new() })))
}

/// The kernel's sockets for outer packets.
fn kernel_sockets<'s>(udp: &'s UdpTransport, raw: &'s [RawReceiver]) -> impl Iterator<Item = BorrowedFd<'s>> {
    udp.fds().into_iter().chain(raw.iter().map(AsFd::as_fd))
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
            OuterIo::Packet => drop(FrameReceiver::open(device, config.esp.port, 1)?),
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
    /// The indices of their devices.
    indices: Vec<u32>,
    /// The UDP port of ESP.
    port: u16,
    /// The steering of frames into these sockets, which lasts as long as this lives.
    steering: Vec<FrameSteering>,
}

impl FramesIn {
    /// Let the kernel half steer frames into these sockets. Those of AF_XDP hear from here on, and the kernel's sockets
    /// nothing any more.
    ///
    /// # Errors
    /// The kernel half, or the kernel, does not do it.
    pub fn steer(
        &mut self,
        monitor: &Sockmon,
        udp: &UdpTransport,
        raw: &[RawReceiver],
    ) -> Result<(), FramesError> {
        monitor.set_frame_port(self.port)?;
        let of_xdp = self.indices.iter().zip(&self.receivers).filter(|(_, frames)| frames.most().is_some());
        for (index, receiver) in of_xdp {
            let queues = (0..receiver.queues()).filter_map(|queue| receiver.queue_fd(queue));
            self.steering.push(monitor.steer_frames(*index, &queues.collect::<Vec<_>>())?);
        }
        Ok(kernel_sockets(udp, raw).try_for_each(packet::deafen)?)
    }

    /// Share frames among the sockets of each device, by the queue of their class.
    ///
    /// # Errors
    /// The kernel half, or the kernel, does not do it.
    pub(crate) fn queue_by_class(&self, monitor: &Sockmon) -> Result<(), FramesError> {
        let program = monitor.frame_choice()?;
        self.receivers.iter().try_for_each(|receiver| receiver.choose_by(program))?;
        Ok(())
    }

    /// The packet sockets with the numbers of their queues, for somebody who does not receive from them.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn handles(&self) -> Result<Vec<(usize, FrameHandle)>, FramesError> {
        let mut all = Vec::new();
        for receiver in &self.receivers {
            all.extend(receiver.handles()?.into_iter().enumerate());
        }
        Ok(all)
    }

    /// The most packets that the socket of a queue holds, whatever its limit is; `None`: its receive buffer says it.
    pub(crate) fn most(&self) -> Option<u32> {
        self.receivers.iter().filter_map(FrameReceiver::most).min()
    }
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
