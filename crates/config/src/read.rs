//! From TOML text to a [`Config`]: a walk over the tree with its spans, which goes on after a fault.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crypto::UnknownSuite;

use super::{
    CiphersConfig, Config, CryptoConfig, ENC_NAME, ESP_PORT, EspConfig, INSTANCE, KEEPALIVE, LogLevel,
    Report, TUN_NAME, TUN_QUEUE, TunConfig,
};
use crate::suggestion::suggestion;

const TOP: [&str; 25] = [
    "instance",
    "policy",
    "translation",
    "per_socket",
    "log",
    "control_socket",
    "uplinks",
    "cgroup",
    "mark_mask",
    "socket_requests",
    "tun",
    "enc",
    "enc_name",
    "esp",
    "icmp",
    "gateway",
    "audit",
    "flows",
    "names",
    "io",
    "ipip",
    "scrub",
    "crypto",
    "cipher",
    "qos",
];
const CRYPTO: [&str; 3] = ["legacy", "unit", "units"];
const TUN: [&str; 2] = ["name", "queue"];
const ESP: [&str; 3] = ["port", "path_mtu", "keepalive"];
/// Words under which people would put a key.
const KEY_WORDS: [&str; 8] =
    ["key", "keymat", "enckey", "encryption_key", "secret", "psk", "private_key", "authkey"];
/// Words under which people would put associations.
const SA_WORDS: [&str; 4] = ["sa", "sas", "association", "associations"];
/// The longest path of a Unix socket on Linux, without its closing zero.
const SOCKET_PATH_MAX: usize = 107;
/// The longest interface name, without its closing zero.
const IFNAME_MAX: usize = 15;

pub(super) fn read(path: &Path, text: &str) -> Result<Config, Report> {
    walk(path, text, |reader, root| reader.config(path, root))
}

/// Parse a file and let `take` look at its tree; every fault that either finds.
pub fn walk<T>(
    path: &Path,
    text: &str,
    take: impl FnOnce(&mut Reader<'_>, &DeTable<'_>) -> Option<T>,
) -> Result<T, Report> {
    let mut reader = Reader {
        text,
        folder: path.parent().map_or_else(PathBuf::new, Path::to_owned),
        report: Report::new(path.display().to_string()),
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        reader.fault(
            span,
            error.message().replace('\n', ", "),
            "see https://toml.io for the syntax of the file",
        );
    }
    // The values of a file with broken syntax would only give follow-on errors.
    let taken = if reader.report.is_empty() { take(&mut reader, root.get_ref()) } else { None };
    match taken {
        Some(taken) if reader.report.is_empty() => Ok(taken),
        _ => Err(reader.report.sorted()),
    }
}

/// A reader of one file, which notes every fault that it finds.
pub struct Reader<'t> {
    text: &'t str,
    folder: PathBuf,
    report: Report,
}

/// A value of the file with the range of octets where it stands.
pub type Value<'t> = Spanned<DeValue<'t>>;

