//! Copies for the enc device: of what goes into protection before its record is put on, of what came out after it is taken
//! off, and of nothing else. Needs root.

use crate::common;

use common::packets::*;
use common::*;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const FULL: u32 = 0x8300_0000;

/// What a packet socket on the device sees.
fn listen(ifindex: u32) -> File {
    let every = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no pointer is passed; the kernel has just returned the descriptor to us; a sockaddr_ll of its own length.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, every.into());
        assert!(fd >= 0, "these tests need root");
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = every;
        at.sll_ifindex = ifindex as i32;
        let len = size_of_val(&at) as libc::socklen_t;
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len), 0);
        File::from(OwnedFd::from_raw_fd(fd))
    }
}

/// What the listener has. The kernel makes a copy while it handles the packet: who has waited for what becomes of the packet,
/// or of one that came behind it, need not wait for the copy.
fn seen(mut listener: &File) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = vec![0u8; 70_000];
    while let Ok(n) = listener.read(&mut bytes) {
        out.push(bytes[..n].to_vec());
    }
    out
}

#[test]
fn the_device_sees_what_is_protected_and_nothing_else() {
    let mut world = usual_world("mirror");
    let _enc = world.alice.run(|| open_tun("rvle0"));
    world.alice.sh("echo 1 > /proc/sys/net/ipv6/conf/rvle0/disable_ipv6; ip link set rvle0 up");
    let enc = world.alice.ifindex("rvle0");
    let listener = world.alice.run(move || listen(enc));
    let mut strict = world.start("strict");
    let mut unnamed = world.start("unnamed");
    strict.run(&["open s udp4", "bind s 10.99.0.1:7001", "open t udp6"]);
    unnamed.run(&["open s udp4", "bind s 10.99.0.1:7002", "sendto s 10.99.0.2:9 3"]);
    // Nobody is to be fed yet.
    strict.run(&["sendto s 10.99.0.2:53 40"]);
    assert!(world.seen_within(SOON).is_some());
    assert_eq!((seen(&listener).len(), world.counter("enc_mirrored")), (0, 0));

    world.sockmon().set_enc(enc).unwrap();
    // Out: the packet as it is on the TUN, without the record, which the TUN's reader still gets.
    strict.run(&["sendto s 10.99.0.2:53 40", "sendto t [fd99::2]:53 50"]);
    let on_tun = world.drain();
    let copies = seen(&listener);
    assert_eq!(copies.len(), 2);
    for (copy, packet) in copies.iter().zip(&on_tun) {
        assert_eq!((copy.len(), &copy[..20]), (packet.packet.len(), &packet.packet[..20]));
        assert_eq!(packet.mark, stamp(STRICT));
    }
    // In: after the record, and the program gets it all the same.
    let datagram = udp((BOB, 5000), (ALICE, 7001), b"payload");
    world.inject(FULL, &datagram);
    assert_eq!(strict.ask("recv s 5000"), "7");
    assert_eq!(seen(&listener), std::slice::from_ref(&datagram));
    // What nobody protects, what is refused on the TUN, and what the wire brings.
    unnamed.run(&["sendto s 10.99.0.2:9 3"]);
    strict.run(&["sendto s 10.99.0.130:9 3"]);
    world.inject(0x0300_0000, &datagram);
    world.bob_sends(&datagram);
    // Behind these, what arrives: from the wire in clear, and once more under protection.
    world.bob_sends(&udp((BOB, 5000), (ALICE, 7002), b"in clear"));
    assert_eq!(unnamed.ask("recv s 5000"), "8");
    let last = udp((BOB, 5000), (ALICE, 7001), b"the last");
    world.inject(FULL, &last);
    assert_eq!(strict.ask("recv s 5000"), "8");
    assert_eq!(seen(&listener), [last]);
    assert_eq!(world.counter("enc_mirrored"), 4);
    // A device that is gone, and none.
    world.sockmon().set_enc(enc + 1000).unwrap();
    strict.run(&["sendto s 10.99.0.2:53 40"]);
    assert_eq!(world.drain().len(), 1);
    world.sockmon().set_enc(0).unwrap();
    strict.run(&["sendto s 10.99.0.2:53 40"]);
    assert_eq!((world.drain().len(), seen(&listener).len()), (1, 0));
}
