//! H and S: headers of IPv4 and IPv6. A datagram that is odd, and one behind it that is not.

use super::cases::{Case, Want};
use super::fragments::{AFTER, TRUTH, twisted};
use super::packet::{DF, IN6, V4, V6, fragment_body, icmp, summed, v4, v6};
use super::stage::Stage;
use scrub::{Config, Profile};

/// What the odd one says.
const ODD: &[u8] = b"odd one";

fn odd(stage: &Stage<'_>) -> V4 {
    stage.datagram(ODD)
}

fn odd6(stage: &Stage<'_>) -> V6 {
    stage.datagram6(ODD)
}

fn after(stage: &mut Stage<'_>) {
    let packet = stage.datagram(AFTER);
    stage.outside(&packet.bytes());
}

fn after6(stage: &mut Stage<'_>) {
    let packet = stage.datagram6(AFTER);
    stage.outside(&packet.bytes());
}

/// A case in which the odd packet does not arrive.
fn ends(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::datagrams(&[AFTER]), script)
}

/// A case in which the odd packet arrives, and is not odd any more.
fn arrives(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::datagrams(&[ODD, AFTER]), script)
}

#[rustfmt::skip]
pub(super) fn four() -> Vec<Case> {
    vec![
        ends("H01", "bad header checksum", |s| {
            let mut bytes = odd(s).bytes();
            bytes[10] ^= 1;
            s.outside(&bytes);
            after(s);
        }),
        Case::new("H02", "low time to live", Want::datagrams(&[b"first", ODD, AFTER]), |s| {
            s.outside(&s.datagram(b"first").bytes());
            s.outside(&odd(s).with(|p| p.ttl = 2).bytes());
            after(s);
        }),
        arrives("H03", "bad options", |s| {
            s.outside(&odd(s).with(|p| p.options = vec![148, 0, 0, 0]).bytes());
            after(s);
        }),
        ends("H04", "source routes", |s| {
            for kind in [131, 137] {
                s.outside(&odd(s).with(|p| p.options = vec![kind, 7, 4, 10, 0, 0, 9, 0]).bytes());
            }
            after(s);
        }),
        ends("H05", "total length longer than the packet", |s| {
            let bytes = odd(s).bytes();
            s.outside(&bytes[..bytes.len() - 1]);
            after(s);
        }),
        arrives("H06", "octets behind the packet", |s| {
            s.outside(&[odd(s).bytes(), b"more".to_vec()].concat());
            after(s);
        }),
        arrives("H07", "reserved flag", |s| {
            s.outside(&odd(s).with(|p| p.flags = 0x8000).bytes());
            after(s);
        }),
        ends("H08", "header length too small and too large", |s| {
            for first in [0x44, 0x4f] {
                let mut bytes = odd(s).bytes();
                bytes[0] = first;
                s.outside(&bytes);
            }
            after(s);
        }),
        ends("H09", "wrong version", |s| {
            for first in [0x05, 0x55, 0xf5] {
                let mut bytes = odd(s).bytes();
                bytes[0] = first;
                s.outside(&bytes);
            }
            after(s);
        }),
        ends("H10", "may not be fragmented, and does not fit behind", |s| {
            s.outside(&s.datagram(&[b'x'; 1200]).with(|p| p.flags = DF).bytes());
            after(s);
        })
        .within(|setting| {
            setting.mtu = 1000;
            setting.config.iter_mut().for_each(|config| config.mtu[1] = 1000);
        }),
        arrives("H11", "type of service that toggles", |s| {
            s.outside(&odd(s).with(|p| p.tos = 0xbb).bytes());
            after(s);
        })
        .within(|setting| {
            setting.config.iter_mut().for_each(|config| *config = Config::new(Profile::Strict));
        }),
        ends("H12", "impossible sources", |s| {
            for network in [127, 224, 240] {
                s.outside(&odd(s).with(|p| (p.src[0], p.src[1], p.src[2]) = (network, 0, 0)).summed().bytes());
            }
            after(s);
        }),
        ends("H13", "unknown protocol", |s| {
            s.outside(&v4(253, b"covert").with(|p| p.src = odd(s).src).bytes());
            after(s);
        }),
    ]
}

fn truth6(stage: &Stage<'_>) -> V6 {
    stage.datagram6(TRUTH)
}

