//! The null tunnel: the product's devices, sockets and BPF programs with nothing between them but the layout of ESP. It is
//! the ceiling that an engine can reach: TUN, segments into the slots of a burst, UDP_SEGMENT; UDP_GRO, coalesced packets, TUN. Beside
//! it the same with one system call a packet.

use anyhow::{Context, bail, ensure};
use lab::Side;
use netio::cgroup::Cgroup;
use netio::link::Links;
use netio::tun::{FromTun, MAX_PACKET, PREFIX_LEN, Tun, TunConfig, TunOptions};
use netio::udp::{Family, HEADROOM, MAX_DATAGRAM, UdpOptions, UdpTransport};
use netio::{clock, poll, sysctl};
use sockmon::{Options, Sockmon, Subjects};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::Path;
use wire::burst::MAX_LEN_V4;
use wire::coalesce::Checks;
use wire::ip::Headers;
use wire::segment::segments;
use wire::{
    Burst, Coalesced, Coalescer, GsoKind, Meta, OuterHeader, Packet, Pool, Prefix, esp, protocol, record,
    stage,
};

use crate::fixture::{self, APP};

/// The port of ESP in UDP.
pub const PORT: u16 = 4500;
/// The longest inner packet.
const INNER_MTU: usize = 1420;
/// ESP header and IV of AES-GCM (RFC 4106).
const FRONT: usize = esp::HEADER_LEN + 8;
/// Pad length, next header, ICV.
const BEHIND: usize = 2 + 16;

/// The way in which packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelDirection {
    /// Many with one system call.
    Bursts,
    /// One with one system call.
    Packets,
}

impl TunnelDirection {
    /// The name of the way in arguments and figures.
    pub const fn name(self) -> &'static str {
        match self {
            TunnelDirection::Bursts => "bursts",
            TunnelDirection::Packets => "packets",
        }
    }
}

/// Carry packets without end: `INSTANCE alice|bob CGROUP PROGRAM bursts|packets`, in the side's namespace and cgroup.
///
/// # Errors
/// On other arguments, without root, and as the host says.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let [instance, side, cgroup, program, way] = args else {
        bail!("usage: bench tunnel INSTANCE alice|bob CGROUP PROGRAM bursts|packets");
    };
    let (side, peer) = match side.as_str() {
        "alice" => (Side::Alice, Side::Bob),
        _ => (Side::Bob, Side::Alice),
    };
    let way = if way == TunnelDirection::Bursts.name() {
        TunnelDirection::Bursts
    } else {
        TunnelDirection::Packets
    };
    let settings = [
        ("net/ipv4/fwmark_reflect", "1"),
        ("net/ipv6/fwmark_reflect", "1"),
        ("net/ipv4/tcp_fwmark_accept", "0"),
    ];
    settings.iter().try_for_each(|(name, value)| sysctl::set(name, value))?;
    let exempt = Cgroup::create(Path::new(cgroup), "tunnel")?;
    exempt.enter()?;
    let tun = Tun::open("rvl0", &TunOptions { persist: false, ..TunOptions::default() })?;
    tun.configure(&TunConfig { address: Ipv4Addr::new(169, 254, 82, 86), mtu: 1500 })?;
    let mut options = Options::new(instance, cgroup.into(), exempt.path().to_owned(), tun.index());
    options.uplinks = vec![Links::open()?.index("eth0")?];
    let mut monitor = Sockmon::attach(&options)?;
    let policy = fixture::protects(Prefix::host(IpAddr::V4(peer.v4())));
    monitor.load_policy(&policy, &Subjects::of_programs([(APP, program.as_str())]), &[])?;
    let udp = UdpTransport::open(&UdpOptions { port: PORT, ..UdpOptions::default() })?;
    udp.join_datagrams(way == TunnelDirection::Bursts)?;
    let header = OuterHeader {
        src: IpAddr::V4(side.v4()),
        dst: IpAddr::V4(peer.v4()),
        src_port: PORT,
        dst_port: PORT,
        tos: 0,
        ttl: 64,
        may_fragment: false,
    };
    let (tun_in, udp_out) = (tun.try_clone()?, udp.clone());
    std::thread::spawn(move || {
        if let Err(error) = outward(&tun_in, &udp_out, header, way) {
            eprintln!("bench: {error:#}");
            std::process::exit(1);
        }
    });
    inward(&tun, udp, way)
}

/// Octets of an ESP packet around an inner one.
const fn esp_len(inner: usize) -> usize {
    FRONT + (inner + 2).next_multiple_of(4) - 2 + BEHIND
}

