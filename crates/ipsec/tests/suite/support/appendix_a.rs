//! The whole packet of RFC 7634 appendix A: ESP in tunnel mode, without UDP. Used by the tests of this room and of
//! `crypto-mb`.

use crate::support;
use crypto::{Registry, Secret, SuiteId};
use ipsec::Outer;
use sadb::{Direction, Endpoints, InboundSa, Mode, SaConfig, Selectors, Spi};
use wire::DropReason;
use wire::ip::Headers;

const SOURCE: &str = "
    45 00 00 54 a6 f2 00 00 40 01 e7 78 c6 33 64 05 c0 00 02 05 08 00 5b 7a 3a 08 00 00 55 3b ec 10
    00 07 36 27 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f 20 21 22 23
    24 25 26 27 28 29 2a 2b 2c 2d 2e 2f 30 31 32 33 34 35 36 37";

const ESP: &str = "
    45 00 00 8c 23 45 00 00 40 32 de 5b cb 00 71 99 cb 00 71 05 01 02 03 04 00 00 00 05 10 11 12 13
    14 15 16 17 24 03 94 28 b9 7f 41 7e 3c 13 75 3a 4f 05 08 7b 67 c3 52 e6 a7 fa b1 b9 82 d4 66 ef
    40 7a e5 c6 14 ee 80 99 d5 28 44 eb 61 aa 95 df ab 4c 02 f7 2a a7 1e 7c 4c 4f 64 c9 be fe 2f ac
    c6 38 e8 f3 cb ec 16 3f ac 46 9b 50 27 73 f6 fb 94 e6 64 da 91 65 b8 28 29 f6 41 e0 76 aa a8 26
    6b 7f b0 f7 b1 1b 36 99 07 e1 ad 43";

fn octets(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect()
}

fn receiver(registry: &Registry) -> InboundSa {
    let config = SaConfig {
        spi: Spi(0x0102_0304),
        direction: Direction::Inbound,
        mode: Mode::Tunnel,
        suite: SuiteId::CHACHA20_POLY1305,
        keymat: Secret::new((0x80..0xa4).collect()),
        endpoints: Endpoints {
            local: support::ip("203.0.113.5"),
            remote: support::ip("203.0.113.153"),
            local_port: 4500,
            remote_port: 4500,
        },
        selectors: Selectors::ANY,
        replay_window: 64,
        path_mtu: 1500,
        options: sadb::sa::SaOptions::default(),
    };
    InboundSa::new(config, registry).unwrap()
}

pub fn opens_once(registry: &Registry) {
    let (mut sa, mut pool, bytes) = (receiver(registry), support::pool(), octets(ESP));
    let headers = Headers::parse(&bytes).unwrap();
    assert!(wire::ip::checksum_ok(&bytes, &headers));
    let outer = Outer::find(&bytes, &headers, 4500).unwrap();
    assert_eq!((outer.spi, outer.sequence, outer.src_port), (0x0102_0304, 5, None));

    let inner = ipsec::decap(&mut sa, support::scheduled_in(&bytes), &outer, &mut pool).unwrap();
    assert_eq!(inner.bytes(), octets(SOURCE));
    assert_eq!((inner.meta.spi, inner.meta.sequence), (0x0102_0304, 5));
    assert_eq!((sa.counters.packets, sa.counters.bytes), (1, 84));

    let again = ipsec::decap(&mut sa, support::scheduled_in(&bytes), &outer, &mut pool);
    assert!(matches!(again, Err(DropReason::Replayed)));
    assert_eq!(sa.counters.drops_for(DropReason::Replayed), 1);
}

pub fn no_bit_of_it_can_be_changed(registry: &Registry) {
    let (mut sa, mut pool, bytes) = (receiver(registry), support::pool(), octets(ESP));
    let headers = Headers::parse(&bytes).unwrap();
    for bit in 20 * 8..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let outer = Outer::find(&forged, &headers, 4500).unwrap();
        let verdict = ipsec::decap(&mut sa, support::scheduled_in(&forged), &outer, &mut pool);
        assert!(matches!(verdict, Err(DropReason::AuthFailed)), "bit {bit}: {verdict:?}");
    }
    // None of them moved the window.
    assert_eq!(sa.replay.top(), 0);
}
