//! `ravelin sa add|list|del`: security associations with keys by hand.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::net::IpAddr;

use anyhow::Context;
use api::{
    Direction, Encapsulation, Headers, Keymat, Lifetime, Limits, Mode, SaAdd, SaAdded, SaDeleted, SaInfo,
    SaList, SaType, Spi, SpiRequest, WordOr, path,
};
use clap::{Args, Subcommand, ValueEnum};
use zeroize::Zeroizing;

use super::sa_peer::{Peer, path_mtu};
use crate::client::Connect;
use crate::exit::Failure;
use crate::output;

/// Security associations with keys by hand. They end with the daemon.
#[derive(Debug, Subcommand)]
pub enum Sa {
    Add(Box<Add>),
    List(List),
    Del(Del),
    Flush(Flush),
    Monitor(Monitor),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    In,
    Out,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Direction {
        match way {
            Way::In => Direction::In,
            Way::Out => Direction::Out,
        }
    }
}

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

/// Install an association. The key comes from a file descriptor, never from the command line.
#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    connect: Connect,
    /// Which way its packets go.
    #[arg(long, value_enum)]
    direction: Way,
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
    #[arg(long, value_name = "PORT", default_value_t = daemon::config::ESP_PORT)]
    local_port: u16,
    /// The peer's UDP port.
    #[arg(long, value_name = "PORT", default_value_t = daemon::config::ESP_PORT)]
    remote_port: u16,
    /// The protocol; ipcomp and ipip only as members of a chain.
    #[arg(long = "type", value_enum, default_value = "esp")]
    kind: Kind,
    /// What it wraps.
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
    /// Header fields across the tunnel, as JSON: {"dscp":46,"df":"clear","hop_limit":"copy","ecn":false}.
    #[arg(long, value_name = "JSON", value_parser = headers)]
    headers: Option<Headers>,
    /// Pad so that lengths are a multiple of this many octets, or `full`.
    #[arg(long, value_name = "OCTETS")]
    tfc: Option<String>,
    /// The association that the result goes through next (a bundle).
    #[arg(long, value_name = "SPI")]
    next: Option<Spi>,
    /// Find an inbound one by spi, spi-destination or spi-destination-source [default: spi].
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
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
    #[arg(long, value_name = "NAME")]
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
    /// Print the association as JSON.
    #[arg(long)]
    json: bool,
}

/// Show the associations. Never shows a key.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    connect: Connect,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Delete an association. Its key stays refused.
#[derive(Debug, Args)]
pub struct Del {
    #[command(flatten)]
    connect: Connect,
    /// Its SPI.
    spi: Spi,
    /// Needed where both directions have an association with this SPI.
    #[arg(long, value_enum)]
    direction: Option<Way>,
    /// Needed where associations to several peers have this SPI.
    #[arg(long, value_name = "ADDRESS")]
    remote: Option<IpAddr>,
    /// Print the deleted association as JSON.
    #[arg(long)]
    json: bool,
}

/// Delete every association. Their keys stay refused.
#[derive(Debug, Args)]
pub struct Flush {
    #[command(flatten)]
    connect: Connect,
}

/// Print what happens to associations, one JSON object a line, until interrupted: flows that lack one, and ends.
#[derive(Debug, Args)]
pub struct Monitor {
    #[command(flatten)]
    connect: Connect,
    /// Answer for the key manager: packets without an association wait while this runs, and the associations must be added.
    #[arg(long)]
    acquire: bool,
}

impl Sa {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Sa::Add(add) => add.execute(),
            Sa::List(list) => list.execute(),
            Sa::Del(del) => del.execute(),
            Sa::Flush(flush) => flush.execute(),
            Sa::Monitor(monitor) => monitor.execute(),
        }
    }
}