/// Carry packets from the TUN to the wire.
fn outward(tun: &Tun, udp: &UdpTransport, header: OuterHeader, way: TunnelDirection) -> anyhow::Result<()> {
    let mut supers = Pool::new(PREFIX_LEN + MAX_PACKET + 1, 0, 4);
    let mut arena = Pool::new(MAX_LEN_V4, 0, 4);
    let mut singles = Pool::new(2048, HEADROOM, 64);
    let mut sequence = 0;
    loop {
        match tun.recv(clock::monotonic(), &mut supers)? {
            FromTun::Packet(packet) => {
                let mut send = |burst: Burst<stage::Outer>| {
                    match way {
                        TunnelDirection::Bursts => {
                            udp.send_burst(&burst);
                        }
                        TunnelDirection::Packets => {
                            burst.packets(&mut singles).flatten().for_each(|packet| {
                                let _ = udp.send(&packet);
                            })
                        }
                    }
                    burst.into_buf()
                };
                sequence = seal(&packet, header, sequence, &mut arena, &mut send)?;
                supers.put(packet.into_buf());
            }
            FromTun::Dropped(_) => {}
            FromTun::Empty => {
                poll::readable([tun.as_fd()], None)?;
            }
        }
    }
}

/// The null tunnel has no engine: its packets go to the wire undecided and unsealed.
struct Undecided;
impl<From, To> wire::Evidence<From, To> for Undecided {}

/// Cut a packet into ESP, burst by burst; the next sequence number.
fn seal(
    packet: &Packet<stage::Inner>,
    header: OuterHeader,
    mut sequence: u32,
    arena: &mut Pool,
    send: &mut impl FnMut(Burst<stage::Outer>) -> wire::Buf,
) -> anyhow::Result<u32> {
    let bytes = packet.bytes();
    let headers = Headers::parse(bytes).context("a packet of the host")?;
    let mut gso = packet.meta.gso;
    if gso.kind == GsoKind::None && headers.protocol == protocol::TCP && bytes.len() > INNER_MTU {
        // The product answers "packet too big"; here one segment of the uplink's size is cut like several.
        (gso.kind, gso.size) = (GsoKind::Tcp, INNER_MTU as u16);
    }
    let mut pieces = segments(bytes, &headers, &gso, INNER_MTU).context("a super-packet of the host")?;
    let stride = esp_len(pieces.segment_len());
    while pieces.remaining() > 0 {
        let mut burst = Burst::begin(&Undecided, arena.take(), header, stride).context("a burst")?;
        while let Some(inner) = pieces.next_len() {
            let len = esp_len(inner);
            let Some(slot) = burst.next_slot(len) else { break };
            esp::emit(slot, 0x0100_0001, sequence)?;
            slot[8..FRONT].copy_from_slice(&u64::from(sequence).to_be_bytes());
            pieces.next_slice(&mut slot[FRONT..]).context("a piece")??;
            let trailer = &mut slot[FRONT + inner..];
            let pad = trailer.len() - BEHIND;
            trailer.fill(0);
            trailer[pad] = pad as u8;
            trailer[pad + 1] = 4;
            ensure!(burst.commit(len), "a slot that was given is taken");
            sequence = sequence.wrapping_add(1);
        }
        arena.put(send(burst.advance(&Undecided)));
    }
    Ok(sequence)
}

/// Carry packets from the wire to the TUN.
fn inward(tun: &Tun, mut udp: UdpTransport, way: TunnelDirection) -> anyhow::Result<()> {
    let mark = record::PROOF | record::AUTHENTICATED | record::ENCRYPTED | u32::from(APP.0);
    let mut pool = Pool::new(HEADROOM + MAX_DATAGRAM, HEADROOM, 32);
    let (mut bursts, mut packets) = (Vec::with_capacity(16), Vec::with_capacity(64));
    loop {
        let now = clock::monotonic();
        let received = match way {
            TunnelDirection::Bursts => udp.recv_bursts(Family::V4, now, &mut pool, &mut bursts)?,
            TunnelDirection::Packets => udp.recv(Family::V4, now, &mut pool, &mut packets)?,
        };
        let mut coalescer = Coalescer::new(Checks::Trust);
        let mut deliver = |coalesced: &Coalesced<'_>| {
            tun.send_coalesced(coalesced);
        };
        for datagram in bursts.iter().flat_map(Burst::datagrams) {
            if let Some(inner) = open(datagram) {
                coalescer.push(inner, mark, &mut deliver);
            }
        }
        coalescer.flush(&mut deliver);
        bursts.drain(..).rev().for_each(|burst| pool.put(burst.into_buf()));
        for packet in packets.drain(..) {
            let mut buf = packet.into_buf();
            if let Some(len) = buf.as_slice().get(28..).and_then(open).map(<[u8]>::len)
                && buf.trim_front(28 + FRONT)
            {
                buf.truncate(len);
                let packet = Packet::made_for_host(buf, Meta::default());
                let _ = tun.send(&packet, mark);
                buf = packet.into_buf();
            }
            pool.put(buf);
        }
        if received.datagrams == 0
            && let Some(socket) = udp.fd(Family::V4)
        {
            poll::readable([socket], None)?;
        }
    }
}

/// The inner packet of a datagram, without padding.
fn open(datagram: &[u8]) -> Option<&[u8]> {
    let pad = usize::from(*datagram.get(datagram.len().checked_sub(BEHIND)?)?);
    datagram.get(FRONT..datagram.len().checked_sub(BEHIND + pad)?)
}
