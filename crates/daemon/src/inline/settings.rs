//! What a line is told: a file (TOML), or two interfaces and a profile.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scrub::{Config, Midstream, Octets, Profile, Protect, Urgent};
use toml::de::{DeTable, DeValue};

use crate::config::{ConfigError, INSTANCE, LogLevel, Reader, Value, suggestion, walk};
use crate::scrub as offline;

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
const PACKETS: [&str; 9] = [
    "mtu",
    "mss",
    "ttl",
    "flow_labels",
    "fast_open",
    "sanctioned",
    "protocols",
    "ipv6_options",
    "tcp_options",
];
const LIMITS: [&str; 15] = [
    "connections",
    "half_open",
    "half_open_per_source",
    "handshake",
    "idle",
    "closing",
    "sessions",
    "sessions_per_source",
    "session_idle",
    "store",
    "beyond_hole",
    "pieces",
    "fragmented_packets",
    "fragment_octets",
    "fragment_timeout",
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
/// The shortest MTU of a line: that of IPv6 (RFC 8200 section 5).
const LEAST_MTU: i64 = 1280;

/// All that a line is told.
#[derive(Clone, Debug)]
pub struct LineSettings {
    /// Names pins, lock and control socket.
    pub instance: String,
    /// Interfaces: outside, inside.
    pub interfaces: [String; 2],
    /// The profile that the rules started from.
    pub profile: Profile,
    /// Rules and bounds, of the whole line; its MTUs are filled in when the interfaces are known.
    pub scrub: Config,
    /// Longest packet that the links carry; `None`: what the interfaces say.
    pub mtu: Option<usize>,
    /// Threads.
    pub workers: usize,
    /// Types of frames that pass without being IP.
    pub ethertypes: Vec<u16>,
    /// The control socket.
    pub control_socket: PathBuf,
    /// What to log.
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
        config.flows.half_open = part(config.flows.half_open, 16);
        config.sessions.count = part(config.sessions.count, 16);
        config.store.memory = part(config.store.memory, 1 << 20);
        config.fragments.datagrams = part(config.fragments.datagrams, 4);
        config.fragments.memory = part(config.fragments.memory, 128 << 10);
        config
    }
}

/// A set and some more.
fn with(set: Octets, more: impl IntoIterator<Item = u8>) -> Octets {
    Octets::of(&(0..=u8::MAX).filter(|value| set.contains(*value)).chain(more).collect::<Vec<_>>())
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
    let config = &mut out.scrub;
    let sides = [("inside", Protect::Inside), ("both", Protect::Both)];
    config.protect = word(reader, root, "protect", Protect::Inside, &sides);
    let strays = [("drop", Midstream::Drop), ("pick-up", Midstream::PickUp)];
    config.midstream = word(reader, root, "midstream", Midstream::Drop, &strays);
    let urgent = [("in-band", Urgent::InBand), ("drop", Urgent::Drop)];
    config.urgent = word(reader, root, "urgent", Urgent::InBand, &urgent);
    rules(reader, root, config);
    out.mtu = packets(reader, root, config);
    limits(reader, root, config);
    Some(out)
}

/// One of some words.
fn word<T: Copy>(reader: &mut Reader<'_>, root: &DeTable<'_>, key: &str, usual: T, words: &[(&str, T)]) -> T {
    let Some(value) = root.get(key) else { return usual };
    let Some(text) = reader.string(value, key) else { return usual };
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == text) {
        return *found;
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let remedy = match suggestion(text, &known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of: {}", known.join(", ")),
    };
    reader.fault(value.span(), format!("`{key}` has no value {text:?}"), remedy);
    usual
}

fn number<T: TryFrom<i64>>(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    key: &str,
    range: std::ops::RangeInclusive<i64>,
    why: &str,
) -> Option<T> {
    reader.integer(value, key, range, why).and_then(|number| T::try_from(number).ok())
}

fn flag(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str, into: &mut bool) {
    let Some(value) = table.get(key) else { return };
    match value.get_ref().as_bool() {
        Some(on) => *into = on,
        None => {
            let found = value.get_ref().type_str();
            let message = format!("`{key}` must be true or false, not {found}");
            reader.fault(value.span(), message, format!("write: {key} = true"));
        }
    }
}

/// The items of a list; a fault for what is none.
fn list<'v, 't>(
    reader: &mut Reader<'_>,
    value: &'v Value<'t>,
    key: &str,
    example: &str,
) -> impl Iterator<Item = &'v Value<'t>> + use<'v, 't> {
    let array = value.get_ref().as_array();
    if array.is_none() {
        let found = value.get_ref().type_str();
        reader.fault(
            value.span(),
            format!("`{key}` must be a list, not {found}"),
            format!("write: {example}"),
        );
    }
    array.into_iter().flat_map(|array| array.iter())
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
        if matches!(number, wire::eth::IPV4 | wire::eth::IPV6 | 0x8100 | 0x88a8 | 0x9100) {
            let remedy = "IPv4 and IPv6 always go through the scrubber, whatever their tags; leave it out";
            reader.fault(item.span(), format!("{number:#06x} cannot pass unscrubbed"), remedy);
        } else {
            out.push(number);
        }
    }
    out
}

