//! The TUN in a namespace of its own: what the kernel takes from us and what it hands us. Needs root. The BPF programs are not
//! here, so the host's packets come without a record and what we write keeps its own.

use netio::enc::EncDevice;
use netio::link::{Links, TunOwner};
use netio::netns::Netns;
use netio::tun::{self, FromTun, MAX_PACKET, PREFIX_LEN, Queues, Tun, TunConfig, TunOptions};
use netio::{clock, poll, sysctl};
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;
use wire::{Buf, DropReason, Meta, Packet, Pool, record};

const NAME: &str = "rvl0";

fn fresh(name: &str) -> Netns {
    Netns::remove(name).expect("root is needed");
    Netns::create(name).expect("root is needed")
}

fn config() -> TunConfig {
    TunConfig { address: Ipv4Addr::new(169, 254, 77, 1), mtu: 1400 }
}

fn pool() -> Pool {
    Pool::new(128 + PREFIX_LEN + MAX_PACKET + 64, 128, 4)
}

/// IPv4 and UDP around `payload`, checksums by the wire room.
fn datagram(src: Ipv4Addr, dst: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 28 + payload.len()];
    packet[28..].copy_from_slice(payload);
    let udp = wire::udp::UdpRepr { src_port: 4242, dst_port: port, payload_len: payload.len() };
    wire::udp::emit(&mut packet[20..], &udp).unwrap();
    let repr = wire::ipv4::Ipv4Repr {
        src,
        dst,
        protocol: 17,
        ttl: 64,
        tos: 0,
        id: 1,
        df: true,
        payload_len: payload.len() + 8,
    };
    wire::ipv4::emit(&mut packet, &repr).unwrap();
    wire::udp::Udp::new_checked(&mut packet[20..]).unwrap().fill_checksum(src.into(), dst.into());
    packet
}

#[test]
fn it_is_configured_persists_and_goes() {
    fresh("nt-tun-life")
        .run(|| {
            let tun = Tun::open(NAME, &TunOptions { queue_len: 77, ..TunOptions::default() }).unwrap();
            tun.configure(&config()).unwrap();
            let mut links = Links::open().unwrap();
            let link = links.find(NAME).unwrap();
            assert_eq!((link.index, link.mtu, link.queue_len, link.up), (tun.index(), 1400, 77, true));
            assert_eq!(link.kind.as_deref(), Some("tun"));
            let addresses: Vec<_> =
                links.addresses().unwrap().into_iter().filter(|a| a.index == tun.index()).collect();
            assert_eq!(addresses.len(), 1, "no generated address: {addresses:?}");
            assert_eq!((addresses[0].prefix_len, addresses[0].link_scope), (32, true));
            assert_eq!(sysctl::get("net/ipv4/conf/rvl0/rp_filter").unwrap(), "2");
            let owner = TunOwner { user: Some(0), group: Some(0), several_queues: true, held: 1 };
            assert_eq!((link.tun_owner, tun::owner_fault(&link)), (Some(owner), None));
            assert!(!link.multicast, "nobody's groups");
            assert!(tun.carries_udp_super_packets(), "Linux 6.2 or newer is what these tests run on");

            let busy = Tun::open(NAME, &TunOptions::default()).unwrap_err();
            assert!(busy.to_string().contains("another process holds it"), "{busy}");

            // Killed and started again: the same device.
            let index = tun.index();
            drop(tun);
            let again = Tun::open(NAME, &TunOptions::default()).unwrap();
            assert_eq!(again.index(), index);
            again.configure(&config()).expect("twice is fine");

            // Handed over.
            let heir = Tun::from_fd(again.as_fd().try_clone_to_owned().unwrap()).unwrap();
            assert_eq!((heir.name(), heir.index()), (NAME, index));
            assert!(Tun::from_fd(std::fs::File::open("/dev/null").unwrap().into()).is_err());
            drop((again, heir));
            tun::delete(NAME).unwrap();
            assert!(links.find(NAME).is_err());
            tun::delete(NAME).expect("twice is fine");
        })
        .unwrap();
}

/// An enc device is anybody's no more than the TUN is.
#[test]
fn the_enc_device_is_roots() {
    fresh("nt-enc-owner")
        .run(|| {
            let _enc = EncDevice::open("rvle7").unwrap();
            let link = Links::open().unwrap().find("rvle7").unwrap();
            assert_eq!((tun::owner_fault(&link), link.multicast), (None, false));
        })
        .unwrap();
}

#[test]
fn the_name_of_a_device_is_checked() {
    for bad in ["", "a-name-that-is-too-long", "a/b", "rvl%d"] {
        assert!(Tun::open(bad, &TunOptions::default()).is_err(), "{bad}");
    }
}

