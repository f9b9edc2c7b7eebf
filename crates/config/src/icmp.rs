//! The `[icmp]` section of the configuration: which ICMP errors may do what (RFC 4301 section 6).

use std::time::Duration;

use engine::{IcmpKind, IcmpPolicy, InnerIcmp, QuotedCheck};
use toml::de::DeValue;

use super::read::{Reader, Value};

const ICMP: [&str; 8] =
    ["accept", "inner", "quoted", "per_second", "pmtu_floor", "pmtu_age", "refusals", "probe"];
const CHECKS: [(&str, QuotedCheck); 3] =
    [("always", QuotedCheck::Always), ("unmatched", QuotedCheck::Unmatched), ("never", QuotedCheck::Never)];

/// The settings for ICMP errors and path probing, from `[icmp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpConfig {
    /// The policy for ICMP errors that arrive in clear.
    pub outer: IcmpPolicy,
    /// The policy for ICMP errors inside associations.
    pub inner: InnerIcmp,
    /// Whether peers are asked if long packets arrive, and answered.
    pub probe: bool,
}

impl Default for IcmpConfig {
    /// What each part has as its default; paths are probed.
    fn default() -> IcmpConfig {
        IcmpConfig { outer: IcmpPolicy::default(), inner: InnerIcmp::default(), probe: true }
    }
}

impl Reader<'_> {
    pub(super) fn icmp(&mut self, value: Option<&Value<'_>>) -> IcmpConfig {
        let mut icmp = IcmpConfig::default();
        let Some(table) = self.table(value, "icmp", &ICMP) else { return icmp };
        if let Some(kinds) = table.get("accept").and_then(|value| self.kinds(value, "accept")) {
            icmp.outer.accept = kinds;
        }
        if let Some(kinds) = table.get("inner").and_then(|value| self.kinds(value, "inner")) {
            icmp.inner.accept = kinds;
        }
        if let Some(value) = table.get("quoted")
            && let Some(word) = self.string(value, "quoted")
        {
            match CHECKS.iter().find(|(name, _)| *name == word) {
                Some((_, check)) => icmp.inner.check = *check,
                None => self.fault(
                    value.span(),
                    format!("`quoted` cannot be {word:?}"),
                    "use one of: always, unmatched, never",
                ),
            }
        }
        let why = "errors that are looked at in a second; 0: none, so that nothing is learned";
        if let Some(number) =
            table.get("per_second").and_then(|v| self.integer(v, "per_second", 0..=10_000, why))
        {
            icmp.outer.per_second = u32::try_from(number).unwrap_or_default();
        }
        let why = "octets; no IPv4 path is taken for narrower, whatever an error says (IPv6: always 1280)";
        if let Some(number) =
            table.get("pmtu_floor").and_then(|v| self.integer(v, "pmtu_floor", 576..=9000, why))
        {
            icmp.outer.path.floor_v4 = u16::try_from(number).unwrap_or(u16::MAX);
        }
        let why = "seconds until a learned path MTU is tried to be exceeded again; RFC 1191 asks for 300 or more, 600 is a good start";
        if let Some(number) = table.get("pmtu_age").and_then(|v| self.integer(v, "pmtu_age", 1..=86_400, why))
        {
            icmp.outer.path.age = Duration::from_secs(u64::try_from(number).unwrap_or_default());
        }
        let why =
            "ICMP errors in a second that tell senders on this side that their packets are refused; 0: none";
        if let Some(number) = table.get("refusals").and_then(|v| self.integer(v, "refusals", 0..=10_000, why))
        {
            icmp.outer.refusals = u32::try_from(number).unwrap_or_default();
        }
        if let Some(value) = table.get("probe") {
            match value.get_ref() {
                DeValue::Boolean(on) => icmp.probe = *on,
                _ => self.fault(
                    value.span(),
                    "`probe` must be true or false",
                    "write: probe = false, and peers are neither asked whether long packets arrive, nor answered",
                ),
            }
        }
        icmp
    }

    /// Read a list of `icmp/TYPE`, `icmp/TYPE/CODE` and the same with `icmpv6`.
    pub(super) fn kinds(&mut self, value: &Value<'_>, what: &str) -> Option<Vec<IcmpKind>> {
        let DeValue::Array(array) = value.get_ref() else {
            self.fault(
                value.span(),
                format!("`{what}` must be a list, not {}", value.get_ref().type_str()),
                format!("write: {what} = [\"icmp/3/4\", \"icmpv6/2\"], or [] for none"),
            );
            return None;
        };
        let mut kinds = Vec::new();
        for item in array.iter() {
            let Some(text) = self.string(item, what) else { continue };
            match kind(text) {
                Some(kind) => kinds.push(kind),
                None => self.fault(
                    item.span(),
                    format!("{text:?} names no ICMP error"),
                    "write icmp/TYPE or icmp/TYPE/CODE, or the same with icmpv6; types of errors are 3, 4, 5, 11, 12 of \
                     icmp, 1 to 127 and 137 of icmpv6",
                ),
            }
        }
        Some(kinds)
    }
}

fn kind(text: &str) -> Option<IcmpKind> {
    let mut parts = text.split('/');
    let version = match parts.next()? {
        "icmp" => 4,
        "icmpv6" => 6,
        _ => return None,
    };
    let kind: u8 = parts.next()?.parse().ok()?;
    let code = match parts.next() {
        Some(code) => Some(code.parse().ok()?),
        None => None,
    };
    let is_error = match version {
        4 => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => (1..128).contains(&kind) || kind == 137,
    };
    (is_error && parts.next().is_none()).then_some(IcmpKind { version, kind, code })
}