fn rules(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) {
    let Some(value) = root.get("rules") else { return };
    let Some(table) = value.get_ref().as_table() else {
        let remedy = "write [rules] on a line of its own, and below it: \"Q.8\" = \"observe\"";
        reader.fault(value.span(), "`rules` must be a table", remedy);
        return;
    };
    for (rule, mode) in table.iter() {
        let Some(mode_word) = reader.string(mode, rule.get_ref()) else { continue };
        if let Err(why) = offline::set_rule(config, rule.get_ref(), mode_word) {
            let at: Range<usize> = rule.span().start..mode.span().end;
            let remedy =
                "rules go by number or name, as in \"Q.8\" = \"observe\" or tcp_first_wins = \"observe\"";
            reader.fault(at, why, remedy);
        }
    }
}

/// The MTU, if it is said.
fn packets(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) -> Option<usize> {
    let table = reader.table(root.get("packets"), "packets", &PACKETS)?;
    if let Some(value) = table.get("mss") {
        let why = "the largest TCP segment that a SYN may offer";
        config.max_segment = number(reader, value, "mss", 88..=65_495, why);
    }
    if let Some(value) = table.get("ttl") {
        let why = "the least time to live and hop limit; 0: none";
        config.least_ttl = number(reader, value, "ttl", 0..=255, why).unwrap_or(0);
    }
    flag(reader, table, "flow_labels", &mut config.flow_labels);
    flag(reader, table, "fast_open", &mut config.fast_open);
    if let Some(value) = table.get("sanctioned") {
        let example = "sanctioned = [\"192.0.2.0/24=198.51.100.7\"]";
        for item in list(reader, value, "sanctioned", example) {
            let Some(text) = reader.string(item, "sanctioned") else { continue };
            match offline::pair(text) {
                Ok(pair) => config.sanctioned.push(pair),
                Err(why) => reader.fault(item.span(), why, format!("write: {example}")),
            }
        }
    }
    for (key, set, why) in [
        (
            "protocols",
            &mut config.protocols,
            "a protocol that passes beside the usual ones (rule 4.17), as 2 for IGMP",
        ),
        (
            "ipv6_options",
            &mut config.ipv6_options,
            "an IPv6 option that passes beside the router alert (rule 6.10)",
        ),
        (
            "tcp_options",
            &mut config.tcp_options,
            "a TCP option that passes although no rule knows it (rule O.8)",
        ),
    ] {
        let Some(value) = table.get(key) else { continue };
        for item in list(reader, value, key, &format!("{key} = [2]")) {
            *set = with(*set, number::<u8>(reader, item, key, 0..=255, why));
        }
    }
    let why = "octets that both links carry; leave it out: what the interfaces say";
    number(reader, table.get("mtu")?, "mtu", LEAST_MTU..=65_535, why)
}

fn limits(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) {
    let Some(table) = reader.table(root.get("limits"), "limits", &LIMITS) else { return };
    let mut count = |key: &str, range, why: &str, into: &mut usize| {
        if let Some(value) = table.get(key)
            && let Some(n) = number(reader, value, key, range, why)
        {
            *into = n;
        }
    };
    const GIB: i64 = 1 << 30;
    let Config { flows, sessions, store, fragments, .. } = config;
    count("connections", 16..=1 << 24, "connections whose handshake is done", &mut flows.established);
    count("half_open", 16..=1 << 22, "connections whose handshake is not done", &mut flows.half_open);
    let why = "of these, by one source (an IPv6 /64)";
    count("half_open_per_source", 1..=1 << 22, why, &mut flows.half_open_per_source);
    count("sessions", 16..=1 << 24, "flows without connections: UDP, echo", &mut sessions.count);
    count("sessions_per_source", 1..=1 << 24, why, &mut sessions.per_source);
    let why = "octets under way that are kept; a mebibyte for each worker at least";
    count("store", 1 << 20..=64 * GIB, why, &mut store.memory);
    let why = "octets behind a hole, of one connection, once half of `store` is in use";
    count("beyond_hole", 1 << 12..=GIB, why, &mut store.beyond_hole);
    count("pieces", 1..=1 << 16, "separate pieces of one connection", &mut store.pieces);
    count("fragmented_packets", 1..=1 << 20, "packets that wait for fragments", &mut fragments.datagrams);
    count("fragment_octets", 1 << 17..=4 * GIB, "octets of fragments that wait", &mut fragments.memory);
    let mut seconds = |key: &str, most: i64, why: &str, into: &mut Duration| {
        if let Some(value) = table.get(key)
            && let Some(n) = number(reader, value, key, 1..=most, why)
        {
            *into = Duration::from_secs(n);
        }
    };
    seconds("handshake", 600, "seconds that a handshake may take", &mut flows.handshake);
    seconds("idle", 7 * 86_400, "seconds that a connection may be silent", &mut flows.idle);
    seconds("closing", 3600, "seconds that a closed connection is remembered", &mut flows.closing);
    seconds("session_idle", 86_400, "seconds that a session may be silent", &mut sessions.idle);
    seconds("fragment_timeout", 120, "seconds that a fragment may wait", &mut fragments.timeout);
}