impl Add {
    fn execute(self) -> anyhow::Result<()> {
        let keymat = match self.kind {
            Kind::Ipcomp | Kind::Ipip => Keymat::default(),
            Kind::Esp | Kind::Ah => read_key(self.key_fd)?,
        };
        if !keymat.is_empty() || matches!(self.kind, Kind::Esp | Kind::Ah) {
            keymat.octets().map_err(|error| {
                Failure::bad_input(format!(
                    "{error}; descriptor {} must give hexadecimal digits",
                    self.key_fd
                ))
            })?;
        }
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
            keepalive: None,
            dummy: None,
            follow_peer: false,
            next: self.next,
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
        // Room enough from the start: a vector that grows leaves copies of the key behind.
        let mut body = Zeroizing::new(Vec::with_capacity(16 << 10));
        serde_json::to_writer(&mut *body, &request)?;
        drop(request);
        let added: SaAdded = self.connect.post_secret(path::SA, body)?;
        if self.json {
            return output::json(&added);
        }
        output::text(&format!("{} {} added\n", added.sa.direction, added.sa.spi))
    }
}

impl List {
    fn execute(self) -> anyhow::Result<()> {
        let list: SaList = self.connect.get(path::SA)?;
        if self.json {
            return output::json(&list);
        }
        if list.sas.is_empty() {
            return output::text("no security associations; add them with `ravelin sa add`\n");
        }
        output::text(&table(&list.sas))
    }
}

impl Del {
    fn execute(self) -> anyhow::Result<()> {
        let mut at = path::SA_ONE.replace("{spi}", &self.spi.to_string());
        let direction = self.direction.map(|way| format!("direction={}", Direction::from(way)));
        let remote = self.remote.map(|remote| format!("remote={remote}"));
        let query: Vec<String> = direction.into_iter().chain(remote).collect();
        if !query.is_empty() {
            at.push_str(&format!("?{}", query.join("&")));
        }
        let deleted: SaDeleted = self.connect.delete(&at)?;
        if self.json {
            return output::json(&deleted);
        }
        output::text(&format!("{} {} deleted\n", deleted.sa.direction, deleted.sa.spi))
    }
}

impl Flush {
    fn execute(self) -> anyhow::Result<()> {
        let list: SaList = self.connect.get(path::SA)?;
        for sa in &list.sas {
            let at = path::SA_ONE.replace("{spi}", &sa.spi.to_string());
            let at = format!("{at}?direction={}&remote={}", sa.direction, sa.remote);
            let _: SaDeleted = self.connect.delete(&at)?;
        }
        output::text(&format!("{} associations deleted\n", list.sas.len()))
    }
}

impl Monitor {
    fn execute(self) -> anyhow::Result<()> {
        let at =
            if self.acquire { format!("{}?acquire=true", path::EVENTS) } else { path::EVENTS.to_owned() };
        self.connect.stream(&at, &mut |line| output::text(&format!("{}\n", String::from_utf8_lossy(line))))
    }
}

/// The associations as a table, shared with `explain`.
pub fn table(sas: &[SaInfo]) -> String {
    let rows: Vec<Vec<String>> = sas.iter().map(row).collect();
    output::table(
        &[
            "DIR",
            "SPI",
            "TYPE",
            "MODE",
            "SUITE",
            "LOCAL",
            "REMOTE",
            "SELECTORS",
            "APPLICATION",
            "STATE",
            "PMTU",
            "SEQUENCE",
            "PACKETS",
            "OCTETS",
        ],
        &rows,
    )
}

fn row(sa: &SaInfo) -> Vec<String> {
    let udp = sa.encapsulation == Encapsulation::Udp;
    let end = |address: IpAddr, port: u16| match udp {
        true => std::net::SocketAddr::new(address, port).to_string(),
        false => address.to_string(),
    };
    let port = |ports: &Option<String>| ports.as_ref().map_or_else(String::new, |p| format!(":{p}"));
    let selectors = &sa.selectors;
    let protocol = selectors.protocol.map_or_else(String::new, |p| format!(" proto {p}"));
    vec![
        sa.direction.to_string(),
        sa.spi.to_string(),
        kind(sa),
        sa.mode.to_string(),
        if sa.suite.is_empty() { "-".to_owned() } else { sa.suite.clone() },
        end(sa.local, sa.local_port),
        end(sa.remote, sa.remote_port),
        format!(
            "{}{} - {}{}{protocol}",
            selectors.local,
            port(&selectors.local_ports),
            selectors.remote,
            port(&selectors.remote_ports)
        ),
        selectors.app.clone().unwrap_or_else(|| "(shared)".to_owned()),
        state(sa),
        path_mtu(sa),
        sa.sequence.to_string(),
        sa.counters.packets.to_string(),
        output::octets(sa.counters.bytes),
    ]
}

