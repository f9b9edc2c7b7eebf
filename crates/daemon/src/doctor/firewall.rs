//! Rules of the host's firewall that ask for an uplink by which protected packets no longer arrive: they come in by the TUN
//! (ravelin-firewall(7)).

use std::process::Command;

use api::{Check, CheckState};
use serde_json::Value;

use config::Config;

/// Rules that are told.
const TOLD: usize = 8;

/// What the host's nftables say of it; `None`: there are none, or no such rule.
pub(super) fn check(config: &Config) -> Option<Check> {
    let uplinks = crate::uplinks::choose(config).ok()?;
    let uplinks: Vec<&str> = uplinks.iter().map(|uplink| uplink.name.as_str()).collect();
    // The rules of iptables are among it, where that is a front of nftables.
    let listed = Command::new("nft").args(["-j", "list", "ruleset"]).output().ok()?;
    let ruleset = serde_json::from_slice(&listed.stdout).ok()?;
    let found = of_uplinks(&ruleset, &uplinks, &config.tun.name, config.esp.port);
    let more = match found.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!found.is_empty()).then(|| Check {
        name: "firewall".to_owned(),
        state: CheckState::Warn,
        found: format!(
            "rules for packets of an uplink, which protected packets do not match as they arrive by {}: {}{more}",
            config.tun.name,
            found.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ")
        ),
        remedy: Some(format!(
            "write `iifname {{ \"{}\", \"{}\" }}` in them, where they are meant for what programs receive (ravelin-firewall(7))",
            uplinks.first().unwrap_or(&"eth0"),
            config.tun.name
        )),
    })
}

/// Rules of incoming packets that name an uplink and not the TUN, but for those of ESP and AH themselves.
fn of_uplinks(ruleset: &Value, uplinks: &[&str], tun: &str, port: u16) -> Vec<String> {
    let list = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|entry| &entry["rule"])
        .filter(|rule| {
            let parts = rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default();
            let matches = || parts.iter().map(|part| &part["match"]);
            let asks =
                |name: &str| matches().any(|one| is_of(one, "iifname", name) || is_of(one, "iif", name));
            uplinks.iter().any(|uplink| asks(uplink))
                && !asks(tun)
                && !matches().any(|one| is_outer(one, port))
        })
        .map(|rule| {
            let word = |key: &str| rule[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} handle {}", word("family"), word("table"), word("chain"), rule["handle"])
        })
        .collect()
}

/// Whether a match is about this key and names the device, also by its beginning.
fn is_of(one: &Value, key: &str, name: &str) -> bool {
    let is = |value: &Value| match value.as_str() {
        Some(text) => match text.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => text == name,
        },
        None => false,
    };
    let right = &one["right"];
    let set = right["set"].as_array().map(Vec::as_slice).unwrap_or_default();
    one["left"]["meta"]["key"] == key && (is(right) || set.iter().any(is))
}

/// Whether it is about the packets that carry the protected ones.
fn is_outer(one: &Value, port: u16) -> bool {
    let (left, right) = (&one["left"], &one["right"]);
    let has = |wanted: &dyn Fn(&Value) -> bool| {
        wanted(right) || right["set"].as_array().is_some_and(|set| set.iter().any(wanted))
    };
    let protocol = left["meta"]["key"] == "l4proto"
        || ["protocol", "nexthdr"].iter().any(|field| left["payload"]["field"] == **field);
    let is_protocol =
        |value: &Value| ["esp", "ah"].iter().any(|word| value == word) || value == 50 || value == 51;
    let is_port = |value: &Value| value.as_u64() == Some(u64::from(port));
    protocol && has(&is_protocol)
        || left["payload"]["protocol"] == "udp" && left["payload"]["field"] == "dport" && has(&is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule set in the JSON that nft 1.0.6 prints.
    const RULES: &str = r#"{"nftables": [
      {"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "filter", "handle": 1}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}},
        {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 5, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": {"set": ["eth0", "eth1"]}}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 6, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}},
        {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4500}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 7, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}},
        {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "esp"}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 9, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": {"set": ["eth0", "rvl0"]}}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 10, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lan0"}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 11, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth*"}}, {"accept": null}]}},
      {"rule": {"family": "inet", "table": "filter", "chain": "output", "handle": 14, "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "eth0"}}, {"accept": null}]}}
    ]}"#;

    #[test]
    fn rules_that_name_an_uplink_and_not_the_tun_are_found() {
        let rules = serde_json::from_str(RULES).unwrap();
        let found = of_uplinks(&rules, &["eth0"], "rvl0", 4500);
        let handle = |number: u32| format!("inet filter input handle {number}");
        assert_eq!(found, [3, 5, 11].map(handle));
        assert_eq!(of_uplinks(&rules, &["lan0"], "rvl0", 4500), [handle(10)]);
        assert_eq!(of_uplinks(&Value::Null, &["eth0"], "rvl0", 4500), [] as [&str; 0]);
    }
}
