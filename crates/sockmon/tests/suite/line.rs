//! The kernel's program and this room agree on which worker hears a frame.

use crate::common;

use sockmon::line::{LineGuard, closed, hash, open};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

const KEY: [u8; 16] = *b"any sixteen octe";

fn ethernet(kind: u16, tags: &[[u8; 4]], packet: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    tags.iter().for_each(|tag| out.extend(tag));
    out.extend(kind.to_be_bytes());
    out.extend(packet);
    out.resize(out.len().max(60), 0);
    out
}

fn v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, field: u16, options: usize, upper: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45 + (options / 4) as u8, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0];
    out[6..8].copy_from_slice(&field.to_be_bytes());
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend(vec![1; options]);
    out.extend(upper);
    let len = out.len() as u16;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    out
}

fn v6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, upper: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    out[4..6].copy_from_slice(&(upper.len() as u16).to_be_bytes());
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend(upper);
    out
}

/// A number that is different each time and the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    fn v4(&mut self) -> Ipv4Addr {
        Ipv4Addr::from(self.next() as u32)
    }

    fn v6(&mut self) -> Ipv6Addr {
        // Some pairs differ in the lower half only.
        let high = if self.next().is_multiple_of(2) { 0x2001_0db8_0000_0000 } else { self.next() };
        Ipv6Addr::from(u128::from(high) << 64 | u128::from(self.next()))
    }
}

/// An ICMP error about a packet that the other two hosts have exchanged; `v6` of any type below 128.
fn error(kind: u8, quoted: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    out.extend(&quoted[..quoted.len().min(48)]);
    out
}

