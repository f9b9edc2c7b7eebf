//! Associations on their way from one daemon to its successor (docs/design/0003 item 7).
//!
//! What enters: the exported state of every association and the book of used keys. What leaves: octets that hold keys,
//! so as a [`Secret`], and back. The form is versioned, says its own length and carries a CRC: a slip in a sequence
//! number would repeat nonces, so anything but the exact octets is refused as a whole. It never lies on a disk.
//!
//! Big-endian: magic (8), version (4), length of all (8), key of the fingerprints, used keys, inbound, outbound
//! associations, rules, what scrubbers know, CRC-64 (8). Lists have a 32-bit count in front, octet strings a 16-bit
//! length. The version before is read too: its associations have no class.

mod crc;
mod error;
mod form;
mod octets;
mod options;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crypto::{Secret, SuiteId, Suites};
use wire::{AppId, Prefix, ScrubId, Time};

use crate::sa::{InboundState, OutboundState};
use crate::spd::PortRange;
use crate::{
    Direction, Endpoints, KeyBook, MAX_SAS, Mode, ReplayState, ReplayWindow, SaConfig, Selectors, Spi,
};
pub use error::HandOverError;
use form::{FOOT, HEAD, MAGIC, OLDEST, VERSION};
use octets::{Reader, Writer};

/// An upper bound of the octets of one association without its keying material and replay window.
const SA_OCTETS: usize = 480;

/// The longest text of rules, in octets.
const MAX_RULES_OCTETS: usize = 1 << 30;

/// The largest number of scrubbers in a hand-over: one for each profile.
const MAX_SCRUBBERS: usize = 16;
/// The largest state of one scrubber, in octets.
const MAX_SCRUBBER_OCTETS: usize = 1 << 31;

/// Everything about associations that the successor of a daemon needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The key of the fingerprints in `used_keys`.
    pub fingerprint_key: Secret,
    /// Fingerprints of every key used so far ([`KeyBook::export`]).
    pub used_keys: Vec<[u8; 32]>,
    /// The state of every inbound association.
    pub inbound: Vec<InboundState>,
    /// The state of every outbound association.
    pub outbound: Vec<OutboundState>,
    /// The rules of the SPD, in the daemon's own form.
    pub rules: Vec<u8>,
    /// The state of the scrubbers, by profile, in their own form.
    pub scrubbed: Vec<(ScrubId, Vec<u8>)>,
}

/// The largest number of octets that an association takes in a hand-over.
pub fn octets_of(config: &SaConfig) -> usize {
    let window = ReplayWindow::MAX / u8::BITS;
    SA_OCTETS + config.keymat.len() + window.min(config.replay_window.div_ceil(u8::BITS) + 16) as usize
}

impl HandOver {
    /// The number of octets that a hand-over needs without the state of the scrubbers and without the associations (see
    /// [`octets_of`]).
    pub fn octets_beside(used_keys: usize, rules: usize) -> usize {
        HEAD + FOOT + 64 + 32 + 32 * used_keys + rules + 5 * MAX_SCRUBBERS
    }

    /// Leave out the state of scrubbers, the longest first, until the whole takes at most `most` octets. Returns the
    /// profiles that were left out. Their flows are then picked up from their next segment, and no association is lost.
    pub fn fit(&mut self, most: usize) -> Vec<ScrubId> {
        let mut left = Vec::new();
        while self.most_octets() > most {
            let longest = self.scrubbed.iter().enumerate().max_by_key(|(_, (_, octets))| octets.len());
            let Some(at) = longest.map(|(at, _)| at) else { break };
            left.push(self.scrubbed.remove(at).0);
        }
        left
    }

    /// The octets to hand over.
    pub fn to_bytes(&self) -> Secret {
        let mut out = Writer::with_capacity(self.most_octets());
        out.put(&MAGIC);
        out.u32(VERSION);
        out.u64(0);
        out.string(self.fingerprint_key.expose());
        out.count(self.used_keys.len());
        for entry in &self.used_keys {
            out.put(entry);
        }
        out.count(self.inbound.len());
        for state in &self.inbound {
            put_inbound(&mut out, state);
        }
        out.count(self.outbound.len());
        for state in &self.outbound {
            put_outbound(&mut out, state);
        }
        out.count(self.rules.len());
        out.put(&self.rules);
        out.count(self.scrubbed.len());
        for (profile, octets) in &self.scrubbed {
            out.u8(profile.0);
            out.count(octets.len());
            out.put(octets);
        }
        out.finish()
    }

