//! A peer that has the key and still sends nonsense: every plaintext gets a verdict by name.

use crate::support;

use crypto::{SealOp, SuiteId, Transform};
use ipsec::Outer;
use sadb::{InboundSa, Mode};
use support::*;
use wire::ip::Headers;
use wire::udp::{self, UdpRepr};
use wire::{DropReason, protocol};

/// Alice as one who writes her plaintext by hand.
struct Sender {
    key: Box<dyn Transform>,
    v6: bool,
    sequence: u32,
}

impl Sender {
    fn new(mode: Mode, v6: bool) -> (Sender, InboundSa) {
        let config = outbound_config(mode, SuiteId::AES_128_GCM, v6);
        let registry = registry();
        let key = registry.transform(config.suite, &config.keymat, false).unwrap();
        let sender = Sender { key, v6, sequence: 0 };
        (sender, pair(&config).1)
    }

    /// An outer packet around this plaintext, trailer included, with this type of service.
    fn seal(&mut self, tos: u8, plaintext: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let mut esp = SPI.to_be_bytes().to_vec();
        esp.extend(self.sequence.to_be_bytes());
        let header: [u8; 8] = esp[..].try_into().unwrap();
        let mut data = plaintext.to_vec();
        let (mut iv, mut icv) = ([0; 8], [0; 16]);
        // An IV that is not the sequence number: the receiver must take what the packet says.
        let sequence = 0x0908_0706_0504_0300 | u64::from(self.sequence);
        let op = SealOp { sequence, header: &header, iv: &mut iv, data: &mut data, icv: &mut icv };
        self.key.seal(op).unwrap();
        esp.extend(iv);
        esp.extend(data);
        esp.extend(icv);
        let mut datagram = vec![0; 8];
        let repr = UdpRepr { src_port: 4500, dst_port: 4500, payload_len: esp.len() };
        udp::emit(&mut datagram, &repr).unwrap();
        datagram.extend(esp);
        let (alice, bob) = hosts(self.v6);
        ip_packet(alice, bob, protocol::UDP, tos, true, &datagram)
    }
}

fn open(sa: &mut InboundSa, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    let headers = Headers::parse(bytes).unwrap();
    let outer = Outer::find(bytes, &headers, 4500)?;
    match ipsec::decap(sa, scheduled_in(bytes), &outer, &mut pool()) {
        Ok(inner) => Ok(inner.bytes().to_vec()),
        Err(reason) => Err(reason),
    }
}

/// Payload, padding that aligns it, next header.
fn padded(payload: &[u8], next_header: u8) -> Vec<u8> {
    let mut plaintext = payload.to_vec();
    let pad = (4 - (payload.len() + 2) % 4) % 4;
    plaintext.extend(1..=pad as u8);
    plaintext.extend([pad as u8, next_header]);
    plaintext
}

type Want<'a> = Result<&'a [u8], DropReason>;

