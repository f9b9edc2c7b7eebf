//! What a line is told: a file (TOML), or two interfaces and a profile.

use std::path::{Path, PathBuf};

use scrub::{Config, Profile};
use toml::de::{DeTable, DeValue};

use config::refine::{list, number, refine, word};
use config::scrub_text::with;
use config::{ConfigError, INSTANCE, LogLevel, Reader, Value, walk};

const TOP: [&str; 14] = [
    "instance",
    "outside",
    "inside",
    "profile",
    "rules",
    "protect",
    "midstream",
    "urgent",
    "workers",
    "ethertypes",
    "limits",
    "packets",
    "control_socket",
    "log",
];
/// Workers at most: each has two sockets, and a share of every bound.
pub const MAX_WORKERS: usize = 64;
/// ARP: without it no two hosts find each other.
const ARP: u16 = 0x0806;
/// The IPv6 option of that name (RFC 2711).
const ROUTER_ALERT: u8 = 5;
/// Words for types of frames.
const TYPES: [(&str, u16); 5] =
    [("arp", ARP), ("lldp", 0x88cc), ("eapol", 0x888e), ("ptp", 0x88f7), ("pppoe_discovery", 0x8863)];
/// All that a line is told.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// Names pins, lock and control socket.
    pub instance: String,
    /// The names of the two interfaces: outside, inside.
    pub interfaces: [String; 2],
    /// The profile that the rules started from.
    pub profile: Profile,
    /// Rules and bounds, of the whole line; its MTUs are filled in when the interfaces are known.
    pub scrub: Config,
    /// Longest packet that the links carry; `None`: what the interfaces say.
    pub mtu: Option<usize>,
    /// The number of worker threads.
    pub workers: usize,
    /// Types of frames that pass without being IP.
    pub ethertypes: Vec<u16>,
    /// The path of the control socket.
    pub control_socket: PathBuf,
    /// The level of the messages that are logged.
    pub log: LogLevel,
    /// For measurements: packets pass and nobody looks at them.
    pub bare: bool,
}

/// Where a line has its state: lock and control socket.
pub fn run_dir(instance: &str) -> PathBuf {
    Path::new("/run/ravelin-inline").join(instance)
}

/// Where a line has its control socket unless told otherwise.
pub fn control_socket(instance: &str) -> PathBuf {
    run_dir(instance).join("control.sock")
}

/// Where a line tells a standby of connections, or hears of another line's.
pub fn standby_socket(instance: &str) -> PathBuf {
    run_dir(instance).join("standby.sock")
}

impl LineSettings {
    /// A line between two interfaces, with everything else as it is usual.
    pub fn new(outside: &str, inside: &str, profile: Profile) -> LineSettings {
        let mut scrub = Config::new(profile);
        // A line is between hosts and their switches: without it no report of a multicast group is believed (RFC 3810 section 5),
        // and where switches listen for those, neighbour discovery fails.
        scrub.one_link = true;
        scrub.ipv6_options = with(scrub.ipv6_options, [ROUTER_ALERT]);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        LineSettings {
            instance: INSTANCE.to_owned(),
            interfaces: [outside.to_owned(), inside.to_owned()],
            profile,
            scrub,
            mtu: None,
            workers: processors.min(8),
            ethertypes: vec![ARP],
            control_socket: control_socket(INSTANCE),
            log: LogLevel::Info,
            bare: false,
        }
    }

    /// Read and check a file.
    ///
    /// # Errors
    /// If it cannot be read, or with every fault that it has.
    pub fn load(path: &Path) -> Result<LineSettings, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        LineSettings::parse(path, &text)
    }

    /// Check a text that came from `path`.
    ///
    /// # Errors
    /// With every fault that the text has.
    pub fn parse(path: &Path, text: &str) -> Result<LineSettings, ConfigError> {
        walk(path, text, settings).map_err(ConfigError::Bad)
    }

    /// Another name, and what goes with it.
    pub fn set_instance(&mut self, instance: &str) {
        self.instance = instance.to_owned();
        self.control_socket = control_socket(instance);
    }

    /// What one of the workers is told: its share of every bound, and the MTUs (outside, inside).
    pub fn share(&self, mtus: [usize; 2]) -> Config {
        let mut config = self.scrub.clone();
        let part = |bound: usize, least: usize| bound.div_ceil(self.workers.max(1)).max(least);
        config.mtu = self.mtu.map_or(mtus, |mtu| [mtu; 2]);
        config.flows.established = part(config.flows.established, 16);
        config.flows.established_per_source = part(config.flows.established_per_source, 1);
        config.flows.closed = part(config.flows.closed, 16);
        config.flows.half_open = part(config.flows.half_open, 16);
        config.sessions.count = part(config.sessions.count, 16);
        config.store.memory = part(config.store.memory, 1 << 20);
        config.fragments.datagrams = part(config.fragments.datagrams, 4);
        config.fragments.memory = part(config.fragments.memory, 128 << 10);
        config
    }
}

fn settings(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Option<LineSettings> {
    reader.keys(root, &TOP, "");
    let profile = word(reader, root, "profile", Profile::Standard, &Profile::ALL.map(|p| (p.name(), p)));
    let mut side = |key: &str, other: &str| match root.get(key) {
        Some(value) => reader.interface(value, key),
        None => {
            let remedy = format!("add: {key} = \"NAME\", the interface that leads to the {other} side");
            reader.fault(0..0, format!("the key `{key}` is missing"), remedy);
            None
        }
    };
    let interfaces = [side("outside", "untrusted"), side("inside", "protected")];
    if interfaces[0].is_some() && interfaces[0] == interfaces[1] {
        let at = root.get("inside").map_or(0..0, |value| value.span());
        reader.fault(at, "`outside` and `inside` are one interface", "a line is between two");
    }
    let [outside, inside] = interfaces.map(Option::unwrap_or_default);
    let mut out = LineSettings::new(&outside, &inside, profile);
    out.set_instance(&reader.instance(root.get("instance")));
    out.control_socket = reader.control_socket(root.get("control_socket"), out.control_socket.clone());
    out.log = reader.log(root.get("log"));
    if let Some(value) = root.get("workers") {
        let why = "threads; one for each processor that is to spare";
        out.workers = number(reader, value, "workers", 1..=MAX_WORKERS as i64, why).unwrap_or(out.workers);
    }
    if let Some(value) = root.get("ethertypes") {
        out.ethertypes = types(reader, value);
    }
    out.mtu = refine(reader, root, &mut out.scrub);
    Some(out)
}

fn types(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<u16> {
    let mut out = Vec::new();
    for item in list(reader, value, "ethertypes", "ethertypes = [\"arp\", 0x88cc]") {
        if let DeValue::String(word) = item.get_ref() {
            match TYPES.iter().find(|(known, _)| known == word) {
                Some((_, number)) => out.push(*number),
                None => {
                    let known: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
                    let remedy = format!("use a number, as in 0x88cc, or one of: {}", known.join(", "));
                    reader.fault(item.span(), format!("no type of frame is called {word:?}"), remedy);
                }
            }
            continue;
        }
        let why = "an Ethernet type; below 0x0600 a number is a length";
        let Some(number) = number(reader, item, "ethertypes", 0x0600..=0xffff, why) else { continue };
        if wire::link::may_carry_ip(number) {
            let remedy = "IPv4 and IPv6 never pass unscrubbed, whatever is in front of them; leave it out";
            reader.fault(item.span(), format!("{number:#06x} cannot pass unscrubbed"), remedy);
        } else {
            out.push(number);
        }
    }
    out
}
