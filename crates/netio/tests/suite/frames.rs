//! Frames as they come from packet sockets and AF_XDP: what of them is for us. (What is found in any octets: fuzz target `frame`.)

use netio::packet::Frames;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Buf, DropReason, Time};

const PORT: u16 = 4500;
const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const ESP: &[u8] = b"spi.seq.and the ciphertext with its tag";

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x08, 0x00], packet].concat()
}

/// A packet of IPv4 that carries these octets as `protocol`.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let head = [0x45, 0, high, low, 0, 1, 0, 0, 64, protocol, 0, 0];
    [&head[..], &SRC.octets(), &DST.octets(), payload].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let words = [9999, port, 8 + payload.len() as u16, 0].map(u16::to_be_bytes);
    [words.as_flattened(), payload].concat()
}

fn take(frame: &[u8]) -> (Frames, Option<DropReason>) {
    let mut frames = Frames::default();
    let taken = frames.take(Buf::from_slice(frame, 0, 0), PORT, Time::from_secs(1));
    (frames, taken.err().map(|(_, reason)| reason))
}

#[test]
fn a_datagram_ends_where_it_says() {
    // Behind it: nothing, padding of the frame, octets of the packet.
    let datagram = udp(PORT, ESP);
    let frame = ethernet(&ipv4(17, &datagram));
    for frame in [
        frame.clone(),
        [&frame[..], &[0xa5; 9]].concat(),
        ethernet(&ipv4(17, &[&datagram[..], &[0xa5; 9]].concat())),
    ] {
        let (frames, refused) = take(&frame);
        assert_eq!((refused, frames.packets.len()), (None, 0));
        assert_eq!(frames.bursts[0].datagrams().collect::<Vec<_>>(), [ESP]);
        let header = &frames.bursts[0].header;
        assert_eq!((header.src, header.dst), (IpAddr::V4(SRC), IpAddr::V4(DST)));
        assert_eq!((header.src_port, header.dst_port), (9999, PORT));
    }
}

#[test]
fn a_super_packet_is_one_burst_of_the_datagrams_that_the_kernel_says() {
    let frame = ethernet(&ipv4(17, &udp(PORT, &[7; 250])));
    // struct virtio_net_hdr: VIRTIO_NET_HDR_GSO_UDP_L4 with segments of 100 octets.
    let [low, high] = 100u16.to_ne_bytes();
    for (kind, lengths) in [(5, vec![100, 100, 50]), (0, vec![250])] {
        let vnet = [0, kind, 0, 0, low, high, 0, 0, 0, 0];
        let mut frames = Frames::default();
        let buf = Buf::from_slice(&[&vnet[..], &frame].concat(), 0, 0);
        assert!(frames.take_vnet(buf, PORT, Time::from_secs(1)).is_ok());
        assert_eq!(frames.bursts[0].datagrams().map(<[u8]>::len).collect::<Vec<_>>(), lengths);
    }
}

#[test]
fn the_rest_is_a_packet_or_refused_with_its_reason() {
    let bare = ipv4(50, ESP);
    let (frames, refused) = take(&[ethernet(&bare), vec![0xa5; 20]].concat());
    assert_eq!((refused, frames.bursts.len()), (None, 0));
    assert_eq!(frames.packets[0].bytes(), bare);
    for (frame, reason) in [
        (ethernet(&ipv4(17, &udp(53, ESP))), DropReason::NotEsp),
        (ethernet(&ipv4(17, &udp(PORT, ESP)[..7])), DropReason::Truncated),
        (ethernet(&bare)[..40].to_vec(), DropReason::Truncated),
        (vec![2; 13], DropReason::Truncated),
        (ethernet(b"\x00 no version of IP"), DropReason::BadVersion),
    ] {
        let (frames, refused) = take(&frame);
        assert_eq!((refused, frames.bursts.len() + frames.packets.len()), (Some(reason), 0), "{frame:?}");
    }
}