#[rustfmt::skip]
pub(super) fn six() -> Vec<Case> {
    vec![
        ends("S01", "malformed fragments: overlap, length, end", |s| {
            let packet = truth6(s);
            let other = packet.clone().with(|p| p.data = twisted(&packet.data));
            s.outside(&packet.piece(9, 0, 32));
            s.outside(&other.piece(9, 24, 64));
            let with = |body: &[u8], data: &[u8]| v6(17, data).with(|p| p.src = packet.src).header(44, body).bytes();
            s.outside(&with(&fragment_body(8, true, 10), &[0; 13]));
            s.outside(&with(&fragment_body(65528, false, 11), &[0; 16]));
            after6(s);
        }),
        arrives("S02", "atomic fragment", |s| {
            s.outside(&odd6(s).header(44, &fragment_body(0, false, 9)).bytes());
            after6(s);
        }),
        ends("S03", "atomic fragments asked for: packet too big below 1280", |s| {
            let question = v6(17, &[0; 1390]).with(|p| (p.src, p.dst) = (IN6, s.address6())).bytes();
            s.outside(&summed(v6(58, &icmp(2, 0, 1000, &question)).with(|p| p.src = s.address6()).bytes()));
            after6(s);
        }),
        ends("S04", "two fragment headers", |s| {
            let body = fragment_body(0, false, 9);
            s.outside(&odd6(s).header(44, &body).header(44, &body).bytes());
            after6(s);
        }),
        ends("S05", "routing header of type 0", |s| {
            for left in [0, 1] {
                let body = [[0, left, 0, 0, 0, 0].as_slice(), &IN6].concat();
                s.outside(&odd6(s).header(43, &body).bytes());
            }
            after6(s);
        }),
        ends("S06", "hop-by-hop options not first", |s| {
            let padding = [1, 4, 0, 0, 0, 0];
            s.outside(&odd6(s).header(60, &padding).header(0, &padding).bytes());
            after6(s);
        }),
        ends("S07", "long chain of headers", |s| {
            let mut many = odd6(s);
            for _ in 0..12 {
                many = many.header(60, &[1, 4, 0, 0, 0, 0]);
            }
            s.outside(&many.bytes());
            s.outside(&odd6(s).header(60, &[0; 270]).bytes());
            after6(s);
        }),
        arrives("S08", "covert destination options", |s| {
            s.outside(&odd6(s).header(60, &[0x1e, 4, 1, 2, 3, 4]).bytes());
            after6(s);
        }),
        ends("S09", "transport header in the second fragment", |s| {
            let packet = odd6(s);
            let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &packet.data].concat();
            let whole = packet.with(|p| (p.protocol, p.data) = (60, options));
            s.outside(&whole.piece(9, 0, 8));
            s.outside(&whole.piece(9, 8, whole.data.len()));
            after6(s);
        }),
        ends("S10", "next headers differ between fragments", |s| {
            let packet = truth6(s);
            s.outside(&packet.piece(9, 0, 32));
            s.outside(&packet.with(|p| p.protocol = 6).piece(9, 32, 64));
            after6(s);
        }),
        ends("S11", "data behind \"no next header\"", |s| {
            let inner = odd6(s);
            s.outside(&inner.with(|p| p.protocol = 59).bytes());
            after6(s);
        }),
        Case::new("S12", "wrong length, wrong next header, low hop limit", Want::datagrams(&[b"first", ODD, AFTER]), |s| {
            s.outside(&s.datagram6(b"first").bytes());
            let mut longer = odd6(s).bytes();
            longer[5] += 1;
            s.outside(&longer);
            s.outside(&odd6(s).with(|p| p.protocol = 254).bytes());
            s.outside(&odd6(s).with(|p| p.hops = 1).bytes());
            after6(s);
        }),
        ends("S13", "multicast source", |s| {
            let data = odd6(s);
            let last = data.src[15];
            let mut bytes = data.with(|p| (p.src, p.src[15]) = ([0xff; 16], last)).bytes();
            bytes[46..48].fill(0);
            s.outside(&summed(bytes));
            after6(s);
        }),
        ends("S14", "jumbo payload", |s| {
            let mut bytes = odd6(s).header(0, &[0xc2, 4, 0, 1, 0, 0]).bytes();
            s.outside(&bytes);
            bytes[4..6].fill(0);
            s.outside(&bytes);
            after6(s);
        }),
        arrives("S15", "padding with content", |s| {
            s.outside(&odd6(s).header(60, &[1, 4, 9, 9, 9, 9]).bytes());
            after6(s);
        }),
    ]
}