impl Reader<'_> {
    /// Note a fault of the octets `span`: what is wrong, and what to do.
    pub fn fault(&mut self, span: Range<usize>, message: impl Into<String>, remedy: impl Into<String>) {
        self.report.add(self.text, span, message.into(), remedy.into());
    }

    fn config(&mut self, path: &Path, root: &DeTable<'_>) -> Option<Config> {
        self.keys(root, &TOP, "");
        let instance = self.instance(root.get("instance"));
        let tun = self.tun(root.get("tun"));
        let enc = self.enc(root, &tun.name);
        let uplinks = self.uplinks(root.get("uplinks"), &tun.name);
        let esp = self.esp(root.get("esp"));
        let icmp = self.icmp(root.get("icmp"));
        let gateway = self.gateway(root.get("gateway"), &tun.name, uplinks.as_deref());
        let audit = self.audit(root.get("audit"), &instance);
        let flows = self.flows(root.get("flows"));
        let names = self.names(root.get("names"));
        let outer = self.outer_io(root.get("io"));
        let tunnels_from = self.tunnels_from(root.get("ipip"), outer);
        let scrub = self.scrub(root.get("scrub"));
        let control_socket =
            self.control_socket(root.get("control_socket"), super::default_control_socket(&instance));
        let cgroup = self.cgroup(root.get("cgroup"));
        let marks = self.marks(root.get("mark_mask"));
        let socket_requests = self.socket_requests(root.get("socket_requests"));
        let log = self.log(root.get("log"));
        let translation = self.translation(root.get("translation"), root.get("per_socket"));
        let ciphers = self.ciphers(root);
        let crypto = self.crypto(root.get("crypto"), ciphers);
        let qos = self.qos(root.get("qos"));
        let policy = match root.get("policy") {
            Some(value) => self.path(value, "policy"),
            None => {
                self.fault(
                    0..0,
                    "the key `policy` is missing",
                    "add: policy = \"FILE\" (relative to this file)",
                );
                None
            }
        };
        Some(Config {
            file: path.to_owned(),
            instance,
            policy: policy?,
            translation,
            control_socket,
            uplinks,
            cgroup,
            marks,
            socket_requests,
            tun,
            enc,
            esp,
            icmp,
            gateway,
            audit,
            flows,
            names,
            outer,
            tunnels_from,
            scrub,
            crypto,
            qos,
            log,
        })
    }

    fn socket_requests(&mut self, value: Option<&Value<'_>>) -> bool {
        let said = value.and_then(|value| value.get_ref().as_bool());
        if let (Some(value), None) = (value, said) {
            let remedy = "write: socket_requests = false, and programs may not ask for protection on their own sockets";
            self.fault(value.span(), "`socket_requests` must be true or false", remedy);
        }
        said.unwrap_or(true)
    }

    /// Refuse keys that are not known, and above all keys of associations.
    pub fn keys(&mut self, table: &DeTable<'_>, known: &[&str], within: &str) {
        for (key, value) in table.iter() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            if SA_WORDS.contains(&name) {
                self.associations(key.span(), value);
            } else if KEY_WORDS.contains(&name) {
                self.key(key.span(), None);
            } else {
                let place =
                    if within.is_empty() { "at the top".to_owned() } else { format!("in [{within}]") };
                let near = suggestion(name, known);
                let remedy = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known {place}: {}", known.join(", ")),
                };
                self.fault(key.span(), format!("unknown key `{name}` {place}"), remedy);
            }
        }
    }

    /// An association in the file: refused, at each key that it holds (RFC 4106 section 2, RFC 3686 section 1).
    fn associations(&mut self, at: Range<usize>, value: &Value<'_>) {
        let tables: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        let mut found = false;
        for table in tables.iter().filter_map(|v| v.get_ref().as_table()) {
            let suite = table.get("suite").and_then(|v| v.get_ref().as_str());
            for (key, _) in table.iter().filter(|(key, _)| KEY_WORDS.contains(&&**key.get_ref())) {
                self.key(key.span(), suite);
                found = true;
            }
        }
        if !found {
            let at = tables.first().map_or(at, |v| v.span());
            self.fault(
                at,
                "security associations are not configured in a file",
                "install them in the running daemon with `ravelin sa add`; they end with it",
            );
        }
    }

    fn key(&mut self, at: Range<usize>, suite: Option<&str>) {
        let suite = match suite.map(str::parse::<crypto::SuiteId>) {
            Some(Ok(suite)) => suite.to_string(),
            // Every suite there is counts; say so in general for an unknown or absent one.
            Some(Err(_)) | None => "a counter-mode suite".to_owned(),
        };
        self.fault(
            at,
            format!(
                "a key for {suite} in a file: its packet counter starts again with the daemon, and a repeated \
                 counter breaks the cipher (RFC 4106 section 2, RFC 3686 section 1)"
            ),
            "remove the key, make a fresh one, and install it in the running daemon: `ravelin sa add ... --key-fd 0`",
        );
    }

    /// The text of a string value; a fault if it is no string. `what` names the key.
    pub fn string<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let found = value.get_ref().type_str();
            self.fault(
                value.span(),
                format!("`{what}` must be a string, not {found}"),
                format!("write: {what} = \"...\""),
            );
        }
        text
    }

    pub(super) fn path(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        let text = self.string(value, what)?;
        if text.is_empty() || text.contains('\0') {
            self.fault(value.span(), format!("`{what}` is not a path"), "name a file");
            return None;
        }
        Some(self.folder.join(text))
    }

    /// The number of an integer value in `range`; a fault if it is another, with `why` to say what it counts.
    pub fn integer(
        &mut self,
        value: &Value<'_>,
        what: &str,
        range: std::ops::RangeInclusive<i64>,
        why: &str,
    ) -> Option<i64> {
        let (first, last) = (*range.start(), *range.end());
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|n| i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()).ok())
            .filter(|n| range.contains(n));
        if number.is_none() {
            self.fault(value.span(), format!("`{what}` must be a number from {first} to {last}"), why);
        }
        number
    }

    /// The table of a value, with a fault for each key that is not `known`, or one if it is no table.
    pub fn table<'v, 't>(
        &mut self,
        value: Option<&'v Value<'t>>,
        what: &str,
        known: &[&str],
    ) -> Option<&'v DeTable<'t>> {
        let value = value?;
        let table = value.get_ref().as_table();
        match table {
            Some(table) => self.keys(table, known, what),
            None => self.fault(
                value.span(),
                format!("`{what}` must be a table, not {}", value.get_ref().type_str()),
                format!("write [{what}] on a line of its own and its keys ({}) below", known.join(", ")),
            ),
        }
        table
    }

    /// The name of the instance, or the usual one with a fault if it cannot name one.
    pub fn instance(&mut self, value: Option<&Value<'_>>) -> String {
        let Some(value) = value else { return INSTANCE.to_owned() };
        match self.string(value, "instance") {
            Some(name) if super::instance_is_valid(name) => return name.to_owned(),
            Some(name) => self.fault(
                value.span(),
                format!("{name:?} cannot name an instance"),
                "use 1 to 32 letters, digits, `-` or `_`, not starting with `-`: it becomes part of paths",
            ),
            None => {}
        }
        INSTANCE.to_owned()
    }

    fn tun(&mut self, value: Option<&Value<'_>>) -> TunConfig {
        let mut tun = TunConfig { name: TUN_NAME.to_owned(), queue: TUN_QUEUE };
        let Some(table) = self.table(value, "tun", &TUN) else { return tun };
        if let Some(value) = table.get("name")
            && let Some(name) = self.interface(value, "name")
        {
            tun.name = name;
        }
        if let Some(value) = table.get("queue")
            && let Some(queue) =
                self.integer(value, "queue", 1..=1000, "packets that may wait; 512 is a good start")
        {
            tun.queue = u32::try_from(queue).unwrap_or(TUN_QUEUE);
        }
        tun
    }

    /// On unless it is switched off: it costs nothing while nobody listens.
    fn enc(&mut self, root: &DeTable<'_>, tun: &str) -> Option<String> {
        let name = match root.get("enc_name") {
            Some(value) => match self.interface(value, "enc_name") {
                Some(name) if name == "lo" || name == tun => {
                    let remedy = format!("choose a name of its own, such as {ENC_NAME:?}");
                    self.fault(value.span(), format!("{name:?} is another device"), remedy);
                    None
                }
                name => name,
            },
            None => Some(ENC_NAME.to_owned()),
        };
        let Some(value) = root.get("enc") else { return name };
        match value.get_ref().as_bool() {
            Some(on) => name.filter(|_| on),
            None => {
                let found = value.get_ref().type_str();
                let remedy = "write: enc = false; the device's name is `enc_name`";
                self.fault(value.span(), format!("`enc` must be true or false, not {found}"), remedy);
                None
            }
        }
    }

    /// The name of an interface; a fault if no interface can have it.
    pub fn interface(&mut self, value: &Value<'_>, what: &str) -> Option<String> {
        let name = self.string(value, what)?;
        let fits = (1..=IFNAME_MAX).contains(&name.len())
            && name != "."
            && name != ".."
            && !name.bytes().any(|c| {
                c == b'/' || c == b':' || c == b'%' || c.is_ascii_whitespace() || c.is_ascii_control()
            });
        if !fits {
            self.fault(
                value.span(),
                format!("{name:?} cannot name an interface"),
                "use 1 to 15 characters without white space, `/`, `:` and `%`",
            );
            return None;
        }
        Some(name.to_owned())
    }

    fn uplinks(&mut self, value: Option<&Value<'_>>, tun: &str) -> Option<Vec<String>> {
        let value = value?;
        let remedy = "write: uplinks = [\"eth0\"]; or leave it out: the interfaces of the default routes";
        let Some(array) = value.get_ref().as_array().filter(|a| !a.is_empty()) else {
            self.fault(value.span(), "`uplinks` must be a list of one or more interface names", remedy);
            return None;
        };
        let mut names = Vec::new();
        let mut seen = BTreeSet::new();
        for item in array.iter() {
            let Some(name) = self.interface(item, "uplinks") else { continue };
            if name == "lo" || name == tun {
                self.fault(
                    item.span(),
                    format!("{name:?} is not an uplink"),
                    "name interfaces that lead to other hosts; `lo` and the TUN are looked after by themselves",
                );
            } else if !seen.insert(name.clone()) {
                self.fault(item.span(), format!("the uplink {name:?} is named twice"), "remove one of them");
            } else {
                names.push(name);
            }
        }
        Some(names)
    }

    fn esp(&mut self, value: Option<&Value<'_>>) -> EspConfig {
        let mut esp = EspConfig { port: ESP_PORT, path_mtu: None, keepalive: KEEPALIVE };
        let Some(table) = self.table(value, "esp", &ESP) else { return esp };
        if let Some(value) = table.get("port")
            && let Some(port) = self.integer(value, "port", 1..=65535, "4500 is the port of RFC 3948")
        {
            esp.port = u16::try_from(port).unwrap_or(ESP_PORT);
        }
        if let Some(value) = table.get("path_mtu") {
            let why = "the largest outer IP packet of the path; leave it out to take the MTU of the route";
            esp.path_mtu =
                self.integer(value, "path_mtu", 576..=65535, why).and_then(|n| u16::try_from(n).ok());
        }
        if let Some(value) = table.get("keepalive") {
            let why = "seconds of silence behind which a keepalive leaves; 20 is what NATs stand (RFC 3948 section 4)";
            esp.keepalive = self
                .integer(value, "keepalive", 1..=3600, why)
                .and_then(|n| u16::try_from(n).ok())
                .unwrap_or(KEEPALIVE);
        }
        esp
    }

    fn crypto(&mut self, value: Option<&Value<'_>>, ciphers: CiphersConfig) -> CryptoConfig {
        let mut crypto = CryptoConfig { ciphers, ..CryptoConfig::default() };
        let Some(table) = self.table(value, "crypto", &CRYPTO) else { return crypto };
        if let Some(value) = table.get("legacy") {
            match value.get_ref().as_bool() {
                Some(legacy) => crypto.legacy = legacy,
                None => self.fault(value.span(), "`legacy` must be true or false", "write: legacy = true"),
            }
        }
        if let Some(value) = table.get("unit") {
            crypto.unit = self.string(value, "unit").map(str::to_owned);
        }
        let Some(value) = table.get("units") else { return crypto };
        let Some(units) = value.get_ref().as_table() else {
            self.fault(
                value.span(),
                "`units` must be a table",
                "write: [crypto.units], and below it: aes128gcm = \"ring\"",
            );
            return crypto;
        };
        for (name, unit) in units.iter() {
            match crypto.ciphers.suites.find(name.get_ref()) {
                // A suite may have two names.
                Ok(suite) if crypto.units.iter().any(|(known, _)| *known == suite) => {
                    self.fault(
                        name.span(),
                        format!("{suite} is named twice in [crypto.units]"),
                        "remove one of them",
                    );
                }
                Ok(suite) => {
                    if let Some(unit) = self.string(unit, name.get_ref()) {
                        crypto.units.push((suite, unit.to_owned()));
                    }
                }
                // It may be a suite of a cipher whose manifest is missing, which must not stop the daemon.
                Err(UnknownSuite::Cipher(_) | UnknownSuite::CipherOrOwn { .. })
                    if !crypto.ciphers.refused.is_empty() => {}
                Err(error) => {
                    self.fault(
                        name.span(),
                        error.to_string(),
                        "`ravelin status --json` lists the suites and their units",
                    );
                }
            }
        }
        crypto
    }

    /// The path of the control socket, or `fallback`.
    pub fn control_socket(&mut self, value: Option<&Value<'_>>, fallback: PathBuf) -> PathBuf {
        let Some(value) = value else { return fallback };
        let Some(path) = self.path(value, "control_socket") else { return fallback };
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            self.fault(
                value.span(),
                format!("the path of the control socket has {} octets", path.as_os_str().len()),
                format!("choose one of at most {SOCKET_PATH_MAX}"),
            );
        }
        path
    }

    fn cgroup(&mut self, value: Option<&Value<'_>>) -> Option<PathBuf> {
        let value = value?;
        let path = self.string(value, "cgroup")?;
        if !path.starts_with('/') {
            self.fault(
                value.span(),
                format!("`cgroup` is not an absolute path: {path:?}"),
                "name a folder of the cgroup v2 tree, such as /sys/fs/cgroup/apps; or leave it out: the root",
            );
            return None;
        }
        Some(PathBuf::from(path))
    }

    /// The level of the log, or the usual one with a fault.
    pub fn log(&mut self, value: Option<&Value<'_>>) -> LogLevel {
        let Some(value) = value else { return LogLevel::Info };
        let Some(word) = self.string(value, "log") else { return LogLevel::Info };
        let words: Vec<&str> = LogLevel::WORDS.iter().map(|(word, _)| *word).collect();
        match LogLevel::WORDS.iter().find(|(name, _)| *name == word) {
            Some((_, level)) => *level,
            None => {
                let remedy = match suggestion(word, &words) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("use one of: {}", words.join(", ")),
                };
                self.fault(value.span(), format!("no log level is called {word:?}"), remedy);
                LogLevel::Info
            }
        }
    }
}
