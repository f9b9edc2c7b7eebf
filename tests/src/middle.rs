//! A scrubber between two hosts, in a namespace of its own, and a network around it that loses and reorders.
//!
//! ```text
//! alice (outside) ---- bad network ---- [before] scrubber [after] ---- bad network ---- bob (inside)
//! ```
//! Every packet is kept as it came to the scrubber and as it left: the captures on both of its sides.

use crate::PacketSocket;
use anyhow::Context;
use lab::{Lab, LabOptions, Side as Host};
use netio::link::{Links, Offload, set_offload};
use netio::pcap::LinkType;
use netio::{clock, sysctl};
use scrub::{Arrival, Config, Outcome, Rules, Scrubber, Side};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::ip::Headers;
use wire::{Buf, Gso};

/// Longest frame that is read, in octets.
const LONGEST: usize = 70_000;
/// Time between two looks when no frame comes.
const PAUSE: Duration = Duration::from_micros(200);

/// The properties of the path between the hosts.
#[derive(Clone, Debug)]
pub struct Path {
    /// Packets of a thousand that are lost in front of the scrubber, and as many behind it.
    pub lost: u32,
    /// Packets of a thousand that the next one overtakes in front of the scrubber.
    pub overtaken: u32,
    /// The MTU of all links.
    pub mtu: u16,
    /// The VLAN whose tag frames carry where the scrubber sees them.
    pub vlan: Option<u16>,
    /// Whether the hosts use ECN.
    pub ecn: bool,
}

impl Default for Path {
    fn default() -> Path {
        Path { lost: 0, overtaken: 0, mtu: 1500, vlan: None, ecn: false }
    }
}

/// One packet on both sides.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The side that the packet came from.
    pub from: Side,
    /// The frame as it came to the scrubber, link header included.
    pub before: Vec<u8>,
    /// The frame as it left the scrubber; `None` if it did not.
    pub after: Option<Vec<u8>>,
    /// The rules that acted.
    pub acted: Rules,
}

impl Passed {
    /// The IP packet as it came.
    pub fn packet(&self) -> &[u8] {
        LinkType::Ethernet.ip(&self.before).unwrap_or_default()
    }
}

/// What passed, and packets of the scrubber's own.
#[derive(Debug, Default)]
pub struct Observation {
    /// The packets that came to the scrubber, in order.
    pub passed: Vec<Passed>,
    /// Number of packets that the scrubber made itself.
    pub own: usize,
    failed: Option<String>,
}

/// Two hosts and the scrubber between them.
pub struct Middle {
    /// The hosts of the lab.
    pub lab: Lab,
    seen: Arc<Mutex<Observation>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Middle {
    /// Build hosts and scrubber, and start the thread that carries frames.
    ///
    /// # Errors
    /// If that fails.
    pub fn build(name: &str, path: &Path, mut config: Config) -> anyhow::Result<Middle> {
        let lab = Lab::build(&LabOptions { name: name.to_owned(), segmentation: false })?;
        for host in [lab.alice(), lab.bob()] {
            host.run(|| {
                // What is seen on the wire is what a wire would carry.
                set_offload("eth0", Offload::TxChecksum, false)?;
                let mut links = Links::open()?;
                let device = links.index("eth0")?;
                links.set_mtu(device, path.mtu.into())?;
                sysctl::set("net/ipv4/tcp_ecn", if path.ecn { 1 } else { 0 })
            })??;
        }
        let sockets = lab.wire().run(|| {
            let mut links = Links::open()?;
            for port in [Host::Alice, Host::Bob] {
                let index = links.index(port.name())?;
                links.set_master(index, 0)?;
                links.set_mtu(index, path.mtu.into())?;
            }
            anyhow::Ok([PacketSocket::open(c"alice")?, PacketSocket::open(c"bob")?])
        })??;
        config.mtu = [path.mtu.into(); 2];
        let (seen, stop) = (Arc::<Mutex<Observation>>::default(), Arc::<AtomicBool>::default());
        let scrubber = Scrubber::new(config, [7; 16]);
        let mut work = Work {
            sockets,
            scrubber,
            path: path.clone(),
            seen: Arc::clone(&seen),
            stop: Arc::clone(&stop),
            held: [const { VecDeque::new() }; 2],
            dice: 0x9e37_79b9,
        };
        let run = move || {
            if let Err(error) = work.run() {
                lock(&work.seen).failed = Some(format!("{error:#}"));
            }
        };
        let thread = std::thread::Builder::new().name("middle".into()).spawn(run).context("a thread")?;
        Ok(Middle { lab, seen, stop, thread: Some(thread) })
    }

    /// Look at all that passed until now.
    ///
    /// # Panics
    /// If the middle fell over.
    pub fn look<T>(&self, question: impl FnOnce(&Observation) -> T) -> T {
        let seen = lock(&self.seen);
        assert_eq!(seen.failed, None, "the middle fell over");
        question(&seen)
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Observation>) -> MutexGuard<'_, Observation> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a packet goes through the scrubber. What belongs to the link, neighbour discovery and group membership, does
/// not: a router has its own.
fn is_forwarded(packet: &[u8]) -> bool {
    let own = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    };
    Headers::parse(packet).is_ok_and(|headers| !own(headers.src) && !own(headers.dst))
}

struct Work {
    sockets: [PacketSocket; 2],
    scrubber: Scrubber,
    path: Path,
    seen: Arc<Mutex<Observation>>,
    stop: Arc<AtomicBool>,
    /// Packets that the next one overtakes.
    held: [VecDeque<Vec<u8>>; 2],
    dice: u32,
}

impl Work {
    fn run(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; LONGEST];
        while !self.stop.load(Ordering::Relaxed) {
            let mut idle = true;
            for side in [Side::Outside, Side::Inside] {
                // A few of one side, then the other one's turn.
                for _ in 0..32 {
                    let Some((len, out)) = self.sockets[side.index()].receive(&mut buffer)? else { break };
                    idle = false;
                    if !out {
                        self.arrives(side, buffer[..len].to_vec())?;
                    }
                }
            }
            if idle {
                for side in [Side::Outside, Side::Inside] {
                    self.release(side)?;
                }
                let now = clock::monotonic();
                if self.scrubber.poll_timeout().is_some_and(|at| at <= now) {
                    self.scrubber.expire(now);
                    self.own()?;
                }
                std::thread::sleep(PAUSE);
            }
        }
        for socket in &self.sockets {
            anyhow::ensure!(socket.lost()? == 0, "the kernel lost frames in front of the middle");
        }
        Ok(())
    }