/// Frames, and the two addresses that they are heard by.
fn frames(numbers: &mut Numbers) -> Vec<(&'static str, Vec<u8>, [IpAddr; 2])> {
    let (a, b, c, d) = (numbers.v4(), numbers.v4(), numbers.v4(), numbers.v4());
    let (e, f, g, h) = (numbers.v6(), numbers.v6(), numbers.v6(), numbers.v6());
    let (ab, cd): ([IpAddr; 2], [IpAddr; 2]) = ([a.into(), b.into()], [c.into(), d.into()]);
    let (ef, gh): ([IpAddr; 2], [IpAddr; 2]) = ([e.into(), f.into()], [g.into(), h.into()]);
    let vlan = [0x81, 0, 0x20, 7];
    let quoted = v4(d, c, 17, 0, 0, &[0; 20]);
    let quoted6 = v6(h, g, 17, &[0; 20]);
    let options = [&[58, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &error(2, &quoted6)].concat();
    vec![
        ("v4", ethernet(0x800, &[], &v4(a, b, 6, 0, 0, &[0; 20])), ab),
        ("v4, the other way", ethernet(0x800, &[], &v4(b, a, 6, 0, 0, &[0; 20])), ab),
        ("v4, one tag", ethernet(0x800, &[vlan], &v4(a, b, 17, 0, 4, &[0; 20])), ab),
        ("v4, two tags", ethernet(0x800, &[[0x88, 0xa8, 0, 9], vlan], &v4(a, b, 17, 0, 0, &[0; 8])), ab),
        ("v4 fragment", ethernet(0x800, &[], &v4(a, b, 17, 0x2000, 0, &[0; 24])), ab),
        ("v4 error", ethernet(0x800, &[], &v4(a, b, 1, 0, 0, &error(3, &quoted))), cd),
        ("v4 error behind options", ethernet(0x800, &[vlan], &v4(a, b, 1, 0, 8, &error(11, &quoted))), cd),
        ("v4 error in fragments", ethernet(0x800, &[], &v4(a, b, 1, 0x2000, 0, &error(3, &quoted))), ab),
        ("v4 error that quotes nothing", ethernet(0x800, &[], &v4(a, b, 1, 0, 0, &error(3, &[]))), ab),
        ("v4 echo", ethernet(0x800, &[], &v4(a, b, 1, 0, 0, &error(8, &quoted))), ab),
        ("v6", ethernet(0x86dd, &[], &v6(e, f, 6, &[0; 20])), ef),
        ("v6, the other way", ethernet(0x86dd, &[vlan], &v6(f, e, 6, &[0; 20])), ef),
        (
            "v6 fragment",
            ethernet(
                0x86dd,
                &[],
                &v6(e, f, 44, &[&[58, 0, 0, 1, 0, 0, 0, 1], &error(1, &quoted6)[..]].concat()),
            ),
            ef,
        ),
        ("v6 error", ethernet(0x86dd, &[], &v6(e, f, 58, &error(1, &quoted6))), gh),
        ("v6 error behind options", ethernet(0x86dd, &[], &v6(e, f, 60, &options)), gh),
        ("v6 neighbour", ethernet(0x86dd, &[], &v6(e, f, 58, &error(135, &quoted6))), ef),
    ]
}

#[test]
fn kernel_and_user_space_agree_on_the_worker() {
    const NAME: &str = "test-shard";
    open(NAME).unwrap();
    let guard = LineGuard::load(NAME, &KEY).unwrap();
    let mut numbers = Numbers(7);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..500 {
        for (what, frame, [one, other]) in frames(&mut numbers) {
            let answer = guard.ask_shard(&frame).unwrap();
            assert_eq!(answer, hash(&KEY, one, other), "{what}: {one} {other}");
            seen.insert(answer);
        }
    }
    assert!(seen.len() > 1900, "{} hashes of 2000 pairs", seen.len());
    // What is no IP is the first worker's, and so is what breaks off.
    for frame in [ethernet(0x806, &[], &[0; 28]), ethernet(0x88cc, &[], &[0; 40]), vec![0; 14]] {
        assert_eq!(guard.ask_shard(&frame).unwrap(), 0);
    }
    open(NAME).unwrap();
}

/// The loopback device of a namespace of its own.
const LO: u32 = 1;

#[test]
fn a_guard_goes_back_to_the_front_and_outlives_its_process() {
    let [ours, other] = ["test-front", "test-other"];
    common::Namespace::new().run(move || {
        let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/ravelin-inline/{ours}/links"));
        for name in [ours, other] {
            open(name).unwrap();
        }
        let mut guard = LineGuard::load(ours, &KEY).unwrap();
        guard.close(LO).unwrap();
        assert!(guard.faults(LO).is_empty(), "{:?}", guard.faults(LO));
        // Somebody else's program in front, again and again.
        for _ in 0..3 {
            let mut another = LineGuard::load(other, &KEY).unwrap();
            another.close(LO).unwrap();
            assert_eq!(guard.faults(LO).len(), 2);
            guard.close(LO).unwrap();
            assert!(guard.faults(LO).is_empty(), "{:?}", guard.faults(LO));
            assert_eq!(open(other).unwrap(), 2);
        }
        // Pins that are gone.
        std::fs::read_dir(&pins).unwrap().for_each(|pin| std::fs::remove_file(pin.unwrap().path()).unwrap());
        assert_eq!(guard.faults(LO).len(), 2);
        guard.close(LO).unwrap();
        assert!(guard.faults(LO).is_empty(), "{:?}", guard.faults(LO));
        // The process ends; the next one goes on with its guards and its counts.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let say = || socket.send_to(b"x", socket.local_addr().unwrap()).map(drop);
        let refused = |guard: &LineGuard| guard.counts(LO).refused[0];
        let _ = say();
        assert_eq!(refused(&guard), 1);
        drop(guard);
        let _ = say();
        let [(LO, true, counts)] = closed(ours).unwrap()[..] else { panic!("{:?}", closed(ours)) };
        assert_eq!(counts.refused[0], 2);
        let mut next = LineGuard::load(ours, &KEY).unwrap();
        next.close(LO).unwrap();
        assert!(next.faults(LO).is_empty() && next.others().is_empty());
        // An admitted socket's frames pass the egress, and end at the ingress.
        next.admit(socket.as_fd(), LO).unwrap();
        say().unwrap();
        let counts = next.counts(LO);
        assert_eq!((counts.refused[0], counts.sent[0], counts.arrived[0]), (2, 1, 1));
        drop(next);
        assert_eq!(open(ours).unwrap(), 2);
        assert!(closed(ours).unwrap().is_empty());
        say().unwrap();
        assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 1, "the line is open");
    });
}
