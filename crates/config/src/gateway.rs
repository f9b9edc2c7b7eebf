//! The `[gateway]` section of the configuration: the networks behind this host (docs/gateway.md).

use std::collections::BTreeSet;
use std::path::PathBuf;

use engine::IcmpKind;

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const KEYS: [&str; 4] = ["inside", "default", "rules", "icmp"];
const DEFAULTS: [&str; 2] = ["discard", "bypass"];

/// The settings of gateway mode, from `[gateway]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// Interfaces that lead to the networks behind this host.
    pub inside: Vec<String>,
    /// Whether packets that no rule matches pass in clear, instead of being discarded as RFC 4301 section 4.4.1
    /// demands.
    pub bypass_the_rest: bool,
    /// A file of rules that are in force from the start.
    pub rules: Option<PathBuf>,
    /// ICMP errors for this host that are believed from those networks; `None`: all but redirects (RFC 4301 section 6.1.2).
    pub icmp: Option<Vec<IcmpKind>>,
}

impl Reader<'_> {
    pub(super) fn gateway(
        &mut self,
        value: Option<&Value<'_>>,
        tun: &str,
        uplinks: Option<&[String]>,
    ) -> Option<GatewayConfig> {
        let table = self.table(value, "gateway", &KEYS)?;
        let remedy = "write: inside = [\"lan0\"], the interfaces of the networks behind this host";
        let Some(inside) = table.get("inside") else {
            let at = value.map_or(0..0, |value| value.span());
            self.fault(at, "`inside` is missing in [gateway]", remedy);
            return None;
        };
        let inside = self.insides(inside, tun, uplinks);
        let bypass_the_rest = match table.get("default") {
            None => false,
            Some(value) => match self.string(value, "default") {
                Some("bypass") => true,
                Some("discard") | None => false,
                Some(word) => {
                    let remedy = match suggestion(word, &DEFAULTS) {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => "use \"discard\" (what no rule matches ends) or \"bypass\"".to_owned(),
                    };
                    let message = format!("{word:?} is nothing that can happen to packets without a rule");
                    self.fault(value.span(), message, remedy);
                    false
                }
            },
        };
        let rules = table.get("rules").and_then(|value| self.path(value, "rules"));
        let icmp = table.get("icmp").and_then(|value| self.kinds(value, "icmp"));
        Some(GatewayConfig { inside, bypass_the_rest, rules, icmp })
    }

    fn insides(&mut self, value: &Value<'_>, tun: &str, uplinks: Option<&[String]>) -> Vec<String> {
        let remedy = "write: inside = [\"lan0\"], the interfaces of the networks behind this host";
        let Some(array) = value.get_ref().as_array().filter(|a| !a.is_empty()) else {
            self.fault(value.span(), "`inside` must be a list of one or more interface names", remedy);
            return Vec::new();
        };
        let mut names = Vec::new();
        let mut seen = BTreeSet::new();
        for item in array.iter() {
            let Some(name) = self.interface(item, "inside") else { continue };
            if name == "lo" || name == tun {
                let message = format!("{name:?} leads to no network behind this host");
                self.fault(item.span(), message, remedy);
            } else if uplinks.is_some_and(|uplinks| uplinks.contains(&name)) {
                let message = format!("{name:?} is inside and an uplink");
                let remedy =
                    "an interface leads either to a network that is protected or out: take it from one list";
                self.fault(item.span(), message, remedy);
            } else if !seen.insert(name.clone()) {
                self.fault(item.span(), format!("{name:?} is named twice"), "remove one of them");
            } else {
                names.push(name);
            }
        }
        names
    }
}
