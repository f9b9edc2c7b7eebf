//! The command `ravelin sa add`, which installs an association.

use std::net::IpAddr;

use api::{
    ClassOrMatch, Encapsulation, Headers, Keymat, Lifetime, Limits, Mode, SaAdd, SaAdded, SaType, Spi,
    SpiRequest, WordOr, path,
};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use crypto::Suites;
use documents::api_error::ApiError;
use documents::associations;

use super::key;
use super::peer::Peer;
use super::{DirectionArgument, limits};
use crate::client::Ask;
use crate::cmd::key::KeyFileOptions;
use crate::complete;
use crate::exit::{self, Failure};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wraps {
    Transport,
    Tunnel,
    Beet,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kind {
    #[default]
    Esp,
    Ah,
    Ipcomp,
    Ipip,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outer {
    Udp,
    None,
}

/// Install one association between two hosts. The key comes from a file descriptor, never from the command line.
#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    ask: Ask,
    /// Which way its packets go.
    #[arg(long, value_enum)]
    direction: DirectionArgument,
    /// Its SPI (0xc0de or 49374), or `auto` for an inbound one: the daemon chooses.
    #[arg(long)]
    spi: SpiRequest,
    /// This host's outer address.
    #[arg(long, value_name = "ADDRESS")]
    local: IpAddr,
    /// The peer's outer address.
    #[arg(long, value_name = "ADDRESS")]
    remote: IpAddr,
    /// This host's UDP port.
    #[arg(long, value_name = "PORT", default_value_t = config::ESP_PORT)]
    local_port: u16,
    /// The peer's UDP port.
    #[arg(long, value_name = "PORT", default_value_t = config::ESP_PORT)]
    remote_port: u16,
    /// The protocol; ipcomp and ipip only as members of a chain.
    #[arg(long = "type", value_enum, default_value = "esp")]
    kind: Kind,
    /// The kind of packet inside.
    #[arg(long, value_enum)]
    mode: Wraps,
    /// How outer packets travel [default: udp for ESP, none for the others].
    #[arg(long, value_enum)]
    encapsulation: Option<Outer>,
    /// aes128gcm, chacha20poly1305, aes256cbc-sha256 ...; for AH an integrity algorithm: sha256 (ravelin(1) lists all).
    #[arg(long, value_name = "NAME", default_value = "")]
    suite: String,
    /// Sequence numbers of 64 bits.
    #[arg(long)]
    esn: bool,
    /// Announce its end at: packets=N,bytes=N,seconds=N,seconds_used=N.
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    soft: Option<Limits>,
    /// End it at: packets=N,bytes=N,seconds=N,seconds_used=N.
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    hard: Option<Limits>,
    /// Lower the soft limits by a random part of at most this many percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    jitter: u8,
    /// Header fields across the tunnel, as JSON: {"dscp":46,"df":"clear","hop_limit":"copy","ecn":false,"fragment":"before"}.
    #[arg(long, value_name = "JSON", value_parser = headers)]
    headers: Option<Headers>,
    /// Pad so that lengths are a multiple of this many octets, or `full`.
    #[arg(long, value_name = "OCTETS")]
    tfc: Option<String>,
    /// Pad the ESP trailer as little as the suite allows, or to whole blocks of AES-GCM where the path has room [default: blocks].
    #[arg(long, value_name = "least|blocks")]
    padding: Option<String>,
    /// The association that the result goes through next (a bundle).
    #[arg(long, value_name = "SPI")]
    next: Option<Spi>,
    /// Find an inbound one by spi, spi+dst or spi+dst+src, the longest match first [default: spi].
    #[arg(long = "match", value_name = "WHAT")]
    found_by: Option<String>,
    /// The class of the graph that its packets are in [default: none of its own]. Outbound, beside an association that
    /// differs in nothing but SPI, keys and class, each takes the packets of its class.
    #[arg(long, value_name = "NAME", value_parser = class)]
    class: Option<ClassOrMatch>,
    /// Inner addresses on this side [default: --local].
    #[arg(long, value_name = "PREFIX")]
    selector_local: Option<String>,
    /// Inner addresses on the peer's side [default: --remote].
    #[arg(long, value_name = "PREFIX")]
    selector_remote: Option<String>,
    /// Inner protocol: tcp, udp, icmp, icmpv6 or a number [default: every].
    #[arg(long)]
    protocol: Option<String>,
    /// Inner ports on this side: 443 or 1000-2000 [default: every].
    #[arg(long, value_name = "PORTS")]
    local_ports: Option<String>,
    /// Inner ports on the peer's side [default: every].
    #[arg(long, value_name = "PORTS")]
    remote_ports: Option<String>,
    /// The application it is for [default: shared by all].
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::applications))]
    app: Option<String>,
    /// Packets in the replay window of an inbound one: a power of two, 64 to 65536; 0: none [default: 1024].
    #[arg(long, value_name = "PACKETS")]
    replay_window: Option<u32>,
    /// Largest outer packet of the path [default: the daemon's].
    #[arg(long, value_name = "OCTETS")]
    path_mtu: Option<u16>,
    #[command(flatten)]
    peer: Peer,
    /// Descriptor that gives the keying material as hexadecimal digits: cipher key, its salt, integrity key, its salt, as the
    /// suite has them (40 digits for aes128gcm). Not read for ipcomp and ipip.
    #[arg(long, value_name = "N", default_value_t = 0)]
    key_fd: u32,
    #[command(flatten)]
    sealed: KeyFileOptions,
}