    /// Once in a thousand times `rate`; the same in every run.
    fn falls(&mut self, rate: u32) -> bool {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 17;
        self.dice ^= self.dice << 5;
        self.dice % 1000 < rate
    }

    fn arrives(&mut self, from: Side, frame: Vec<u8>) -> anyhow::Result<()> {
        if self.falls(self.path.lost) {
            return Ok(());
        }
        if self.falls(self.path.overtaken) {
            self.held[from.index()].push_back(frame);
            return Ok(());
        }
        self.scrub(from, frame)?;
        self.release(from)
    }

    fn release(&mut self, from: Side) -> anyhow::Result<()> {
        while let Some(frame) = self.held[from.index()].pop_front() {
            self.scrub(from, frame)?;
        }
        Ok(())
    }

    fn scrub(&mut self, from: Side, mut frame: Vec<u8>) -> anyhow::Result<()> {
        if let Some(vlan) = self.path.vlan {
            let [high, low] = vlan.to_be_bytes();
            frame.splice(12..12, [0x81, 0, high, low]);
        }
        let Some((at, _)) = LinkType::Ethernet.ip_at(&frame).filter(|(at, _)| is_forwarded(&frame[*at..]))
        else {
            return self.send(from.other(), &frame);
        };
        let mut buf = Buf::from_slice(&frame[at..], 64, 64);
        let arrival = Arrival { from, link: u32::from(self.path.vlan.unwrap_or(0)), realm: 0 };
        let now = clock::monotonic();
        let verdict = self.scrubber.process(now, arrival, &mut buf, &mut Gso::default());
        let after = match verdict.outcome {
            Outcome::Forward => Some([&frame[..at], buf.as_slice()].concat()),
            _ => None,
        };
        if let Some(after) = &after {
            self.send(from.other(), after)?;
        }
        lock(&self.seen).passed.push(Passed { from, before: frame, after, acted: verdict.met.acted });
        self.own()
    }

    /// The scrubber's own packets are only counted: honest traffic causes none.
    fn own(&mut self) -> anyhow::Result<()> {
        while self.scrubber.poll_emitted().is_some() {
            lock(&self.seen).own += 1;
        }
        Ok(())
    }

    fn send(&mut self, to: Side, frame: &[u8]) -> anyhow::Result<()> {
        if self.falls(self.path.lost) {
            return Ok(());
        }
        let bare = self.path.vlan.is_some().then(|| [&frame[..12], &frame[16..]].concat());
        self.sockets[to.index()].send(bare.as_deref().unwrap_or(frame)).context("a frame behind the scrubber")
    }
}
