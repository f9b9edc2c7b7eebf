//! The `[names]` section of the configuration: who is asked for the addresses of host names in the policy, and how long
//! they count (docs/design/0014).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use toml::de::DeValue;

use super::read::{Reader, Value};

const NAMES: [&str; 6] = ["resolvers", "observe", "timeout", "min_ttl", "max_ttl", "grace"];
/// The port of the DNS.
const PORT: u16 = 53;
/// The most DNS servers that may be named.
const MAX_SERVERS: usize = 8;

/// The settings for host names in the policy, from `[names]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesConfig {
    /// The DNS servers to ask; if empty, those of `/etc/resolv.conf`.
    pub resolvers: Vec<SocketAddr>,
    /// Whether answers that applications receive count too, where they make nothing less strict.
    pub observe: bool,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// How long answers count.
    pub limits: NameLimits,
}

/// How long answers of name servers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// The least time until a name is asked for again, whatever the answer says.
    pub floor: Duration,
    /// The most time until a name is asked for again, whatever the answer says.
    pub ceiling: Duration,
    /// The time that an address counts behind the end of its answer and of the last flow to it.
    pub grace: Duration,
    /// The time until a failed question is asked again, the first time; later ones wait longer.
    pub retry: Duration,
}

impl Default for NameLimits {
    fn default() -> NameLimits {
        let seconds = Duration::from_secs;
        NameLimits { floor: seconds(5), ceiling: seconds(3600), grace: seconds(600), retry: seconds(5) }
    }
}

impl Default for NamesConfig {
    fn default() -> NamesConfig {
        NamesConfig {
            resolvers: Vec::new(),
            observe: true,
            timeout: Duration::from_secs(5),
            limits: NameLimits::default(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn names(&mut self, value: Option<&Value<'_>>) -> NamesConfig {
        let mut out = NamesConfig::default();
        let Some(table) = self.table(value, "names", &NAMES) else { return out };
        if let Some(value) = table.get("resolvers") {
            out.resolvers = self.servers(value);
        }
        if let Some(value) = table.get("observe") {
            match value.get_ref().as_bool() {
                Some(on) => out.observe = on,
                None => {
                    let found = value.get_ref().type_str();
                    let remedy = "write: observe = false for our own resolver's answers alone";
                    self.fault(value.span(), format!("`observe` must be true or false, not {found}"), remedy);
                }
            }
        }
        let mut seconds = |what: &str, range, why: &str| {
            let number = table.get(what).and_then(|value| self.integer(value, what, range, why))?;
            Some(Duration::from_secs(u64::try_from(number).ok()?))
        };
        let limits = &mut out.limits;
        let timeout = seconds("timeout", 1..=60, "seconds until a question without an answer has failed");
        let floor = seconds("min_ttl", 1..=3600, "seconds until a name is asked for again, at least");
        let ceiling = seconds("max_ttl", 1..=86_400, "seconds until a name is asked for again, at most");
        let why = "seconds that an address counts behind the end of its answer and of the last flow to it";
        let grace = seconds("grace", 0..=86_400, why);
        out.timeout = timeout.unwrap_or(out.timeout);
        limits.floor = floor.unwrap_or(limits.floor);
        limits.ceiling = ceiling.unwrap_or(limits.ceiling.max(limits.floor));
        limits.retry = limits.floor;
        limits.grace = grace.unwrap_or(limits.grace);
        if limits.floor > limits.ceiling
            && let Some(value) = table.get("max_ttl")
        {
            let least = limits.floor.as_secs();
            self.fault(value.span(), "`max_ttl` is below `min_ttl`", format!("write {least} or more"));
            out.limits.ceiling = out.limits.floor;
        }
        out
    }

    fn servers(&mut self, value: &Value<'_>) -> Vec<SocketAddr> {
        let example = "write: resolvers = [\"192.0.2.53\", \"[2001:db8::53]:5353\"]";
        let DeValue::Array(array) = value.get_ref() else {
            let found = value.get_ref().type_str();
            self.fault(value.span(), format!("`resolvers` must be a list, not {found}"), example);
            return Vec::new();
        };
        if array.len() > MAX_SERVERS {
            let text = format!("more than {MAX_SERVERS} servers");
            self.fault(value.span(), text, "name those that are asked first");
        }
        let mut out = Vec::new();
        for item in array.iter() {
            let Some(text) = self.string(item, "resolvers") else { continue };
            let alone = text.parse::<IpAddr>().map(|addr| SocketAddr::new(addr, PORT));
            match text.parse::<SocketAddr>().or(alone) {
                Ok(server) if server.port() != 0 => out.push(server),
                _ => self.fault(item.span(), format!("{text:?} is no address of a name server"), example),
            }
        }
        out
    }
}
