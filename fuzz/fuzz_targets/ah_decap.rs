//! AH with fixed associations.
//!
//! The first octet picks mode, family and sequence numbers, the second what is done with the rest: taken as an outer packet as
//! it is, or as an inner packet that is signed, changed in one octet, and verified. Nothing forged may come through; what is
//! genuine comes through once, and as it went in. The key is a toy: the code around it is what is tried here.
#![no_main]

use crypto::{Authenticator, CryptoError, Integrity, Provider, Registry, Secret, SuiteId, Transform};
use ipsec::Outer;
use libfuzzer_sys::fuzz_target;
use sadb::sa::{Encapsulation, SaOptions, SaProtocol};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use std::sync::LazyLock;
use wire::ip::{self, Headers};
use wire::stage::{self, Scheduled};
use wire::{Buf, DropReason, Meta, Packet, Pool};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

/// A checksum of 128 bits (FNV-1a). It finds every change of one octet, which is all that this target makes.
struct Toy;

impl Toy {
    fn sum(parts: &[&[u8]]) -> [u8; 16] {
        let mut sum = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58du128;
        for octet in parts.iter().copied().flatten() {
            sum = (sum ^ u128::from(*octet)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        sum.to_be_bytes()
    }
}

impl Authenticator for Toy {
    fn len(&self) -> usize {
        16
    }

    fn sign(&self, _: u64, parts: &[&[u8]], out: &mut [u8]) {
        out.copy_from_slice(&Toy::sum(parts));
    }

    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        Toy::sum(parts) == icv
    }
}

impl Provider for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn offers(&self, _: SuiteId) -> bool {
        false
    }

    fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        Err(CryptoError::NoProvider(suite))
    }

    fn authenticator(&self, _: Integrity, _: &Secret) -> Result<Box<dyn Authenticator>, CryptoError> {
        Ok(Box::new(Toy))
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new().with(Toy));

fuzz_target!(|bytes: &[u8]| {
    let Some((&[which, what], rest)) = bytes.split_first_chunk() else { return };
    let mut inbound =
        InboundSa::new(config(Direction::Inbound, which), &REGISTRY).expect("a sound association");
    let mut pool = Pool::new(4096, ipsec::HEADROOM, 4);
    if what & 1 == 0 {
        // The toy can be forged, so whatever is opened may be; nothing may panic.
        let _ = open(&mut inbound, rest, &mut pool);
        return;
    }
    let mut outbound =
        OutboundSa::new(config(Direction::Outbound, which), &REGISTRY).expect("a sound association");
    let Some((&[at, mask], inner)) = rest.split_first_chunk() else { return };
    let inner = &inner[..inner.len().min(3000)];
    // The engine has looked at it before; transport mode makes it anew.
    if Headers::parse(inner).is_ok_and(|headers| !ip::checksum_ok(inner, &headers)) {
        return;
    }
    let Some(signed) = sign(&mut outbound, inner, &mut pool) else { return };
    let headers = Headers::parse(&signed).expect("what is signed is a packet");
    let mut changed = signed.clone();
    let place = headers.header_len + usize::from(at) % (signed.len() - headers.header_len);
    changed[place] ^= mask;
    if mask != 0 {
        assert!(open(&mut inbound, &changed, &mut pool).is_err(), "an octet behind the headers was changed");
    }
    match open(&mut inbound, &signed, &mut pool) {
        Ok(opened) => {
            assert_eq!(opened, inner);
            assert_eq!(open(&mut inbound, &signed, &mut pool), Err(DropReason::Replayed));
        }
        Err(reason) => assert_ne!(reason, DropReason::AuthFailed, "nothing was changed"),
    }
});

fn config(direction: Direction, which: u8) -> SaConfig {
    let (a, b): (IpAddr, IpAddr) = if which & 2 != 0 {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
    };
    let (local, remote) = if direction == Direction::Outbound { (a, b) } else { (b, a) };
    SaConfig {
        spi: Spi(0x0102_0304),
        direction,
        mode: if which & 1 == 0 { Mode::Tunnel } else { Mode::Transport },
        suite: SuiteId::authenticating(Integrity::HmacSha256).expect("a suite"),
        keymat: Secret::new(vec![1; Integrity::HmacSha256.keymat_len()]),
        endpoints: Endpoints { local, remote, local_port: 0, remote_port: 0 },
        selectors: Selectors::ANY,
        replay_window: 64,
        path_mtu: 1500,
        options: SaOptions {
            protocol: SaProtocol::Ah,
            encapsulation: Encapsulation::None,
            extended_sequence: which & 4 != 0,
            ..SaOptions::default()
        },
    }
}

fn sign(sa: &mut OutboundSa, inner: &[u8], pool: &mut Pool) -> Option<Vec<u8>> {
    let buf = Buf::from_slice(inner, ipsec::HEADROOM, ipsec::TAILROOM);
    let packet = Packet::from_host(buf, Meta::default())
        .advance::<stage::Selected>(&Placed)
        .advance::<Scheduled>(&Placed);
    ipsec::encap(sa, packet, pool).ok().map(|packet| packet.bytes().to_vec())
}

fn open(sa: &mut InboundSa, bytes: &[u8], pool: &mut Pool) -> Result<Vec<u8>, DropReason> {
    let headers = Headers::parse(bytes).map_err(DropReason::from)?;
    let bytes = &bytes[..headers.total_len];
    let outer = Outer::find(bytes, &headers, 4500)?;
    let packet = Packet::raw(Buf::from_slice(bytes, 0, 0), Meta::default());
    let packet = packet
        .advance::<stage::Clean>(&Placed)
        .advance::<stage::Classed>(&Placed)
        .advance::<Scheduled>(&Placed);
    match ipsec::decap(sa, packet, &outer, pool) {
        Ok(packet) => Ok(packet.bytes().to_vec()),
        Err(reason) => Err(reason),
    }
}
