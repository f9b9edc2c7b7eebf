//! The prober of Figure 7 and its peer: programs of their own (`bench bed probe`, `bench bed echo`), so that they can have
//! real-time priority. Probes leave at absolute times, whatever became of those before, and each carries the time at which
//! it left. Several targets are probed in turns, so that all of them meet the same load.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// Octets of a probe: 20 ms of G.711 with its RTP header.
const LEN: usize = 172;
/// How long the prober waits for answers behind its last probe; later ones count as lost.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How often a receiver looks whether the prober is done.
const LOOK: Duration = Duration::from_millis(50);

/// The word of expedited forwarding in the field for type of service (RFC 3246).
pub(super) const EF: u8 = 46 << 2;

/// The host that sends the probes of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The prober of Figure 7, whose packets the gateway forwards.
    Prober,
    /// The gateway itself: locally generated traffic (paper 002 section VII).
    Gateway,
}

/// A way that is probed.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The host that sends its probes.
    pub(super) origin: Origin,
    /// The name of the way in figures.
    pub(super) name: &'static str,
    /// The address that probes come from.
    pub(super) local: SocketAddr,
    /// The address that answers them.
    pub(super) remote: SocketAddr,
    /// The type of service of probes and answers.
    pub(super) tos: u8,
}

impl Target {
    /// The target as an argument of the prober.
    pub(super) fn probe(&self) -> String {
        format!("{},{},{},{}", self.name, self.local, self.remote, self.tos)
    }

    /// The target as an argument of its peer.
    pub(super) fn echo(&self) -> String {
        format!("{},{}", self.remote, self.tos)
    }
}

/// Round-trip times of a target in nanoseconds, one for each probe in the order of sending; none where no answer came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answers {
    /// The name of the target.
    pub(super) name: String,
    /// The times by probe.
    pub(super) rtt: Vec<Option<u64>>,
}

/// Probes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    /// Probes of each way.
    pub(super) count: usize,
    /// Time from one probe of a way to its next.
    pub(super) interval: Duration,
}

/// Be the prober or its peer: `probe COUNT MICROSECONDS TARGET...`, `echo TARGET...`.
///
/// # Errors
/// On other arguments, and as the network says.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    match args {
        [word, count, interval, targets @ ..] if word == "probe" && !targets.is_empty() => {
            probe(count.parse()?, Duration::from_micros(interval.parse()?), targets)
        }
        [word, targets @ ..] if word == "echo" && !targets.is_empty() => echo(targets),
        _ => bail!(
            "usage: bench bed (probe COUNT MICROSECONDS NAME,LOCAL,REMOTE,TOS... | echo ADDRESS:PORT,TOS...)"
        ),
    }
}

fn socket(local: SocketAddr, tos: u8) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(local).with_context(|| format!("binding {local}"))?;
    rustix::net::sockopt::set_ip_tos(&socket, tos)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20)?;
    Ok(socket)
}

fn echo(targets: &[String]) -> anyhow::Result<()> {
    let mut sockets = Vec::new();
    for target in targets {
        let (address, tos) = target.split_once(',').context("a target without a type of service")?;
        sockets.push(socket(address.parse()?, tos.parse()?)?);
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::thread::scope(|scope| {
        for socket in &sockets {
            scope.spawn(move || {
                let mut buffer = [0; 2048];
                loop {
                    if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                        // The prober may have ended.
                        let _ = socket.send_to(&buffer[..len], from);
                    }
                }
            });
        }
    });
    Ok(())
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sleep_until(time: u64) {
    let time = Timespec { tv_sec: (time / 1_000_000_000) as i64, tv_nsec: (time % 1_000_000_000) as i64 };
    // A signal ends the sleep: one probe leaves early then.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

fn probe(count: usize, interval: Duration, targets: &[String]) -> anyhow::Result<()> {
    ensure!((1..=10_000_000).contains(&count), "from 1 to 10,000,000 probes");
    let mut ways = Vec::new();
    for target in targets {
        let parts: Vec<&str> = target.split(',').collect();
        let [name, local, remote, tos] = parts[..] else { bail!("not a target: {target}") };
        let socket = socket(local.parse()?, tos.parse()?)?;
        socket.connect(remote.parse::<SocketAddr>()?)?;
        socket.set_read_timeout(Some(LOOK))?;
        ways.push((name.to_owned(), socket));
    }
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| -> anyhow::Result<Vec<Answers>> {
        let receivers: Vec<_> =
            ways.iter().map(|(_, socket)| scope.spawn(|| receive(socket, count, &done))).collect();
        let step = interval.as_nanos() as u64 / ways.len() as u64;
        let start = now() + 1_000_000;
        let mut packet = [0; LEN];
        for number in 0..count * ways.len() {
            sleep_until(start + number as u64 * step);
            let (_, socket) = &ways[number % ways.len()];
            packet[..8].copy_from_slice(&((number / ways.len()) as u64).to_be_bytes());
            packet[8..16].copy_from_slice(&now().to_be_bytes());
            // A refused or full socket: the probe is lost.
            let _ = socket.send(&packet);
        }
        let end = Instant::now() + GRACE;
        while Instant::now() < end && receivers.iter().any(|receiver| !receiver.is_finished()) {
            std::thread::sleep(LOOK / 5);
        }
        done.store(true, Ordering::Relaxed);
        let mut answers = Vec::new();
        for ((name, _), receiver) in ways.iter().zip(receivers) {
            let rtt = receiver.join().map_err(|_| anyhow::anyhow!("a receiver has panicked"))?;
            answers.push(Answers { name: name.clone(), rtt });
        }
        Ok(answers)
    })?;
    let mut out = std::io::stdout().lock();
    for answer in answers {
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Collect answers until all are there or the prober is done.
fn receive(socket: &UdpSocket, count: usize, done: &AtomicBool) -> Vec<Option<u64>> {
    let mut rtt = vec![None; count];
    let mut left = count;
    let mut buffer = [0; 2048];
    while left > 0 && !done.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let time = now();
        let number = |at: usize| -> Option<u64> {
            let octets = buffer.get(..len)?.get(at..at + 8)?;
            Some(u64::from_be_bytes(octets.try_into().ok()?))
        };
        let (Some(index), Some(sent)) = (number(0), number(8)) else { continue };
        if let Some(slot) = rtt.get_mut(index as usize)
            && slot.is_none()
        {
            *slot = Some(time.saturating_sub(sent));
            left -= 1;
        }
    }
    rtt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_an_echo_has_its_time() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = peer.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let done = AtomicBool::new(false);
        let rtt = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&socket, 3, &done));
            // The second one has no answer; the third comes twice.
            for number in [0u64, 2, 2] {
                let mut packet = [0; LEN];
                packet[..8].copy_from_slice(&number.to_be_bytes());
                packet[8..16].copy_from_slice(&now().to_be_bytes());
                peer.send_to(&packet, socket.local_addr().unwrap()).unwrap();
            }
            // Something that is no answer ends nothing.
            peer.send_to(b"x", socket.local_addr().unwrap()).unwrap();
            while !rx_is_empty(&socket) {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            receiver.join().unwrap()
        });
        assert!(rtt[0].is_some() && rtt[1].is_none() && rtt[2].is_some(), "{rtt:?}");
    }

    /// Whether the socket has nothing left to read.
    fn rx_is_empty(socket: &UdpSocket) -> bool {
        rustix::io::ioctl_fionread(socket).unwrap() == 0
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for args in [&["probe"][..], &["probe", "1", "1"], &["echo"], &["echo", "127.0.0.1:1"], &[]] {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            assert!(run(&args).is_err(), "{args:?}");
        }
    }
}