    /// Read what [`HandOver::to_bytes`] wrote, here or in a program of the version before. Associations may have what
    /// `suites` has.
    ///
    /// # Errors
    /// [`HandOverError`].
    pub fn from_bytes(bytes: &[u8], suites: &Suites) -> Result<HandOver, HandOverError> {
        let mut head = Reader::new(bytes);
        if head.array::<8>("magic").ok() != Some(MAGIC) {
            return Err(HandOverError::NotOurs);
        }
        let short = |_| HandOverError::Length { said: (HEAD + FOOT) as u64, got: bytes.len() as u64 };
        let version = head.u32("version").map_err(short)?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(HandOverError::Version { got: version });
        }
        let said = head.u64("length").map_err(short)?;
        let got = bytes.len() as u64;
        if said != got {
            return Err(HandOverError::Length { said, got });
        }
        let (covered, crc) = bytes.split_last_chunk::<FOOT>().ok_or(HandOverError::Checksum)?;
        if crc::crc64(covered) != u64::from_be_bytes(*crc) {
            return Err(HandOverError::Checksum);
        }
        let body = covered.get(HEAD..).ok_or(HandOverError::Field("length"))?;
        read_body(&mut Reader::new(body), &Source { version, suites })
    }

    /// An upper bound of the octets that [`HandOver::to_bytes`] needs. A buffer that grew would leave keys behind.
    fn most_octets(&self) -> usize {
        let inbound =
            self.inbound.iter().map(|s| SA_OCTETS + s.config.keymat.len() + 8 * s.replay.seen.len());
        let outbound = self.outbound.iter().map(|s| SA_OCTETS + s.config.keymat.len());
        let lists = 2 + self.fingerprint_key.len() + 12 + 32 * self.used_keys.len();
        let scrubbed = 4 + self.scrubbed.iter().map(|(_, octets)| 5 + octets.len()).sum::<usize>();
        HEAD + FOOT
            + 4
            + self.rules.len()
            + scrubbed
            + lists
            + inbound.sum::<usize>()
            + outbound.sum::<usize>()
    }
}

/// What is known of the octets that are read.
struct Source<'s> {
    /// The version of their form.
    version: u32,
    /// The suites that associations may have.
    suites: &'s Suites,
}

fn read_body(body: &mut Reader<'_>, source: &Source<'_>) -> Result<HandOver, HandOverError> {
    let fingerprint_key = Secret::new(body.string("fingerprint key")?.to_vec());
    let used_keys = body.list("used keys", KeyBook::CAPACITY, |r| r.array("used keys"))?;
    let inbound = body.list("inbound associations", MAX_SAS, |r| read_inbound(r, source))?;
    let outbound = body.list("outbound associations", MAX_SAS, |r| read_outbound(r, source))?;
    let rules = body.list("rules", MAX_RULES_OCTETS, |r| r.u8("rules"))?;
    let scrubbed = body.list("scrubbers", MAX_SCRUBBERS, |r| {
        let profile = ScrubId(r.u8("scrubbers")?);
        Ok((profile, r.list("scrubbers", MAX_SCRUBBER_OCTETS, |r| r.u8("scrubbers"))?))
    })?;
    if !body.is_at_end() {
        return Err(HandOverError::Field("octets behind the scrubbers"));
    }
    Ok(HandOver { fingerprint_key, used_keys, inbound, outbound, rules, scrubbed })
}

fn put_inbound(out: &mut Writer, state: &InboundState) {
    put_config(out, &state.config);
    out.u32(state.replay.size);
    out.u64(state.replay.top);
    out.count(state.replay.seen.len());
    for word in &state.replay.seen {
        out.u64(*word);
    }
    put_use(out, state.packets, state.bytes, state.last_used);
    options::put_life(out, state.added, state.first_used, state.life);
}

fn read_inbound(r: &mut Reader<'_>, source: &Source<'_>) -> Result<InboundState, HandOverError> {
    const WORDS: usize = (ReplayWindow::MAX / u64::BITS) as usize;
    let config = read_config(r, source)?;
    let size = r.u32("replay window")?;
    let top = r.u64("replay window")?;
    let seen = r.list("replay window", WORDS, |r| r.u64("replay window"))?;
    let (packets, bytes, last_used) = read_use(r)?;
    let (added, first_used, life) = options::read_life(r)?;
    let replay = ReplayState { size, top, seen };
    Ok(InboundState { config, replay, packets, bytes, last_used, added, first_used, life })
}

fn put_outbound(out: &mut Writer, state: &OutboundState) {
    put_config(out, &state.config);
    out.u64(state.next_sequence);
    put_use(out, state.packets, state.bytes, state.last_used);
    options::put_life(out, state.added, state.first_used, state.life);
}

fn read_outbound(r: &mut Reader<'_>, source: &Source<'_>) -> Result<OutboundState, HandOverError> {
    let config = read_config(r, source)?;
    let next_sequence = r.u64("sequence number")?;
    let (packets, bytes, last_used) = read_use(r)?;
    let (added, first_used, life) = options::read_life(r)?;
    Ok(OutboundState { config, next_sequence, packets, bytes, last_used, added, first_used, life })
}

