//! What one queue of a TUN costs a packet where the device can have one queue, and where it can have several (docs/design/0041).
//! Needs root; everything happens in a network namespace of its own.
//!
//! `cargo run --release -p netio --example tun_queues` prints a line for each round and kind: nanoseconds a packet of a host's
//! sendto(2) into the device, of `Tun::recv`, and of `Tun::send`.

use netio::link::Links;
use netio::netns::Netns;
use netio::tun::{FromTun, MAX_PACKET, PREFIX_LEN, Queues, Tun, TunConfig, TunOptions};
use netio::{clock, random};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;
use wire::{Buf, Meta, Packet, Pool};

/// Packets of one fill of the queue.
const FILL: u32 = 500;
/// Fills of one round: 100,000 packets.
const FILLS: u32 = 200;
/// Rounds; in each both kinds have their turn.
const ROUNDS: u32 = 5;
/// Octets of a datagram.
const PAYLOAD: usize = 1372;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = random::number()?;
    let namespace = Netns::create(&format!("tun-queues-{number:08x}"))?;
    let rows = namespace.run(|| -> Result<Vec<(Queues, [f64; 3])>, String> {
        let mut rows = Vec::new();
        // The first round warms up.
        for round in 0..=ROUNDS {
            for queues in [Queues::One, Queues::Several] {
                let row = costs(queues).map_err(|error| error.to_string())?;
                if round > 0 {
                    println!("{round} {queues:?} {:.0} {:.0} {:.0}", row[0], row[1], row[2]);
                    rows.push((queues, row));
                }
            }
        }
        Ok(rows)
    })??;
    for queues in [Queues::One, Queues::Several] {
        let median = |at: usize| {
            let mut list: Vec<f64> = rows
                .iter()
                .filter(|(kind, _)| *kind == queues)
                .filter_map(|(_, row)| row.get(at).copied())
                .collect();
            list.sort_by(f64::total_cmp);
            list.get(list.len() / 2).copied().unwrap_or_default()
        };
        println!("median {queues:?} {:.0} {:.0} {:.0}", median(0), median(1), median(2));
    }
    Ok(())
}

/// Nanoseconds a packet of sendto(2), of `recv`, and of `send`, on a new device of this kind.
fn costs(queues: Queues) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let options = TunOptions { queues, persist: false, queue_len: 2 * FILL, ..TunOptions::default() };
    let tun = Tun::open("rvl0", &options)?;
    tun.configure(&TunConfig { address: Ipv4Addr::new(169, 254, 77, 1), mtu: 1500 })?;
    Links::open()?.add_route(Ipv4Addr::new(192, 0, 2, 0).into(), 24, None, tun.index())?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect("192.0.2.9:9")?;
    let mut pool = Pool::new(128 + PREFIX_LEN + MAX_PACKET + 64, 128, 4);
    let mut packet = vec![0; 20 + PAYLOAD];
    packet[0] = 0x45;
    let admitted = Packet::made_for_host(Buf::from_slice(&packet, 0, 0), Meta::default());
    let (mut filled, mut received, mut sent) = (0.0, 0.0, 0.0);
    let now = clock::monotonic();
    for _ in 0..FILLS {
        let start = Instant::now();
        for _ in 0..FILL {
            socket.send(&[0; PAYLOAD])?;
        }
        filled += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut count = 0;
        // Without the kernel half they have no record, which is told after they were read.
        while let FromTun::Dropped(_) = tun.recv(now, &mut pool)? {
            count += 1;
        }
        received += start.elapsed().as_secs_f64();
        if count != FILL {
            return Err(format!("{count} of {FILL} packets came").into());
        }
        let start = Instant::now();
        for _ in 0..FILL {
            tun.send(&admitted, 0).map_err(|reason| format!("{reason:?}"))?;
        }
        sent += start.elapsed().as_secs_f64();
    }
    let all = f64::from(FILL * FILLS);
    Ok([filled, received, sent].map(|seconds| seconds / all * 1e9))
}