#[test]
fn what_has_no_record_is_named_and_dropped() {
    fresh("nt-tun-read")
        .run(|| {
            let tun = Tun::open(NAME, &TunOptions::default()).unwrap();
            tun.configure(&config()).unwrap();
            let mut links = Links::open().unwrap();
            links.add_route("192.0.2.0".parse().unwrap(), 24, None, tun.index()).unwrap();
            let mut pool = pool();
            assert!(matches!(tun.recv(clock::monotonic(), &mut pool).unwrap(), FromTun::Empty));

            // The payload of a datagram cannot pass for a record: that is in front of the IP header.
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"\x40RVLpayload", "192.0.2.9:9").unwrap();
            let [ready] = poll::readable([tun.as_fd()], Some(Duration::from_secs(5))).unwrap();
            assert!(ready);
            match tun.recv(clock::monotonic(), &mut pool).unwrap() {
                FromTun::Dropped(reason) => assert_eq!(reason, DropReason::BadRecord),
                other => panic!("{other:?}"),
            }

            // A buffer that is too small is noticed, not silently cut.
            let mut small = Pool::new(40, 0, 1);
            socket.send_to(&[0; 200], "192.0.2.9:9").unwrap();
            match tun.recv(clock::monotonic(), &mut small).unwrap() {
                FromTun::Dropped(reason) => assert_eq!(reason, DropReason::Truncated),
                other => panic!("{other:?}"),
            }
        })
        .unwrap();
}

/// A packet socket on the device puts what the BPF program would: a record and a packet.
#[test]
fn a_packet_with_a_record_is_read_whole() {
    fresh("nt-tun-record")
        .run(|| {
            let options = TunOptions { queues: Queues::One, ..TunOptions::default() };
            let tun = Tun::open("rvl%d", &options).unwrap();
            assert_eq!(tun.name(), NAME, "the kernel's name, not the pattern");
            tun.configure(&config()).unwrap();
            let record =
                wire::Record { version: 4, mark: record::STAMPED | 0x0042, cookie: 0x1122_3344_5566_7788 };
            let packet = datagram(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), 9, &[0xaa; 1300]);
            let octets: String =
                [&record.emit()[..], &packet].concat().iter().map(|o| format!("{o:02x}")).collect();
            let script = "import socket,sys; s=socket.socket(17,3); s.bind((sys.argv[1],0x800)); \
                      s.send(bytes.fromhex(sys.argv[2]))";
            let sent =
                std::process::Command::new("python3").args(["-c", script, NAME, &octets]).status().unwrap();
            assert!(sent.success());
            let mut pool = pool();
            let [ready] = poll::readable([tun.as_fd()], Some(Duration::from_secs(5))).unwrap();
            assert!(ready);
            let now = clock::monotonic();
            let FromTun::Packet(got) = tun.recv(now, &mut pool).unwrap() else { panic!("no packet") };
            assert_eq!(got.bytes(), packet);
            assert_eq!(got.buf().headroom(), 128 + PREFIX_LEN, "what the prefix took is headroom now");
            let meta = got.meta;
            assert_eq!((meta.app.0, meta.mark, meta.cookie), (0x42, record.mark, record.cookie));
            assert_eq!((meta.received, meta.gso), (now, wire::Gso::default()));
            tun::delete(NAME).unwrap();
        })
        .unwrap();
}

/// A second TUN without BPF stands for the kernel half: what is written to it with a vnet header and a record in front is what
/// our reader would get. Here the two descriptors are the two ends of one namespace's routing.
#[test]
fn a_raw_packet_is_delivered_to_a_socket() {
    fresh("nt-tun-write")
        .run(|| {
            let tun = Tun::open(NAME, &TunOptions::default()).unwrap();
            tun.configure(&config()).unwrap();
            let me = Ipv4Addr::new(169, 254, 77, 1);
            let socket = UdpSocket::bind((me, 7000)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let packet = datagram(Ipv4Addr::new(192, 0, 2, 9), me, 7000, b"from the engine");

            // With a vnet header and no record the kernel takes the packet as it is: offsets and framing are right.
            let mut links = Links::open().unwrap();
            links.add_route("192.0.2.0".parse().unwrap(), 24, None, tun.index()).unwrap();
            let mut raw = std::fs::File::from(tun.as_fd().try_clone_to_owned().unwrap());
            raw.write_all(&[&[0; 10][..], &packet].concat()).unwrap();
            let mut buf = [0; 100];
            let (len, from) = socket.recv_from(&mut buf).unwrap();
            assert_eq!(
                (&buf[..len], from.to_string()),
                (&b"from the engine"[..], "192.0.2.9:4242".to_owned())
            );

            // With the record, but without the program that strips it: taken by the device, refused by IP.
            let before = received(&mut links);
            let admitted = Packet::made_for_host(Buf::from_slice(&packet, 0, 0), Meta::default());
            tun.send(&admitted, record::PROOF | record::ENCRYPTED).unwrap();
            assert_eq!(received(&mut links), before + 1);
            assert_eq!(header_errors(), 1, "a record reads as an IPv4 header of zero length");

            let broken = Packet::made_for_host(Buf::from_slice(&[0x10; 40], 0, 0), Meta::default());
            assert_eq!(tun.send(&broken, 0), Err(DropReason::BadVersion));
            let empty = Packet::made_for_host(Buf::from_slice(&[], 0, 0), Meta::default());
            assert_eq!(tun.send(&empty, 0), Err(DropReason::BadVersion));

            links.set_up(tun.index(), false).unwrap();
            assert_eq!(tun.send(&admitted, 0), Err(DropReason::Unroutable));
        })
        .unwrap();
}

/// Packets that the device took from us (/proc/net/dev, second column).
fn received(_links: &mut Links) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find(|l| l.trim_start().starts_with(NAME)).unwrap();
    line.split_ascii_whitespace().nth(2).unwrap().parse().unwrap()
}

/// Ip: InHdrErrors of /proc/net/snmp.
fn header_errors() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|l| l.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|n| n == "InHdrErrors").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}