fn put_use(out: &mut Writer, packets: u64, bytes: u64, last_used: Time) {
    out.u64(packets);
    out.u64(bytes);
    out.u64(last_used.0);
}

fn read_use(r: &mut Reader<'_>) -> Result<(u64, u64, Time), HandOverError> {
    Ok((r.u64("counters")?, r.u64("counters")?, Time(r.u64("counters")?)))
}

fn put_config(out: &mut Writer, config: &SaConfig) {
    out.u32(config.spi.0);
    out.u8(match config.direction {
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    });
    out.u8(match config.mode {
        Mode::Transport => 1,
        Mode::Tunnel => 2,
        Mode::Beet => 3,
    });
    out.string(config.suite.to_string().as_bytes());
    out.string(config.keymat.expose());
    put_addr(out, config.endpoints.local);
    put_addr(out, config.endpoints.remote);
    out.u16(config.endpoints.local_port);
    out.u16(config.endpoints.remote_port);
    put_selectors(out, &config.selectors);
    out.u32(config.replay_window);
    out.u16(config.path_mtu);
    options::put(out, &config.options);
}

fn read_suite(r: &mut Reader<'_>, suites: &Suites) -> Result<SuiteId, HandOverError> {
    let name = std::str::from_utf8(r.string("suite")?).map_err(|_| HandOverError::Field("suite"))?;
    suites.find(name).map_err(|error| HandOverError::Suite(error.to_string()))
}

fn read_config(r: &mut Reader<'_>, source: &Source<'_>) -> Result<SaConfig, HandOverError> {
    Ok(SaConfig {
        spi: Spi(r.u32("SPI")?),
        direction: match r.u8("direction")? {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => return Err(HandOverError::Field("direction")),
        },
        mode: match r.u8("mode")? {
            1 => Mode::Transport,
            2 => Mode::Tunnel,
            3 => Mode::Beet,
            _ => return Err(HandOverError::Field("mode")),
        },
        suite: read_suite(r, source.suites)?,
        keymat: Secret::new(r.string("keying material")?.to_vec()),
        endpoints: Endpoints {
            local: read_addr(r)?,
            remote: read_addr(r)?,
            local_port: r.u16("endpoints")?,
            remote_port: r.u16("endpoints")?,
        },
        selectors: read_selectors(r)?,
        replay_window: r.u32("replay window")?,
        path_mtu: r.u16("path MTU")?,
        options: options::read(r, source.version)?,
    })
}

fn put_selectors(out: &mut Writer, selectors: &Selectors) {
    for prefix in [selectors.local, selectors.remote] {
        out.u8(prefix.len());
        out.put(&prefix.first().to_be_bytes());
    }
    out.u8(selectors.protocol.is_some().into());
    out.u8(selectors.protocol.unwrap_or(0));
    out.u8(selectors.app.is_some().into());
    out.u16(selectors.app.unwrap_or(AppId::NONE).0);
    for ports in [selectors.local_ports, selectors.remote_ports] {
        out.u16(ports.first);
        out.u16(ports.last);
    }
}

fn read_selectors(r: &mut Reader<'_>) -> Result<Selectors, HandOverError> {
    let (local, remote) = (read_prefix(r)?, read_prefix(r)?);
    let protocol = match (r.flag("protocol")?, r.u8("protocol")?) {
        (true, protocol) => Some(protocol),
        (false, 0) => None,
        (false, _) => return Err(HandOverError::Field("protocol")),
    };
    let app = match (r.flag("application")?, r.u16("application")?) {
        (true, app) => Some(AppId(app)),
        (false, 0) => None,
        (false, _) => return Err(HandOverError::Field("application")),
    };
    let mut ports = || Ok(PortRange { first: r.u16("ports")?, last: r.u16("ports")? });
    Ok(Selectors { local, remote, protocol, app, local_ports: ports()?, remote_ports: ports()? })
}

fn read_prefix(r: &mut Reader<'_>) -> Result<Prefix, HandOverError> {
    let len = r.u8("prefix")?;
    let bits = u128::from_be_bytes(r.array("prefix")?);
    let prefix = Prefix::from_bits(bits, len);
    // A length or bits that had to be changed were not written by us.
    if prefix.len() == len && prefix.first() == bits {
        Ok(prefix)
    } else {
        Err(HandOverError::Field("prefix"))
    }
}

fn put_addr(out: &mut Writer, addr: IpAddr) {
    match addr {
        IpAddr::V4(v4) => {
            out.u8(4);
            out.put(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.u8(6);
            out.put(&v6.octets());
        }
    }
}

fn read_addr(r: &mut Reader<'_>) -> Result<IpAddr, HandOverError> {
    match r.u8("address")? {
        4 => Ok(IpAddr::V4(Ipv4Addr::from(r.array::<4>("address")?))),
        6 => Ok(IpAddr::V6(Ipv6Addr::from(r.array::<16>("address")?))),
        _ => Err(HandOverError::Field("address")),
    }
}
