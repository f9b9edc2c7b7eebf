//! Two hosts for whole packets: the outbound half of one engine and the inbound half of another, with a cipher of one's
//! own in their registries. Calls of the cipher are counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crypto::custom::{
    AeadKey, AeadOp, BlockKey, CbcOp, CtrOp, CustomCipher, CustomDescription, CustomKey, SetKeyError,
    StreamKey, StreamOp,
};
use crypto::{Registry, Secret, SuiteId, Suites, UnitFailed};
use crypto_std::CustomProvider;
use engine::{Inbound, InboundOutcome, Outbound, Outcome};
use sadb::sa::SaOptions;
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{AppId, Buf, Meta, Packet, Pool, Prefix, Services, Time, protocol, record};

use crate::calls::Octets;

const PORT: u16 = 4500;
const APP: AppId = AppId(7);
const NOW: Time = Time::from_secs(100);
/// Octets of a buffer in front of a packet and behind it.
const ROOM: usize = 4096;
/// The first of the private transform ids here; no peer sees them.
const TRANSFORM_ID: u16 = 65_000;

/// A cipher whose calls are counted.
pub(super) struct Counted<C> {
    cipher: C,
    calls: Arc<AtomicU64>,
}

struct CountedKey<K: ?Sized>(Box<K>, Arc<AtomicU64>);

impl<K: ?Sized> CountedKey<K> {
    /// The key, for so many packets or octets. Nothing at all reaches no cipher, and is no call of it.
    fn key(&self, len: usize) -> &K {
        self.1.fetch_add(u64::from(len > 0), Ordering::Relaxed);
        &self.0
    }
}

impl<C: CustomCipher> CustomCipher for Counted<C> {
    fn description(&self) -> &CustomDescription {
        self.cipher.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let calls = self.calls.clone();
        Ok(match self.cipher.set_key(key)? {
            CustomKey::Block(key) => CustomKey::Block(Box::new(CountedKey(key, calls))),
            CustomKey::Stream(key) => CustomKey::Stream(Box::new(CountedKey(key, calls))),
            CustomKey::Aead(key) => CustomKey::Aead(Box::new(CountedKey(key, calls))),
        })
    }
}

impl BlockKey for CountedKey<dyn BlockKey> {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.key(blocks.len()).encrypt_blocks(blocks)
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.key(blocks.len()).decrypt_blocks(blocks)
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        self.key(ops.len()).ctr_xor_batch(ops)
    }

    fn cbc_encrypt_batch(&self, ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        self.key(ops.len()).cbc_encrypt_batch(ops)
    }
}

impl StreamKey for CountedKey<dyn StreamKey> {
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed> {
        self.key(ops.len()).xor_batch(ops)
    }
}

impl AeadKey for CountedKey<dyn AeadKey> {
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.key(ops.len()).seal_batch(ops)
    }

    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.key(ops.len()).open_batch(ops)
    }
}

/// A registry with one cipher, and the count of its calls.
pub(super) struct Host {
    registry: Registry,
    /// The calls of the cipher's keys.
    pub(super) calls: Arc<AtomicU64>,
}

impl Host {
    /// A host with every suite of this cipher, also those that rest on it alone.
    pub(super) fn new(cipher: impl CustomCipher + 'static) -> Result<Host, String> {
        let calls = Arc::new(AtomicU64::new(0));
        let mut suites = Suites::standard();
        let said = |error: &dyn std::fmt::Display| format!("the cipher cannot be registered: {error}");
        suites.register(cipher.description(), TRANSFORM_ID, true).map_err(|error| said(&error))?;
        let cipher = Arc::new(Counted { cipher, calls: calls.clone() });
        let provider = CustomProvider::new(cipher, &suites).map_err(|error| said(&error))?;
        Ok(Host { registry: Registry::new().with_suites(suites).with(provider), calls })
    }

    /// The suites of the cipher that need nobody's word for what is out of date.
    pub(super) fn suites(&self) -> Vec<SuiteId> {
        self.registry.suites().all().filter(|suite| suite.custom().is_some() && !suite.is_legacy()).collect()
    }

    /// The half that sends, with one association.
    pub(super) fn sender(&self, config: &SaConfig) -> Result<Sender, String> {
        let item =
            Item::new(PortRange::ANY, PortRange::ANY, Services::AUTHENTICATED, Level::Mandatory, RuleId(2));
        let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
        let mut spd = Spd::new(1);
        spd.insert(APP, AppPolicy::new(vec![network], vec![vec![item]]));
        let mut engine = Outbound::new(Arc::new(spd), 1);
        let sa = OutboundSa::new(config.clone(), &self.registry).map_err(|error| error.to_string())?;
        engine.add_sa(sa).map_err(|error| error.to_string())?;
        Ok(Sender { engine, pool: pool() })
    }

