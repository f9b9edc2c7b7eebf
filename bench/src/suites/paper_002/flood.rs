//! The four sources of Figure 7: datagrams of one size at a rate that is asked for, or as many as go. One thread sends for
//! all of them in turn, so that the generator's core is used by one loop and not by four that wait for each other.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use netio::netns::Netns;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

/// Octets of payload: IP packets of 1400 octets, the longest that every carrier here takes.
const PAYLOAD: usize = 1372;
/// Octets of an IP packet of the flood.
pub(super) const PACKET: usize = PAYLOAD + 28;
/// Datagrams of one system call at most.
const BATCH: usize = 32;
/// Octets that a socket may have under way, so that a full queue of the gateway loses packets instead of slowing the sender.
const BUFFER: usize = 16 << 20;
/// The pause of a sender that is ahead of its rate.
const PAUSE: Duration = Duration::from_micros(50);

/// Sockets of sources, connected to the sink.
pub(super) struct Sources(Vec<UdpSocket>);

impl Sources {
    /// Open a socket at each address, in the namespace that has it; port 0 is any.
    ///
    /// # Errors
    /// The kernel refuses a socket, its address or its buffer.
    pub(super) fn open<'a>(
        sources: impl IntoIterator<Item = (&'a Netns, SocketAddr)>,
        sink: SocketAddr,
    ) -> anyhow::Result<Sources> {
        let open = |(netns, local): (&Netns, SocketAddr)| {
            netns.run(|| -> anyhow::Result<UdpSocket> {
                let socket = UdpSocket::bind(local)?;
                socket.connect(sink)?;
                socket.set_nonblocking(true)?;
                rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, BUFFER)?;
                Ok(socket)
            })?
        };
        Ok(Sources(sources.into_iter().map(open).collect::<anyhow::Result<_>>()?))
    }

    /// Send from now on, so many datagrams a second in all; 0: as many as go.
    ///
    /// # Errors
    /// If no thread or descriptor is to be had.
    pub(super) fn flood(&self, rate: u64) -> anyhow::Result<Flood> {
        let each = rate.div_ceil(self.0.len().max(1) as u64);
        self.flood_each(&vec![each; self.0.len()])
    }

    /// Send from now on, so many datagrams a second from each socket; 0: as many as go.
    ///
    /// # Errors
    /// If no thread or descriptor is to be had.
    pub(super) fn flood_each(&self, rates: &[u64]) -> anyhow::Result<Flood> {
        let mut flows = Vec::new();
        for (socket, rate) in self.0.iter().zip(rates) {
            flows.push(Flow { socket: socket.try_clone()?, rate: *rate, tried: 0 });
        }
        let sent = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, end) = (Arc::clone(&sent), Arc::clone(&stop));
        let run = move || send(&mut flows, &count, &end);
        let thread = std::thread::Builder::new().name("flood".to_owned()).spawn(run);
        Ok(Flood { sent, stop, thread: Some(thread.context("starting the flood")?) })
    }
}

/// What one socket sends.
struct Flow {
    socket: UdpSocket,
    /// Datagrams a second; 0: as many as go.
    rate: u64,
    /// Datagrams that were handed to the kernel.
    tried: u64,
}

impl Flow {
    /// The datagrams that are due after this time, at most a batch.
    fn due(&self, elapsed: Duration) -> usize {
        match self.rate {
            0 => BATCH,
            rate => {
                let by_now = (elapsed.as_secs_f64() * rate as f64) as u64;
                (by_now.saturating_sub(self.tried) as usize).min(BATCH)
            }
        }
    }
}

/// A flood that goes on until this value ends.
pub(super) struct Flood {
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Flood {
    /// Datagrams that the kernel took until now.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// End it; how many datagrams the kernel took.
    ///
    /// # Errors
    /// If sending failed for a reason other than a full queue.
    pub(super) fn end(mut self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("a flood that has ended")?;
        thread.join().map_err(|_| anyhow!("the flood's thread has panicked"))??;
        Ok(self.sent())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send(flows: &mut [Flow], sent: &AtomicU64, stop: &AtomicBool) -> anyhow::Result<()> {
    let payload = vec![0x5a; PAYLOAD];
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let mut is_ahead = true;
        for flow in &mut *flows {
            let due = flow.due(start.elapsed());
            if due == 0 {
                continue;
            }
            is_ahead = false;
            flow.tried += due as u64;
            let parts = [IoSlice::new(&payload)];
            let mut none: [SendAncillaryBuffer<'_, '_, '_>; BATCH] = Default::default();
            let mut messages: Vec<MMsgHdr<'_>> =
                none.iter_mut().take(due).map(|control| MMsgHdr::new(&parts, control)).collect();
            match sendmmsg(&flow.socket, &mut messages, SendFlags::empty()) {
                Ok(count) => {
                    sent.fetch_add(count as u64, Ordering::Relaxed);
                }
                // A full queue, or an ICMP error of the gateway: lost, as on any wire.
                Err(
                    rustix::io::Errno::AGAIN
                    | rustix::io::Errno::NOBUFS
                    | rustix::io::Errno::CONNREFUSED
                    | rustix::io::Errno::HOSTUNREACH
                    | rustix::io::Errno::NETUNREACH,
                ) => {}
                Err(error) => return Err(error).context("sending the flood"),
            }
        }
        if is_ahead {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_sends_at_its_rate_and_ends() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = sink.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        let sources = Sources(vec![socket]);
        let flood = sources.flood(1_000_000).unwrap();
        sink.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut buffer = [0; 2000];
        for _ in 0..100 {
            assert_eq!(sink.recv(&mut buffer).unwrap(), PAYLOAD);
        }
        let sent = flood.end().unwrap();
        assert!(sent >= 100, "{sent}");
    }
}