fn kind(sa: &SaInfo) -> String {
    let word = match sa.kind {
        SaType::Esp => "esp",
        SaType::Ah => "ah",
        SaType::Ipcomp => "ipcomp",
        SaType::Ipip => "ipip",
    };
    match (sa.encapsulation, sa.esn) {
        (Encapsulation::Udp, false) => format!("{word}/udp"),
        (Encapsulation::Udp, true) => format!("{word}/udp/esn"),
        (Encapsulation::None, false) => word.to_owned(),
        (Encapsulation::None, true) => format!("{word}/esn"),
    }
}

fn state(sa: &SaInfo) -> String {
    match sa.state {
        api::LifeState::Mature => "mature",
        api::LifeState::Dying => "dying",
        api::LifeState::Dead => "dead",
    }
    .to_owned()
}

/// `packets=N,bytes=N,seconds=N,seconds_used=N`, any of them.
fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let field = match name {
            "packets" => &mut limits.packets,
            "bytes" => &mut limits.bytes,
            "seconds" => &mut limits.seconds,
            "seconds_used" => &mut limits.seconds_used,
            _ => {
                return Err(format!(
                    "no limit is called {name:?}; known: packets, bytes, seconds, seconds_used"
                ));
            }
        };
        *field = value.parse().map_err(|_| format!("{name} needs a number, as in {name}=1000000"))?;
    }
    Ok(limits)
}

fn headers(text: &str) -> Result<Headers, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Keying material from a descriptor: at most a few hundred digits, into memory that is wiped.
fn read_key(fd: u32) -> anyhow::Result<Keymat> {
    const MOST: u64 = 1024;
    let mut text = Zeroizing::new(String::with_capacity(MOST as usize + 1));
    let mut read = |source: &mut dyn Read| source.take(MOST + 1).read_to_string(&mut text);
    match fd {
        0 if std::io::stdin().is_terminal() => {
            return Err(Failure::bad_input(
                "standard input is a terminal, which would show the key; pipe it in, or use --key-fd N N<FILE",
            ));
        }
        0 => read(&mut std::io::stdin().lock()).context("reading the key from standard input")?,
        _ => {
            let path = format!("/proc/self/fd/{fd}");
            let mut file = File::open(&path).map_err(|error| {
                Failure::bad_input(format!(
                    "descriptor {fd} cannot be read ({error}); open one, as in: {fd}< <(...)"
                ))
            })?;
            read(&mut file).with_context(|| format!("reading the key from descriptor {fd}"))?
        }
    };
    if text.len() as u64 > MOST {
        return Err(Failure::bad_input(format!(
            "descriptor {fd} gives more than {MOST} octets: that is no key"
        )));
    }
    Ok(Keymat::new(std::mem::take(&mut *text)))
}

/// Refuse a key among the arguments before anything could print it: every user may read them (`ps`).
pub fn no_key_in_arguments(args: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let of_sa = args.iter().any(|a| a == "sa") && args.iter().any(|a| a == "add");
    if of_sa && args.iter().any(|arg| looks_like_a_key(arg)) {
        return Err(Failure::bad_input(
            "a key on the command line is visible to every user of this host: do not use it any more. Make a new one \
             and give it through a descriptor: ravelin sa add ... --key-fd 0 < KEYFILE",
        ));
    }
    Ok(())
}

fn looks_like_a_key(arg: &str) -> bool {
    let value = arg.rsplit('=').next().unwrap_or(arg);
    let digits = value.strip_prefix("0x").unwrap_or(value);
    digits.len() >= 32 && digits.bytes().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_among_the_arguments_is_refused_and_not_repeated() {
        let key = "000102030405060708090a0b0c0d0e0f10111213";
        for args in [
            vec!["sa", "add", key],
            vec!["sa", "add", "--key", key],
            vec!["sa", "add", "--keymat=000102030405060708090a0b0c0d0e0f10111213"],
        ] {
            let refused = no_key_in_arguments(args.into_iter().map(OsString::from)).unwrap_err().to_string();
            assert!(!refused.contains("0102"), "{refused}");
        }
        let fine = ["sa", "add", "--local", "2001:db8:1111:2222:3333:4444:5555:6666", "--spi", "0xffffffff"];
        no_key_in_arguments(fine.into_iter().map(OsString::from)).unwrap();
    }
}