    /// The half that receives what [`Self::sender`] of the same association sends.
    pub(super) fn receiver(&self, config: &SaConfig) -> Result<Receiver, String> {
        let Endpoints { local, remote, local_port, remote_port } = config.endpoints;
        let endpoints =
            Endpoints { local: remote, remote: local, local_port: remote_port, remote_port: local_port };
        let config = SaConfig { direction: Direction::Inbound, endpoints, ..config.clone() };
        let mut engine = Inbound::new(PORT);
        let sa = InboundSa::new(config, &self.registry).map_err(|error| error.to_string())?;
        engine.add_sa(sa).map_err(|error| error.to_string())?;
        Ok(Receiver { engine, pool: pool() })
    }
}

fn pool() -> Pool {
    Pool::new(ROOM + 65536 + ROOM, ROOM, 8)
}

/// The sending half of a host.
pub(super) struct Sender {
    engine: Outbound,
    pool: Pool,
}

impl Sender {
    /// The packet that leaves for this one.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut packet = Packet::from_host(Buf::from_slice(bytes, ROOM, ROOM), Meta::default());
        packet.meta.app = APP;
        packet.meta.mark = record::STAMPED | u32::from(APP.0);
        let mut out = Vec::new();
        self.engine.handle(NOW, packet, &mut self.pool, &mut out);
        match out.as_slice() {
            [Outcome::Send(outer)] => Ok(outer.bytes().to_vec()),
            [Outcome::Drop(dropped)] => Err(format!("sending dropped it: {:?}", dropped.reason)),
            _ => Err("sending gave something else than one packet".to_owned()),
        }
    }
}

/// The receiving half of a host.
pub(super) struct Receiver {
    engine: Inbound,
    pool: Pool,
}

impl Receiver {
    /// The packet that is delivered for this one; `None`: it is dropped.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let packet = Packet::raw(Buf::from_slice(bytes, ROOM, ROOM), Meta::default());
        let mut out = Vec::new();
        self.engine.handle(NOW, packet, &mut self.pool, &mut out);
        match out.as_slice() {
            [InboundOutcome::Deliver(inner, _)] => Ok(Some(inner.bytes().to_vec())),
            [InboundOutcome::Drop(_)] => Ok(None),
            _ => Err("receiving gave something else than one packet".to_owned()),
        }
    }
}

fn hosts(v6: bool) -> (IpAddr, IpAddr) {
    if v6 {
        let address = |last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        (address(0xa), address(0xb))
    } else {
        (IpAddr::from([192, 0, 2, 10]), IpAddr::from([192, 0, 2, 11]))
    }
}

/// An association from one host to the other.
pub(super) fn association(mode: Mode, suite: SuiteId, v6: bool) -> SaConfig {
    let (local, remote) = hosts(v6);
    SaConfig {
        spi: Spi(0x1234_5001),
        direction: Direction::Outbound,
        mode,
        suite,
        keymat: Secret::new(Octets::new(20).take(suite.keymat_len())),
        endpoints: Endpoints { local, remote, local_port: PORT, remote_port: PORT },
        selectors: Selectors::ANY,
        replay_window: 1024,
        path_mtu: 1500,
        options: SaOptions::default(),
    }
}

/// A datagram from one host to the other, as an IP packet.
pub(super) fn datagram(v6: bool, payload: &[u8]) -> Result<Vec<u8>, String> {
    let (src, dst) = hosts(v6);
    let said = |error: wire::WireError| format!("the packet cannot be made: {error:?}");
    let mut upper = vec![0; udp::HEADER_LEN];
    let repr = UdpRepr { src_port: 40000, dst_port: 53, payload_len: payload.len() };
    udp::emit(&mut upper, &repr).map_err(said)?;
    upper.extend(payload);
    Udp::new_checked(&mut upper[..]).map_err(said)?.fill_checksum(src, dst);
    let payload_len = upper.len();
    let mut bytes = vec![0; if v6 { 40 } else { 20 }];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let protocol = protocol::UDP;
            let repr = Ipv4Repr { src, dst, protocol, ttl: 63, tos: 0, id: 7, df: true, payload_len };
            ipv4::emit(&mut bytes, &repr).map_err(said)?;
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: protocol::UDP,
                hop_limit: 63,
                traffic_class: 0,
                flow_label: 0x12345,
                payload_len,
            };
            ipv6::emit(&mut bytes, &repr).map_err(said)?;
        }
        _ => {}
    }
    bytes.extend(upper);
    Ok(bytes)
}