#[test]
fn in_tunnel_mode() {
    let (v4, v6) = (alice_to_bob(false, 0, 11), alice_to_bob(true, 0, 11));
    let mut long = v4.clone();
    long[3] += 1;
    let mut options = v4.clone();
    options[0] = 0x44;
    let followed = [&v4[..], &[0xaa; 300]].concat();
    let pad = |payload: &[u8], tail: &[u8]| [payload, tail].concat();
    let table: [(&str, Vec<u8>, Want<'_>); 17] = [
        ("IPv4", padded(&v4, 4), Ok(&v4)),
        ("IPv6", padded(&v6, 41), Ok(&v6)),
        ("padding for the length of the flow goes", padded(&followed, 4), Ok(&v4)),
        ("IPv6 said to be IPv4", padded(&v6, 4), Err(DropReason::EspNextHeader)),
        ("IPv4 said to be IPv6", padded(&v4, 41), Err(DropReason::EspNextHeader)),
        ("neither", padded(&[0x55; 20], 4), Err(DropReason::EspNextHeader)),
        ("nothing inside", padded(&[], 4), Err(DropReason::EspNextHeader)),
        ("a transport payload", padded(&v4[20..], 17), Err(DropReason::EspNextHeader)),
        ("a dummy", padded(&[0x77; 33], 59), Err(DropReason::EspDummy)),
        ("an empty dummy", padded(&[], 59), Err(DropReason::EspDummy)),
        ("longer than its packet", padded(&long, 4), Err(DropReason::Truncated)),
        ("a header too short", padded(&options, 4), Err(DropReason::HeaderLength)),
        ("half a header", padded(&v4[..10], 4), Err(DropReason::Truncated)),
        ("padding of zeros", pad(&v4[..], &[0, 0, 0, 3, 4]), Err(DropReason::EspPadding)),
        ("padding backwards", pad(&v4[..], &[3, 2, 1, 3, 4]), Err(DropReason::EspPadding)),
        ("padding before the payload", pad(&v4[..], &[1, 2, 3, 255, 4]), Err(DropReason::EspPadLength)),
        ("more padding than needed", pad(&v4[..], &[1, 2, 3, 4, 5, 6, 7, 7, 4]), Ok(&v4)),
    ];
    let (mut sender, mut sa) = Sender::new(Mode::Tunnel, false);
    for (name, plaintext, want) in table {
        assert_eq!(open(&mut sa, &sender.seal(0, &plaintext)).as_deref(), want.as_ref().copied(), "{name}");
    }
}

#[test]
fn lengths() {
    let (mut sender, mut sa) = Sender::new(Mode::Tunnel, false);
    // No trailer at all, and ciphertext that is not a multiple of four.
    for len in [0, 1, 2, 3, 5, 6, 7, 41] {
        let packet = sender.seal(0, &vec![0; len]);
        let want = if len == 0 { DropReason::EspTooShort } else { DropReason::EspAlignment };
        assert_eq!(open(&mut sa, &packet), Err(want), "{len}");
    }
    // Cut anywhere: the datagram's own length is cut with it.
    let whole = sender.seal(0, &padded(&alice_to_bob(false, 0, 11), 4));
    for len in 28..whole.len() {
        let mut cut = whole[..len].to_vec();
        cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        cut[24..26].copy_from_slice(&(len as u16 - 20).to_be_bytes());
        let want = match len - 28 {
            0..8 => DropReason::NotEsp,
            8..=32 => DropReason::EspTooShort,
            esp if esp % 4 != 0 => DropReason::EspAlignment,
            _ => DropReason::AuthFailed,
        };
        assert_eq!(open(&mut sa, &cut), Err(want), "{len}");
    }
    assert_eq!(sa.replay.top(), 0);
}

#[test]
fn in_transport_mode() {
    for v6 in [false, true] {
        let (mut sender, mut sa) = Sender::new(Mode::Transport, v6);
        let packet = alice_to_bob(v6, 0, 11);
        let upper = &packet[if v6 { 40 } else { 20 }..];
        let inner = open(&mut sa, &sender.seal(0, &padded(upper, 17))).unwrap();
        let headers = Headers::parse(&inner).unwrap();
        assert_eq!((headers.src, headers.dst), hosts(v6));
        assert_eq!((headers.protocol, headers.ttl, headers.upper(&inner)), (17, 63, upper));
        assert_eq!(headers.total_len, inner.len());
        // A dummy, headers that belong in front of ESP, a fragment.
        for (next, want) in [
            (59, DropReason::EspDummy),
            (0, DropReason::EspNextHeader),
            (43, DropReason::EspNextHeader),
            (44, DropReason::EspNextHeader),
        ] {
            assert_eq!(open(&mut sa, &sender.seal(0, &padded(&packet, next))), Err(want), "{next}");
        }
        // A whole packet is IP in IP: a bundle, or the engine's to refuse.
        let ipip = open(&mut sa, &sender.seal(0, &padded(&packet, 4))).unwrap();
        assert_eq!(Headers::parse(&ipip).unwrap().protocol, 4);
        // An empty payload is a packet of its own.
        let empty = open(&mut sa, &sender.seal(0, &padded(&[], 99))).unwrap();
        assert_eq!(Headers::parse(&empty).unwrap().upper(&empty), b"");
    }
}

#[test]
fn congestion_reaches_the_inner_packet_or_ends_it() {
    let (mut sender, mut sa) = Sender::new(Mode::Tunnel, false);
    for v6 in [false, true] {
        for inner in 0..4u8 {
            for outer in 0..4u8 {
                let packet = alice_to_bob(v6, 0xb8 | inner, 9);
                let next = if v6 { 41 } else { 4 };
                let got = open(&mut sa, &sender.seal(0x20 | outer, &padded(&packet, next)));
                match ipsec::ecn::decap(0xb8 | inner, outer) {
                    Ok(want) => {
                        let got = got.unwrap();
                        let headers = Headers::parse(&got).unwrap();
                        assert_eq!(headers.tos, want);
                        assert!(wire::ip::checksum_ok(&got, &headers));
                        assert_eq!(got[headers.header_len..], packet[headers.header_len..]);
                    }
                    Err(reason) => assert_eq!(got, Err(reason)),
                }
            }
        }
    }
    // A header that was wrong does not come out right.
    let mut wrong = alice_to_bob(false, 2, 9);
    wrong[10] ^= 1;
    assert_eq!(open(&mut sa, &sender.seal(3, &padded(&wrong, 4))), Err(DropReason::BadChecksum));
}

#[test]
fn what_else_arrives_on_the_port() {
    let (alice, bob) = hosts(false);
    let (_, mut sa) = Sender::new(Mode::Tunnel, false);
    let mut datagram =
        |port: u16, payload: &[u8]| open(&mut sa, &udp_packet((alice, 4500), (bob, port), 0, true, payload));
    assert_eq!(datagram(4500, &[0xff]), Err(DropReason::Keepalive));
    assert_eq!(datagram(4500, &[0, 0, 0, 0, 1, 2, 3, 4, 5]), Err(DropReason::IkeUnsupported));
    assert_eq!(datagram(4500, &[]), Err(DropReason::NotEsp));
    assert_eq!(datagram(4500, &[0xff, 0xff]), Err(DropReason::NotEsp));
    assert_eq!(datagram(4501, &[1; 100]), Err(DropReason::NotEsp));
    assert_eq!(open(&mut sa, &ip_packet(alice, bob, 6, 0, true, &[1; 100])), Err(DropReason::NotEsp));
    assert_eq!(open(&mut sa, &ip_packet(alice, bob, 50, 0, true, &[1; 7])), Err(DropReason::EspTooShort));
    assert_eq!(open(&mut sa, &ip_packet(alice, bob, 50, 0, true, &[1; 8])), Err(DropReason::EspTooShort));
}
