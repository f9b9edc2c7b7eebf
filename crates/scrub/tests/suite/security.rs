//! Rule V.1: ESP, AH and IKE pass only between hosts that may (paper 003 section II).

use scrub::{Arrival, Config, Mode, Outcome, Profile, Rule, Scrubber, Side};
use wire::ipv4::{self, Ipv4Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{Buf, Gso, Prefix, Time, ah, protocol};

const GATEWAY: [u8; 4] = [192, 0, 2, 1];
const PARTNER: [u8; 4] = [198, 51, 100, 7];
const STRANGER: [u8; 4] = [203, 0, 113, 9];

fn packet(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: (u16, u16)) -> Buf {
    let mut bytes = vec![0; 20 + 40];
    let repr = Ipv4Repr {
        src: src.into(),
        dst: dst.into(),
        protocol,
        ttl: 64,
        tos: 0,
        id: 0,
        df: true,
        payload_len: 40,
    };
    ipv4::emit(&mut bytes, &repr).expect("it fits");
    if protocol == protocol::UDP {
        let header = UdpRepr { src_port: ports.0, dst_port: ports.1, payload_len: 32 };
        udp::emit(&mut bytes[20..], &header).expect("it fits");
        Udp::new_checked(&mut bytes[20..]).expect("a datagram").fill_checksum(src.into(), dst.into());
    } else {
        bytes[20..24].copy_from_slice(&0x1000_u32.to_be_bytes());
        if protocol == protocol::AH {
            ah::emit(&mut bytes[20..], protocol::ESP, 0x1000, 1, 24).expect("it fits");
        }
    }
    Buf::from_slice(&bytes, 64, 64)
}

fn outcome(scrubber: &mut Scrubber, from: Side, mut buf: Buf) -> Outcome {
    scrubber
        .process(Time::from_secs(1), Arrival { from, link: 0, realm: 0 }, &mut buf, &mut Gso::default())
        .outcome
}

fn scrubber(mode: Mode) -> Scrubber {
    let mut config = Config::new(Profile::Standard);
    config.set_mode(Rule::SecuritySanction, mode).expect("it has all modes");
    let host = |address: [u8; 4]| Prefix::new(address.into(), 32).expect("a host");
    config.sanctioned = vec![(host(GATEWAY), host(PARTNER))];
    Scrubber::new(config, [3; 16])
}

#[test]
fn only_sanctioned_hosts_may_speak_what_nobody_can_read() {
    let mut on = scrubber(Mode::On);
    let refused = Outcome::Drop(Rule::SecuritySanction);
    let kinds = [
        (protocol::ESP, (0, 0)),
        (protocol::AH, (0, 0)),
        (protocol::UDP, (500, 500)),
        (protocol::UDP, (4500, 4500)),
        (protocol::UDP, (40000, 4500)),
    ];
    for (kind, ports) in kinds {
        assert_eq!(outcome(&mut on, Side::Outside, packet(PARTNER, GATEWAY, kind, ports)), Outcome::Forward);
        assert_eq!(outcome(&mut on, Side::Inside, packet(GATEWAY, PARTNER, kind, ports)), Outcome::Forward);
        assert_eq!(outcome(&mut on, Side::Outside, packet(STRANGER, GATEWAY, kind, ports)), refused);
        assert_eq!(outcome(&mut on, Side::Inside, packet(GATEWAY, STRANGER, kind, ports)), refused);
    }
    // What can be read is not its business.
    assert_eq!(
        outcome(&mut on, Side::Outside, packet(STRANGER, GATEWAY, protocol::UDP, (40000, 4000))),
        Outcome::Forward
    );
    assert_eq!(on.counters().of(Rule::SecuritySanction).dropped, 2 * kinds.len() as u64);
}

#[test]
fn off_and_observing_let_all_pass() {
    for mode in [Mode::Off, Mode::Observe] {
        let mut scrubber = scrubber(mode);
        assert_eq!(
            outcome(&mut scrubber, Side::Outside, packet(STRANGER, GATEWAY, protocol::ESP, (0, 0))),
            Outcome::Forward
        );
        let observed = scrubber.counters().of(Rule::SecuritySanction).observed;
        assert_eq!(observed, u64::from(mode == Mode::Observe));
    }
}
