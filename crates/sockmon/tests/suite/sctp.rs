//! SCTP, where the kernel has it: what accept makes of a listener's association is its application's from the first packet on, also of
//! those that the kernel sends by itself. Needs root; `make drill-kernels` runs it on kernels with SCTP.

use crate::{activated, common};

use common::*;
use program::Program;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Encrypted and authenticated, bound to no application.
const FULL: u32 = 0x8300_0000;
/// Milliseconds that a program waits for what will come; an emulated processor is slow.
const COMES: &str = "20000";

/// Whether there is SCTP here; if not, the test says so and has nothing to show.
fn has_sctp() -> bool {
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP) };
    if fd < 0 {
        println!("skipped: this kernel has no SCTP");
        return false;
    }
    // SAFETY: our own descriptor.
    unsafe { libc::close(fd) };
    true
}

/// Carries what leaves by alice's TUN to a TUN of bob's and back with proof, as two daemons would.
struct Relay {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn start(world: &World) -> Relay {
        let bob = world.bob.run(|| open_tun("rel0"));
        world.bob.sh("ip addr add 10.99.0.2/32 dev rel0; ip addr add fd99::2/128 dev rel0 nodad
            ip link set rel0 addrgenmode none; ip link set rel0 up; echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
            ip route replace 10.99.0.1/32 dev rel0 src 10.99.0.2; ip -6 route replace fd99::1/128 dev rel0 src fd99::2");
        let ends = Arc::new(AtomicBool::new(false));
        let alice = world.tun.try_clone().unwrap();
        let (from, to) = (alice.try_clone().unwrap(), bob.try_clone().unwrap());
        // vnet header and record, or vnet header.
        let out = carry(ends.clone(), from, 26, move |packet| {
            (&to).write_all(&[vec![0; 10], packet.to_vec()].concat()).expect("write bob's TUN");
        });
        let back = carry(ends.clone(), bob, 10, move |packet| {
            let record = [&[packet[0] & 0xf0][..], b"RVL", &FULL.to_ne_bytes(), &[0; 8]].concat();
            (&alice).write_all(&[vec![0; 10], record, packet.to_vec()].concat()).expect("write alice's TUN");
        });
        Relay { ends, threads: vec![out, back] }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn carry(
    ends: Arc<AtomicBool>,
    mut from: File,
    skip: usize,
    to: impl Fn(&[u8]) + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut octets = vec![0u8; 70_000];
        while !ends.load(Ordering::Relaxed) {
            let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry is passed, and one there is.
            if unsafe { libc::poll(&raw mut poll, 1, 20) } != 1 {
                continue;
            }
            let n = from.read(&mut octets).expect("read a TUN");
            let packet = &octets[skip..n];
            // Not what a device says on its own: router solicitations, MLD.
            if packet[0] >> 4 == 4 || packet[6] == 132 {
                to(packet);
            }
        }
    })
}

/// A server's and a client's addresses.
const ENDS: [(&str, &str, &str); 2] = [("4", "10.99.0.1", "10.99.0.2"), ("6", "[fd99::1]", "[fd99::2]")];

fn client(world: &World, family: &str, from: &str, to: &str) -> Program {
    let mut client = world.start_in_bob("peer");
    let (open, bind) = (format!("open s sctp{family}"), format!("bind s {from}:5000"));
    client.run(&[&open, &bind, &format!("connect s {to}:8080")]);
    client
}

#[test]
fn an_accepted_association_is_its_listeners() {
    if !has_sctp() {
        return;
    }
    for (family, here, there) in ENDS {
        let mut world = usual_world(&format!("sctp{family}"));
        let relay = Relay::start(&world);
        world.wire();
        let mut server = world.start("strict");
        let listens = format!("bind l {here}:8080");
        server.run(&[&format!("open l sctp{family}"), &listens, "listen l"]);
        let mut peer = client(&world, family, there, here);
        server.run(&[&format!("accept l c {COMES}")]);
        // It hears before it says anything, and what the kernel answers (SACK) has its stamp.
        peer.run(&["send s 100"]);
        assert_eq!(server.ask(&format!("recv c {COMES}")), "100", "IPv{family}");
        server.run(&["send c 200"]);
        assert_eq!(peer.ask(&format!("recv s {COMES}")), "200", "IPv{family}");
        // More than the peer's window holds, which the kernel sends when there is room.
        for _ in 0..20 {
            server.run(&["send c 4000"]);
        }
        for _ in 0..20 {
            assert_eq!(peer.ask(&format!("recv s {COMES}")), "4000", "IPv{family}");
        }
        // Its descriptor in other hands, and its end.
        let path = world.executable("strict");
        assert_eq!(server.ask(&format!("exec {}", path.display())), "ready");
        server.run(&["send c 50", "close c", "close l"]);
        assert_eq!(peer.ask(&format!("recv s {COMES}")), "50");
        peer.run(&["close s"]);
        assert_eq!(world.wire().len(), 0, "IPv{family}");
        assert_eq!(world.counter("ingress_unexpected_proof"), 0);
        drop(relay);
    }
}

#[test]
fn an_association_that_becomes_a_socket_is_its_programs() {
    if !has_sctp() {
        return;
    }
    for (family, here, there) in ENDS {
        let world = usual_world(&format!("sctp-peel{family}"));
        let relay = Relay::start(&world);
        world.wire();
        let mut server = world.start("strict");
        server.run(&[&format!("open l sctpmany{family}"), &format!("bind l {here}:8080"), "listen l"]);
        let mut peer = client(&world, family, there, here);
        peer.run(&["send s 10"]);
        server.run(&[&format!("peeloff l c {COMES}")]);
        assert_eq!(server.ask(&format!("recv c {COMES}")), "10", "IPv{family}");
        server.run(&["send c 30"]);
        assert_eq!(peer.ask(&format!("recv s {COMES}")), "30", "IPv{family}");
        assert_eq!(world.wire().len(), 0, "IPv{family}");
        drop(relay);
    }
}

/// Whether an SCTP packet over IPv4 has a chunk of data.
fn holds_data(packet: &[u8]) -> bool {
    let mut at = 20 + 12;
    while packet[9] == 132 && at + 4 <= packet.len() {
        let length = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        if packet[at] == 0 || length < 4 {
            return true;
        }
        at += length.next_multiple_of(4);
    }
    false
}

/// A listener of nobody's whose association goes to a program of policy: its data is protected from the first octet on.
#[test]
fn an_association_that_changes_hands_follows_who_sends() {
    if !has_sctp() {
        return;
    }
    let mut world = usual_world("sctp-hands");
    let mut supervisor = world.start("unnamed");
    supervisor.run(&["open l sctp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut peer = client(&world, "4", "10.99.0.2", "10.99.0.1");
    supervisor.run(&[&format!("accept l c {COMES}")]);
    let path = world.executable("strict");
    assert_eq!(supervisor.ask(&format!("exec {}", path.display())), "ready");
    world.wire();
    // It leaves when to send to the kernel, which does so with its next acknowledgment, and without a caller.
    supervisor.run(&["more c 64"]);
    peer.run(&["send s 10", "send s 10"]);
    // Where the call was seen, the socket is STRICT's already and hears nothing in clear that the kernel could acknowledge.
    if sockmon::option_hook().is_none() {
        let end = std::time::Instant::now() + SOON * 4;
        while world.counter("egress_unclaimed") == 0 {
            assert!(std::time::Instant::now() < end, "the kernel has sent nothing");
            std::thread::sleep(NEVER);
        }
    }
    assert_eq!(world.drain(), []);
    // More than the kernel would wait with, so that it leaves in the call.
    supervisor.run(&["send c 4000"]);
    let seen = world.seen_within(SOON).expect("on the TUN");
    assert_eq!((seen.mark, packets::transport(&seen.packet).0), (stamp(STRICT), 132));
    // What the kernel says again has no caller, and a stamp.
    let again = world.seen_within(SOON * 4).expect("said again");
    assert_eq!(again.mark, stamp(STRICT));
    assert!(!world.wire().iter().any(|packet| holds_data(packet)), "data in clear");
    peer.run(&["close s"]);
}

/// Who listens on the same port of another address takes the note of nobody's listener away, neither at the load nor later.
#[test]
fn a_listener_on_another_address_takes_no_association_away() {
    if !has_sctp() {
        return;
    }
    let mut world = usual_world("sctp-other");
    let relay = Relay::start(&world);
    world.wire();
    let mut server = world.start("strict");
    server.run(&["open l sctp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut other = world.start("unnamed");
    other.run(&["open l sctp4", "bind l 127.0.0.1:8080", "listen l", "open c sctp4"]);
    let mut peer = client(&world, "4", "10.99.0.2", "10.99.0.1");
    other.run(&["connect c 127.0.0.1:8080"]);
    server.run(&[&format!("accept l c {COMES}")]);
    peer.run(&["send s 100"]);
    assert_eq!(server.ask(&format!("recv c {COMES}")), "100", "it has its stamp, and takes what is proven");
    // One that waited for its program when policy came.
    let mut second = world.start_in_bob("peer");
    second.run(&["open s sctp4", "bind s 10.99.0.2:5001", "connect s 10.99.0.1:8080"]);
    world.load(&usual(), &usual_orders());
    world.monitor(|m| m.adopt().unwrap());
    server.run(&[&format!("accept l d {COMES}")]);
    second.run(&["send s 50"]);
    assert_eq!(server.ask(&format!("recv d {COMES}")), "50");
    assert_eq!((world.wire().len(), world.counter("ingress_unexpected_proof")), (0, 0));
    drop(relay);
}

/// What was noted of a listener before policy named its program does not say whose its next connections are, nor does a listener of all
/// addresses of the other family.
#[test]
fn what_was_noted_before_a_load_is_forgotten() {
    if !has_sctp() {
        return;
    }
    let mut world = World::new("sctp-stale");
    world.attach();
    let subjects = policy::Subjects::new(vec![(activated::program(&world.executable("other")), OTHER)]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    let mut server = world.start("strict");
    server.run(&["open l sctp4", "bind l 0.0.0.0:8080", "listen l"]);
    // A later process, whose note comes last. IPV6_V6ONLY.
    let mut other = world.start("unnamed");
    other.run(&["open m sctp6", "set m 41 26 4", "bind m [::]:8080", "listen m"]);
    // Two wait to be accepted. Each has noted that the listener is nobody's, at its address.
    world.alice.sh("ip addr add 10.99.0.200/32 dev up0");
    let mut peers: Vec<_> = ["10.99.0.1", "10.99.0.200"]
        .iter()
        .map(|address| {
            let mut peer = world.start_in_bob("peer");
            peer.run(&["open s sctp4", &format!("connect s {address}:8080")]);
            peer
        })
        .collect();
    world.load(&usual(), &usual_orders());
    world.monitor(|m| m.adopt().unwrap());
    for (peer, name) in peers.iter_mut().zip(["c", "d"]) {
        server.run(&[&format!("accept l {name} {COMES}")]);
        peer.run(&["send s 50"]);
        assert_eq!(server.ask(&format!("recv {name} 400")), "ETIMEDOUT", "data in clear for STRICT");
    }
    assert!(world.counter("ingress_no_proof") + world.counter("ingress_unclaimed") > 1);
}

/// Where the note of a listener is lost, nothing comes in before its program has sent.
#[test]
fn data_for_nobody_known_is_not_heard() {
    use libbpf_rs::{MapCore, MapHandle};
    if !has_sctp() {
        return;
    }
    let mut world = usual_world("sctp-lost");
    let mut server = world.start("unnamed");
    server.run(&["open l sctp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut peer = client(&world, "4", "10.99.0.2", "10.99.0.1");
    server.run(&[&format!("accept l c {COMES}")]);
    let notes =
        MapHandle::from_pinned_path(format!("/sys/fs/bpf/ravelin/{}/sctp_listeners", world.name)).unwrap();
    let keys: Vec<Vec<u8>> = notes.keys().collect();
    assert_eq!(keys.len(), 1);
    notes.delete(&keys[0]).unwrap();
    peer.run(&["send s 100"]);
    let end = std::time::Instant::now() + SOON * 4;
    while world.counter("ingress_unclaimed") == 0 {
        assert!(std::time::Instant::now() < end, "nothing was refused");
        std::thread::sleep(NEVER);
    }
    assert_eq!(server.ask("recv c 40"), "ETIMEDOUT");
    server.run(&["send c 5"]);
    assert_eq!(server.ask(&format!("recv c {COMES}")), "100", "it is sent again");
}

/// Nobody's associations are as they were.
#[test]
fn what_nobody_names_goes_in_clear_both_ways() {
    if !has_sctp() {
        return;
    }
    let mut world = usual_world("sctp-nobody");
    let mut server = world.start("unnamed");
    server.run(&["open l sctp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut peer = client(&world, "4", "10.99.0.2", "10.99.0.1");
    server.run(&[&format!("accept l c {COMES}")]);
    for _ in 0..20 {
        server.run(&["send c 4000"]);
    }
    for _ in 0..20 {
        assert_eq!(peer.ask(&format!("recv s {COMES}")), "4000");
    }
    peer.run(&["send s 100"]);
    assert_eq!(server.ask(&format!("recv c {COMES}")), "100");
    assert_eq!(world.drain(), []);
    assert_eq!(world.counter("egress_unclaimed"), 0);
}