impl Add {
    pub fn execute(self) -> anyhow::Result<()> {
        let sealed = self.sealed.read()?;
        let is_keyed = matches!(self.kind, Kind::Esp | Kind::Ah);
        if sealed.is_some() && !is_keyed {
            return Err(Failure::bad_input(
                "an association of type ipcomp or ipip has no key; leave --key-file out",
            ));
        }
        let keymat = if is_keyed && sealed.is_none() {
            let keymat = key::read(self.key_fd)?;
            key::check(&keymat, self.key_fd)?;
            keymat
        } else {
            Keymat::default()
        };
        let mut request = SaAdd {
            direction: self.direction.into(),
            spi: self.spi,
            local: self.local,
            remote: self.remote,
            local_port: self.local_port,
            remote_port: self.remote_port,
            mode: match self.mode {
                Wraps::Transport => Mode::Transport,
                Wraps::Tunnel => Mode::Tunnel,
                Wraps::Beet => Mode::Beet,
            },
            kind: match self.kind {
                Kind::Esp => SaType::Esp,
                Kind::Ah => SaType::Ah,
                Kind::Ipcomp => SaType::Ipcomp,
                Kind::Ipip => SaType::Ipip,
            },
            encapsulation: self.encapsulation.map(|outer| match outer {
                Outer::Udp => Encapsulation::Udp,
                Outer::None => Encapsulation::None,
            }),
            suite: self.suite,
            esn: self.esn,
            lifetime: Lifetime {
                soft: self.soft.unwrap_or_default(),
                hard: self.hard.unwrap_or_default(),
                jitter: self.jitter,
            },
            headers: self.headers,
            tfc: self.tfc.map(|text| match text.parse() {
                Ok(octets) => WordOr::Value(octets),
                Err(_) => WordOr::Word(text),
            }),
            padding: self.padding,
            keepalive: None,
            dummy: None,
            follow_peer: false,
            takes_over: false,
            next: self.next,
            found_by: self.found_by,
            class: self.class,
            sequence: None,
            local_ports: self.local_ports,
            remote_ports: self.remote_ports,
            selector_local: self.selector_local,
            selector_remote: self.selector_remote,
            protocol: self.protocol,
            app: self.app,
            replay_window: self.replay_window,
            path_mtu: self.path_mtu,
            keymat,
        };
        self.peer.ask(&mut request);
        if let Some(sealed) = &sealed {
            sealed.stand_in(&mut request)?;
        }
        // What no daemon could take needs none to be refused.
        let bad = |refused: ApiError| {
            let remedy = refused.remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            Failure::bad_input(format!("{}{remedy}", refused.message))
        };
        associations::check(&request, None).map_err(bad)?;
        // A suite that is no standard one may be of a cipher that the daemon has configured.
        let standard = associations::check(&request, Some(&Suites::standard()));
        if let Some(sealed) = &sealed {
            // Where nobody answers, the file is not used up, and what stands for its key goes nowhere.
            if let Err(error) = self.ask.connect.get::<serde_json::Value>(path::STATUS) {
                return Err(match standard {
                    Err(refused) if exit::kind(&error) == exit::Kind::Unreachable => bad(refused),
                    _ => error,
                });
            }
            request.keymat = sealed.open()?;
        }
        let added: anyhow::Result<SaAdded> = self.ask.connect.post_secret(path::SA, request);
        if let (Err(_), Some(sealed)) = (&added, &sealed) {
            sealed.used_up();
        }
        let added = match (added, standard) {
            (Err(error), Err(refused)) if exit::kind(&error) == exit::Kind::Unreachable => {
                return Err(bad(refused));
            }
            (added, _) => added?,
        };
        self.ask.show(&added, |added| format!("{} {} added\n", added.sa.direction, added.sa.spi))
    }
}

/// The class of this name. The words of `--match`, which `--class` once meant, are no classes.
fn class(text: &str) -> Result<ClassOrMatch, String> {
    match ClassOrMatch::of(text.to_owned()) {
        ClassOrMatch::Match(word) => {
            Err(format!("{word} says what an association is found by; write --match {word}"))
        }
        class => Ok(class),
    }
}

fn headers(text: &str) -> Result<Headers, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
