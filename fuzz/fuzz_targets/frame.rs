//! Frames of packet sockets and AF_XDP: what comes out lies in the frame, and is what a second reading finds there.
//!
//! The first octet says which of the two it is, and how many octets of padding are put behind the frame once more: they change
//! nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netio::packet::Frames;
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{Buf, DropReason, Time, eth, protocol};

const PORT: u16 = 4500;
/// Octets of a vnet header: `struct virtio_net_hdr` of linux/virtio_net.h.
const VNET: usize = 10;
/// The GSO type of UDP in a vnet header: `VIRTIO_NET_HDR_GSO_UDP_L4`.
const GSO_UDP: u8 = 5;

fuzz_target!(|bytes: &[u8]| {
    let Some((&form, frame)) = bytes.split_first() else { return };
    let with_vnet = form & 1 == 0;
    let vnet = if with_vnet { frame.get(..VNET) } else { Some(&[][..]) };
    let (frames, refused) = take(frame, with_vnet);
    assert_eq!(frames.bursts.len() + frames.packets.len() + usize::from(refused.is_some()), 1);
    let Some(vnet) = vnet else { return assert_eq!(refused, Some(DropReason::Truncated)) };
    let packet = frame.get(vnet.len() + eth::HEADER_LEN..).unwrap_or_default();
    let Ok(headers) = Headers::parse(packet) else { return assert!(refused.is_some()) };

    if let [taken] = frames.packets.as_slice() {
        assert_eq!(taken.bytes(), &packet[..headers.total_len]);
    }
    if let [burst] = frames.bursts.as_slice() {
        let udp = Udp::new_checked(headers.upper(packet)).expect("it was taken as a datagram");
        assert_eq!((headers.protocol, udp.dst_port()), (protocol::UDP, PORT));
        assert!(headers.fragment.is_none());
        assert_eq!(burst.bytes(), udp.payload());
        let header = &burst.header;
        assert_eq!((header.src, header.dst), (headers.src, headers.dst));
        assert_eq!((header.src_port, header.dst_port), (udp.src_port(), PORT));
        assert_eq!(burst.datagrams().collect::<Vec<_>>().concat(), udp.payload());
        // As the kernel says; without a word of it, one.
        let [_, kind, _, _, s0, s1, ..] = *vnet else { return assert!(burst.count() == 1) };
        let stride = usize::from(u16::from_ne_bytes([s0, s1]));
        if kind == GSO_UDP && stride > 0 {
            assert!(burst.datagrams().all(|datagram| datagram.len() <= stride));
            assert_eq!(burst.count(), udp.payload().len().div_ceil(stride).max(1));
        } else {
            assert_eq!(burst.count(), 1);
        }
    }
    if refused == Some(DropReason::NotEsp) {
        assert_ne!(Udp::new_checked(headers.upper(packet)).map(|udp| udp.dst_port()), Ok(PORT));
    }

    let padded = [frame, &vec![0xa5; usize::from(form >> 1)]].concat();
    let (again, _) = take(&padded, with_vnet);
    let octets = |frames: &Frames| -> Vec<Vec<u8>> {
        let bursts = frames.bursts.iter().map(|burst| burst.bytes().to_vec());
        bursts.chain(frames.packets.iter().map(|packet| packet.bytes().to_vec())).collect()
    };
    if refused.is_none() {
        assert_eq!(octets(&frames), octets(&again));
    }
});

fn take(frame: &[u8], with_vnet: bool) -> (Frames, Option<DropReason>) {
    let mut frames = Frames::default();
    let buf = Buf::from_slice(frame, 32, 0);
    let taken = if with_vnet {
        frames.take_vnet(buf, PORT, Time::from_secs(1))
    } else {
        frames.take(buf, PORT, Time::from_secs(1))
    };
    (frames, taken.err().map(|(_, reason)| reason))
}
