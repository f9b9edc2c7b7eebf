//! Frames at a rate that is asked for, or as fast as they go: what an attacker has, for measurements.

use super::{FrameDevice, VNET_LEN, open_frames};
use crate::error::{IoContext, Result, check};
use crate::sockopt;
use socket2::Socket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The longest frame of [`Flooder::run`] in octets.
pub const FRAME: usize = 128;
/// Frames of one system call.
const BATCH: usize = 32;

/// The result of a [`Flooder`]'s run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FloodStats {
    /// Frames that the device took.
    pub sent: u64,
    /// Time from the first frame until the flood ended.
    pub elapsed: Duration,
}

/// Sends frames past the queueing discipline.
#[derive(Debug)]
pub struct Flooder(Socket);

impl Flooder {
    /// Open its socket (CAP_NET_RAW).
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn open(device: &FrameDevice) -> Result<Flooder> {
        open_frames(device, 0, |socket| {
            sockopt::set_int(socket, libc::SOL_PACKET, super::send::PACKET_QDISC_BYPASS, 1)
        })
        .map(Flooder)
    }

    /// Send for so long, so many frames a second; 0: as many as go. `frame` writes the one of this number, Ethernet header first,
    /// and returns its length.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run(
        &mut self,
        rate: u64,
        duration: Duration,
        mut frame: impl FnMut(u64, &mut [u8; FRAME]) -> usize,
    ) -> Result<FloodStats> {
        self.run_long(rate, duration, FRAME, |number, text| {
            frame(number, text.try_into().unwrap_or_else(|_| unreachable!("of that length")))
        })
    }

    /// Like [`Flooder::run`], with frames of at most `longest` octets. A length of 0 ends the flood: there is no such frame.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run_long(
        &mut self,
        rate: u64,
        duration: Duration,
        longest: usize,
        mut frame: impl FnMut(u64, &mut [u8]) -> usize,
    ) -> Result<FloodStats> {
        let mut buffers = vec![vec![0u8; VNET_LEN + longest]; BATCH];
        let mut lengths = [0; BATCH];
        let start = Instant::now();
        let mut done = FloodStats::default();
        let mut number = 0;
        let mut is_over = false;
        while start.elapsed() < duration && !is_over {
            let due = match rate {
                0 => BATCH,
                rate => {
                    let by_now = (start.elapsed().as_secs_f64() * rate as f64) as u64;
                    (by_now.saturating_sub(number) as usize).min(BATCH)
                }
            };
            if due == 0 {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let mut count = 0;
            for (buffer, length) in buffers.iter_mut().zip(&mut lengths).take(due) {
                let octets = frame(number, buffer.get_mut(VNET_LEN..).unwrap_or_default()).min(longest);
                if octets == 0 {
                    is_over = true;
                    break;
                }
                *length = VNET_LEN + octets;
                number += 1;
                count += 1;
            }
            done.sent += self.send(&mut buffers[..count], &lengths)?;
        }
        done.elapsed = start.elapsed();
        Ok(done)
    }

    fn send(&self, buffers: &mut [Vec<u8>], lengths: &[usize; BATCH]) -> Result<u64> {
        let mut pieces: Vec<libc::iovec> = buffers
            .iter_mut()
            .zip(lengths)
            .map(|(buffer, length)| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: *length })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = pieces
            .iter_mut()
            .map(|piece| {
                // SAFETY: mmsghdr is plain old data; all zeroes is a valid value of it.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = piece;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let count = messages.len() as libc::c_uint;
        // SAFETY: every header points at one piece, and every piece at a live buffer of at least its length.
        let sent = unsafe { libc::sendmmsg(self.0.as_fd().as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        match check(sent) {
            Ok(sent) => Ok(u64::from(sent.unsigned_abs())),
            // The queue behind the device is full: lost, as on any wire.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => Ok(0),
            Err(error) => Err(error).doing(|| "sending frames".to_owned()),
        }
    }
}
