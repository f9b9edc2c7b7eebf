//! The configuration file (TOML): what the daemon needs to know beside the policy.
//!
//! What enters: a file. What leaves: a [`Config`] with every value checked, or a [`Report`] that names every fault
//! by file, line and column with a remedy. There is no place for a key in it (docs/design/0003 item 2).
//!
//! The configuration of a scrubber in line is read with the same [`Reader`] ([`refine`]: what it has in common with the
//! daemon's). The manifests of ciphers of one's own are read as well, since they say which suites there are. So is the
//! graph that `[qos]` names ([`load_graph`]): whoever has it knows which classes there are.
#![forbid(unsafe_code)]

mod audit;
mod ciphers;
mod costs;
mod flows;
mod gateway;
mod graph;
mod icmp;
mod io;
mod ipip;
mod marks;
mod names;
mod qos;
mod read;
pub mod refine;
mod report;
mod scrub;
pub mod scrub_text;
mod suggestion;
mod translation;

pub use self::qos::{ComponentConfig, GraphSource, QosConfig};
pub use self::scrub::ScrubConfig;
pub use audit::{AuditConfig, RemoteAudit};
pub use ciphers::{CipherConfig, CipherSource, CiphersConfig, Isolation, RefusedCipher};
pub use costs::{load_costs, read_costs};
pub use flows::FlowsConfig;
pub use gateway::GatewayConfig;
pub use graph::{
    BrokenGraph, GraphError, LoadedGraph, MAX_GRAPH, classes_of, house, house_of, libraries_of, load_graph,
    load_graph_for,
};
pub use icmp::IcmpConfig;
pub use io::OuterIo;
pub use names::{NameLimits, NamesConfig};
pub use read::{Reader, Value, walk};
pub use report::{Finding, Report, without_keys};
pub use suggestion::suggestion;
pub use translation::Translation;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The port of ESP in UDP (RFC 3948 section 2.1).
pub const ESP_PORT: u16 = 4500;
/// Seconds of silence behind which a keepalive is sent (RFC 3948 section 4).
pub const KEEPALIVE: u16 = 20;
/// The most packets that wait in the TUN. It has no back-pressure, and a program sends bursts until the daemon is awake
/// (docs/design/0008, "The queue of the TUN").
pub const TUN_QUEUE: u32 = 512;
/// The name of the TUN, unless told otherwise.
pub const TUN_NAME: &str = "rvl0";
/// The name of the enc device, unless told otherwise.
pub const ENC_NAME: &str = "rvle0";
/// The name of the instance, unless told otherwise.
pub const INSTANCE: &str = "main";

/// The configuration of a daemon, with every value checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// Names pins, sockets and cgroup of this daemon.
    pub instance: String,
    /// The path of the policy file.
    pub policy: PathBuf,
    /// How policy becomes what decides about packets.
    pub translation: Translation,
    /// The path of the control socket.
    pub control_socket: PathBuf,
    /// Interfaces to guard; `None`: those of the default routes, else all but `lo`.
    pub uplinks: Option<Vec<String>>,
    /// The cgroup to attach to; `None`: the root of the cgroup v2 tree.
    pub cgroup: Option<PathBuf>,
    /// Which bits of marks are ours.
    pub marks: wire::Marks,
    /// Whether programs may ask for protection on their own sockets (docs/socket-api.md).
    pub socket_requests: bool,
    /// The settings of the TUN.
    pub tun: TunConfig,
    /// The name of the device that shows protected packets in clear (docs/enc.md); `None`: not wanted.
    pub enc: Option<String>,
    /// The settings of ESP and its encapsulation in UDP.
    pub esp: EspConfig,
    /// The settings for ICMP errors.
    pub icmp: IcmpConfig,
    /// The settings for the networks behind this host; `None`: it is no gateway.
    pub gateway: Option<GatewayConfig>,
    /// The audit log as a file; `None`: in the log only.
    pub audit: Option<AuditConfig>,
    /// The settings for flows counted one by one; `None`: they are not.
    pub flows: Option<FlowsConfig>,
    /// The settings for host names in the policy.
    pub names: NamesConfig,
    /// How outer packets leave and arrive.
    pub outer: OuterIo,
    /// Addresses of peers whose bare IP in IP is taken. Usually there are none.
    pub tunnels_from: BTreeSet<IpAddr>,
    /// How flows are scrubbed whose policy says so.
    pub scrub: ScrubConfig,
    /// The settings for cipher suites.
    pub crypto: CryptoConfig,
    /// The graph of classes that packets pass; `None`: packets pass in the order of their coming.
    pub qos: Option<QosConfig>,
    /// The level of the log.
    pub log: LogLevel,
}

/// The settings for cipher suites, from `[crypto]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CryptoConfig {
    /// Whether DES, 3DES and HMAC-MD5 may be used (RFC 8221 says not to).
    pub legacy: bool,
    /// The unit that serves every suite it has; `None`: the fastest.
    pub unit: Option<String>,
    /// Units for single suites.
    pub units: Vec<(crypto::SuiteId, String)>,
    /// The ciphers of one's own, and the catalogue of suites, from the `[[cipher]]` tables.
    pub ciphers: CiphersConfig,
}

/// The settings of the TUN, from `[tun]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunConfig {
    /// The name of the TUN.
    pub name: String,
    /// The number of packets that the TUN's queue holds.
    pub queue: u32,
}

/// The settings of ESP, from `[esp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EspConfig {
    /// The port of ESP in UDP.
    pub port: u16,
    /// The largest outer packet in octets of associations that name no MTU; `None`: what the route takes.
    pub path_mtu: Option<u16>,
    /// Seconds of silence behind which a keepalive is sent, for associations that ask for one and say no other.
    pub keepalive: u16,
}

/// The levels of the log, from `log` in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// The level that shows only audit lines.
    Off,
    /// The level that shows what failed.
    Error,
    /// The level that shows what may fail, too.
    Warn,
    /// The level that shows what changed, too.
    Info,
    /// The level that shows how it changed, too.
    Debug,
    /// The level that shows everything else, too.
    Trace,
}

impl LogLevel {
    const WORDS: [(&'static str, LogLevel); 6] = [
        ("off", LogLevel::Off),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];

    /// The word for the level, which is also a directive for the log filter.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, level)| *level == self).map_or("info", |(word, _)| word)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}; name a readable file with --config", path.display())]
    Read {
        /// The path of the configuration file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file of costs cannot be read.
    #[error("{}: {source}; name a readable file with --cost", path.display())]
    Costs {
        /// The path of the file of costs.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has faults.
    #[error("{0}")]
    Bad(Report),
}

impl Config {
    /// Read and check a file.
    ///
    /// # Errors
    /// If it cannot be read, or with every fault that it has.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Config::parse(path, &text)
    }

    /// The ciphers of one's own in a configuration file, whatever else is in it: for whoever checks a policy.
    ///
    /// # Errors
    /// If the file cannot be read, is no TOML, or has faults in its `[[cipher]]` tables.
    pub fn load_ciphers(path: &Path) -> Result<CiphersConfig, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        read::walk(path, &text, |reader, root| Some(reader.ciphers(root))).map_err(ConfigError::Bad)
    }

    /// Check a text that came from `path`; relative paths in it start at the folder of `path`.
    ///
    /// # Errors
    /// With every fault that the text has.
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        read::read(path, text).map_err(ConfigError::Bad)
    }

    /// The folder for this instance's state: lock, numbers of applications, hand-over socket.
    pub fn run_dir(&self) -> PathBuf {
        run_dir(&self.instance)
    }
}

/// Where an instance has its state: lock, hand-over socket, numbers of applications, used keys.
pub fn run_dir(instance: &str) -> PathBuf {
    Path::new("/run/ravelin-state").join(instance)
}

/// The folder of an instance's control socket unless told otherwise.
pub fn control_dir(instance: &str) -> PathBuf {
    Path::new("/run/ravelin").join(instance)
}

/// Where an instance has its control socket unless told otherwise.
pub fn default_control_socket(instance: &str) -> PathBuf {
    control_dir(instance).join("control.sock")
}

/// Whether a name can name an instance: it becomes part of paths.
pub fn instance_is_valid(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        && !name.starts_with('-')
}

#[cfg(test)]
mod tests;
